"""The malicious setting as the paper has it: masks, multipliers, splits, permutation, two runs, five digits."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fheval.errors import VerificationFailed
from fheval.metrics.registry import auc_contribution
from fheval.protocols import paper_malicious
from fheval.protocols.paper_malicious import (
    LARGEST_MASK_BOUND,
    LEAST_MASK_BOUND,
    RUNS,
    TOLERANCE,
    BlindedResults,
    CommonRandomness,
    mask_bound,
    party_masks,
    split,
)
from fheval.secrets import Secret, SystemRandomness, new_seed
from protocols.rounds import Cast, a_round, again, contributions_of, curve, parameters_of, pooled
from protocols.statistics import looks_uniform

RNG = SystemRandomness()
ROUND = a_round("paper-malicious", 5, decision_points=100)
SEED = new_seed(RNG)
SIDES = ("tr", "fr")


def multipliers(common: CommonRandomness) -> list[float]:
    return [common.r3, common.r4, common.r5, common.r6, common.r7, common.r8]


# Set-up: what the parties have in common


@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("side", SIDES)
def test_masks_are_integers_that_sum_to_zero_over_the_roster_exactly(run: int, side: str) -> None:
    masks = [party_masks(SEED, ROUND, run, party, side) for party in ROUND.parties]
    assert all(len(mask) == 101 and np.array_equal(mask, np.rint(mask)) for mask in masks)
    assert not np.any(np.sum(masks, axis=0))
    assert [sum(map(int, column)) for column in zip(*masks, strict=True)] == [0] * 101
    # Not because they are zero themselves, and not with any party left out.
    assert all(np.count_nonzero(mask) > 90 for mask in masks)
    for left_out in range(len(masks)):
        assert np.count_nonzero(np.sum(masks[:left_out] + masks[left_out + 1 :], axis=0)) > 90


@pytest.mark.parametrize(("max_samples", "bound"), [(1, LEAST_MASK_BOUND), (5000, 5000), (1 << 24, LARGEST_MASK_BOUND)])
def test_masks_are_uniform_and_as_large_as_any_count_within_bounds(max_samples: int, bound: int) -> None:
    round_ = again(ROUND, max_samples=max_samples)
    assert mask_bound(round_) == bound
    drawn = np.concatenate([party_masks(SEED, again(round_), 0, "hospital-1", "tr") for _ in range(40)])
    assert np.abs(drawn).max() <= bound
    assert looks_uniform(drawn + np.linspace(-0.5, 0.5, len(drawn)), -bound, bound)


def test_no_two_masks_are_alike() -> None:
    later = again(ROUND)
    seen = {
        party_masks(seed, round_, run, party, side).tobytes()
        for seed in (SEED, new_seed(RNG))
        for round_ in (ROUND, later)
        for run in range(RUNS)
        for party in ROUND.parties
        for side in SIDES
    }
    assert len(seen) == 2 * 2 * RUNS * 5 * 2


def test_multipliers_are_six_different_ones_and_fresh_for_every_run_and_round() -> None:
    rounds = [again(ROUND) for _ in range(50)]
    drawn = [multipliers(CommonRandomness.derive(SEED, round_, run)) for round_ in rounds for run in range(RUNS)]
    values = [value for six in drawn for value in six]
    assert len(set(values)) == len(values) == 50 * RUNS * 6
    assert looks_uniform(np.log2(values), *paper_malicious.MULTIPLIER_EXPONENTS)


def test_the_permutation_moves_all_slots_and_differs_between_runs_and_rounds() -> None:
    orders = [
        CommonRandomness.derive(SEED, round_, run).order for round_ in (ROUND, again(ROUND)) for run in range(RUNS)
    ]
    for order in orders:
        assert sorted(order.tolist()) == list(range(400))
        assert np.count_nonzero(order == np.arange(400)) < 20
    assert len({order.tobytes() for order in orders}) == 4


def test_the_bits_take_both_sides_about_equally_and_differ_between_runs() -> None:
    first, second = (CommonRandomness.derive(SEED, ROUND, run).split_left for run in range(RUNS))
    assert len(first) == 100
    assert 20 < np.count_nonzero(first) < 80
    assert first.tolist() != second.tolist()


def test_every_party_derives_the_same_from_the_seed_and_nothing_else() -> None:
    copy = Secret(bytes(SEED.reveal()))
    for run in range(RUNS):
        mine, theirs = CommonRandomness.derive(SEED, ROUND, run), CommonRandomness.derive(copy, ROUND, run)
        assert multipliers(mine) == multipliers(theirs)
        assert mine.order.tolist() == theirs.order.tolist()
        assert mine.split_left.tolist() == theirs.split_left.tolist()
        other = CommonRandomness.derive(new_seed(RNG), ROUND, run)
        assert not set(multipliers(mine)) & set(multipliers(other))
        assert mine.order.tolist() != other.order.tolist()


# Steps 3 to 8: what one party sends


@pytest.mark.parametrize("splits", [1, 2, 4, 7])
def test_splits_recombine_on_the_side_that_the_bit_names(splits: int) -> None:
    t, f = np.linspace(-900, 4000, 9), np.linspace(70, -3, 9)
    left = np.arange(9) % 2 == 0
    t_all, f_all = (side.reshape(9, splits) for side in split(t, f, left, splits, 1 << 12, RNG))
    np.testing.assert_allclose(t_all[left].sum(axis=1), t[left], rtol=1e-9)
    np.testing.assert_allclose(f_all[~left].sum(axis=1), f[~left], rtol=1e-9, atol=1e-9)
    assert np.array_equal(f_all[left], np.repeat(f[left, None], splits, axis=1))
    assert np.array_equal(t_all[~left], np.repeat(t[~left, None], splits, axis=1))
    assert float((t_all * f_all).sum()) == pytest.approx(float(t @ f), rel=1e-6)


def test_shares_are_fresh_uniform_and_hide_what_they_share() -> None:
    t = f = np.full(500, 1e3)
    left = np.ones(500, dtype=bool)
    first, second = (split(t, f, left, 4, 1 << 12, RNG)[0].reshape(500, 4) for _ in range(2))
    assert not np.any(first == second)
    assert looks_uniform(first[:, :3].ravel(), -(1 << 12), 1 << 12)
    assert np.abs(first[:, 3]).mean() > 1 << 11


@pytest.mark.parametrize("party", ["hospital-1", "hospital-3"])
def test_an_upload_holds_what_the_printed_steps_say(party: str) -> None:
    """Read back from the plaintext engine, slot by slot; the last party's masks are minus the sum of the others'."""
    cast = Cast(a_round("paper-malicious", 3, decision_points=6, splits=3))
    counts = curve(40, 70)
    upload = cast.upload(party, auc_contribution(counts))
    holder = cast.engine.key_holder(parameters_of(cast.round)[0], cast.secrets.keys[0])
    for run, ciphertexts in enumerate(upload.runs):
        common = CommonRandomness.derive(cast.secrets.seed, cast.round, run)
        tr, fr = (party_masks(cast.secrets.seed, cast.round, run, party, side) for side in SIDES)
        t_all, f_all, dt, df = (holder.decrypt(data).real for data in ciphertexts)
        # Step 8 and 7: nothing but S·N shuffled slots, DT and DF.
        assert not np.any(t_all[18:])
        assert not np.any(f_all[18:])
        assert not np.any(dt[1:])
        assert not np.any(df[1:])
        t_parts, f_parts = np.empty((6, 3)), np.empty((6, 3))
        t_parts.ravel()[common.order] = t_all[:18]
        f_parts.ravel()[common.order] = f_all[:18]
        # Step 6: shares on one side, copies on the other.
        left = common.split_left
        t = np.where(left, t_parts.sum(axis=1), t_parts[:, 0])
        f = np.where(left, f_parts[:, 0], f_parts.sum(axis=1))
        assert np.ptp(t_parts[~left], axis=1).max(initial=0) == np.ptp(f_parts[left], axis=1).max(initial=0) == 0
        # Steps 3, 4 and 5.
        assert_close(t[:-1], common.r3 * (counts.t + tr[:5]))
        assert_close(f[:-1], common.r4 * (counts.f + fr[:5]))
        assert_close(t[-1], common.r5 * (counts.positives + tr[5]))
        assert_close(f[-1], common.r6 * (2 * counts.negatives + fr[5]))
        assert_close(dt[0], common.r7 * (counts.positives + tr[6]))
        assert_close(df[0], common.r8 * (2 * counts.negatives + fr[6]))


def assert_close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_the_two_runs_of_an_upload_share_no_value() -> None:
    cast = Cast(a_round("paper-malicious", 3))
    first, second = cast.upload("hospital-1", auc_contribution(curve(40, 70))).runs
    holder = cast.engine.key_holder(parameters_of(cast.round)[0], cast.secrets.keys[0])
    for one, other in zip(first, second, strict=True):
        values, others = (holder.decrypt(data).real for data in (one, other))
        assert not set(values[values != 0]) & set(others[others != 0])


# Step 12: the verification


def forged(cast: Cast, ratios: list[float], factor: float = 1e9) -> BlindedResults:
    """An answer that solves to these ratios, one for each run."""
    holder = cast.engine.key_holder(parameters_of(cast.round)[0], cast.secrets.keys[0])
    runs = []
    for run, ratio in enumerate(ratios):
        common = CommonRandomness.derive(cast.secrets.seed, cast.round, run)
        x = factor * (common.r3 * common.r4 * ratio + common.r5 * common.r6)
        runs.append((holder.encrypt(np.array([x])), holder.encrypt(np.array([factor * common.r7 * common.r8]))))
    return BlindedResults(round=cast.round.id, roster=cast.round.parties, runs=tuple(runs))


@pytest.mark.parametrize(
    ("ratios", "accepted"),
    [
        ([0.7, 0.7], True),
        ([0.7, 0.7 + 0.9 * TOLERANCE], True),
        ([0.7, 0.7 + 1.1 * TOLERANCE], False),
        ([0.7 + 1.1 * TOLERANCE, 0.7], False),
        ([0.0, 0.0], True),
        ([1.0, 1.0], True),
        ([1.1, 1.1], False),
        ([-0.1, -0.1], False),
    ],
    ids=str,
)
def test_two_runs_must_agree_to_five_decimals_within_zero_and_one(ratios: list[float], accepted: bool) -> None:
    cast = Cast(a_round("paper-malicious", 3))
    answer = forged(cast, ratios)
    if accepted:
        assert cast.open(answer).ratio() == pytest.approx(sum(ratios) / 2, abs=1e-9)
    else:
        with pytest.raises(VerificationFailed) as caught:
            cast.open(answer)
        assert (caught.value.step, caught.value.culprit) == ("verification", "aggregator")


def test_a_run_without_an_answer_is_no_agreement() -> None:
    cast = Cast(a_round("paper-malicious", 3))
    honest = forged(cast, [0.7, 0.7])
    holder = cast.engine.key_holder(parameters_of(cast.round)[0], cast.secrets.keys[0])
    nothing = holder.encrypt(np.array([0.0]))
    with pytest.raises(VerificationFailed):
        cast.open(msgspec.structs.replace(honest, runs=(honest.runs[0], (nothing, nothing))))


@pytest.mark.parametrize("splits", [1, 2, 7])
def test_any_number_of_splits_gives_the_same_result_and_its_own_bound(splits: int) -> None:
    cast = Cast(a_round("paper-malicious", 3, splits=splits))
    counts = [curve(30, 10), curve(0, 50), curve(9, 9)]
    outcome = cast.open(cast.result_of(cast.served(contributions_of(cast.round, counts))))
    assert outcome.ratio() == pytest.approx(pooled(counts).auc(), abs=1e-8)
    assert outcome.soundness_bits == paper_malicious.soundness_bits(6, splits)


def test_upload_and_answer_are_twice_those_of_the_semi_honest_protocol() -> None:
    counts = [curve(30, 10)] * 3
    sizes: dict[str, list[int]] = {}
    for protocol in ("paper-semi-honest", "paper-malicious"):
        cast = Cast(a_round(protocol, 3))
        contributions: dict[str, Any] = contributions_of(cast.round, counts)
        upload = cast.upload("hospital-1", contributions["hospital-1"])
        result = cast.result_of(cast.served(contributions))
        parts = (
            [upload.runs, result.runs]
            if protocol == "paper-malicious"
            else [[upload.ciphertexts], [result.ciphertexts]]
        )
        sizes[protocol] = [sum(len(data) for run in runs for data in run) for runs in parts]
    assert sizes["paper-malicious"] == [2 * size for size in sizes["paper-semi-honest"]]
