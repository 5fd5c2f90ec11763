"""Curves by consent: what the parties learn, that the aggregator learns nothing, and that nobody forges it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from fheval import ConfigError, Grid, RemoteProtocolError, Result, Table, VerificationFailed, evaluate
from fheval.errors import CapacityError, CohortTooSmall, UndefinedMetric
from fheval.evaluation import run
from fheval.evaluation.curves import Curve
from fheval.metrics.registry import auc_batch
from fheval.protocols import PROTOCOLS, curve, padding
from fheval.protocols.base import Seat, Stage
from fheval.protocols.curve import CountsRelease, PaddedSums, TaggedCounts, leader_open, party_submit
from fheval.protocols.play import Members
from fheval.protocols.round import (
    Contribution,
    PartySecrets,
    PublicSetup,
    Round,
    SealedVerdict,
    Verdict,
    leader_seal,
    pad_seed,
    party_unseal,
)
from fheval.secrets import Secret, SystemRandomness
from fheval.study import Slice
from fheval.wire import encode
from fheval_lab.clear import ClearEngine

POINTS = 21
RNG = SystemRandomness()
SEED = Secret(bytes(range(32)))
MASTER = Secret(bytes(range(32, 64)))


def ask(parties: Any, **options: Any) -> Result:
    return evaluate(parties, release="curve", allow_curves=True, decision_points=Grid.even(POINTS), **options)


def on_the_points(rng: np.random.Generator, rows: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    labels = rng.integers(0, 2, rows)
    return labels, np.clip(np.round(0.3 * labels + 0.7 * rng.random(rows), 1), 0.05, 1.0)


def test_the_numbers_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    parties = [on_the_points(rng, 80) for _ in range(3)]
    y, s = (np.concatenate([each[i] for each in parties]) for i in range(2))
    result = ask(parties)
    assert result.value("auc") == pytest.approx(roc_auc_score(y, s), abs=1e-12)
    assert result.value("average-precision") == pytest.approx(average_precision_score(y, s), abs=1e-12)
    false_rate, true_rate, _ = roc_curve(y, s, drop_intermediate=False)
    assert result.value("ks") == pytest.approx(np.max(true_rate - false_rate), abs=1e-12)
    (found,) = result.curves
    corners = set(zip(*(axis.round(9).tolist() for axis in found.roc()), strict=True))
    assert corners == set(zip(false_rate.round(9).tolist(), true_rate.round(9).tolist(), strict=True))
    precision, recall, _ = precision_recall_curve(y, s)
    corners = set(zip(*(axis.round(9).tolist() for axis in found.precision_recall()), strict=True))
    assert corners == set(zip(precision[:-1].round(9).tolist(), recall[:-1].round(9).tolist(), strict=True))
    shares, means = calibration_curve(y, s, n_bins=10)
    found_means, found_shares, samples = found.reliability()
    assert found_shares == pytest.approx(shares)
    assert found_means == pytest.approx(means, abs=2**-20)
    assert samples.sum() == len(y)
    ece = sum(n / len(y) * abs(a - b) for n, a, b in zip(samples, shares, means, strict=True))
    assert result.value("ece") == pytest.approx(ece, abs=2**-20)


def test_the_json_has_the_counts() -> None:
    result = ask([([1, 0], [0.9, 0.2])] * 3).to_dict()
    assert (result["engine"], result["precision"], result["auc"]) == ("none", "exact", 1.0)
    (found,) = result["curves"]
    assert (found["model"], found["class"], found["group"]) == (None, None, None)
    assert len(found["thresholds"]) == POINTS
    assert (found["true_positives"][-1], found["false_positives"][-1]) == (3, 3)
    assert sum(found["calibration"]["samples"]) == 6


def test_models_classes_and_groups_have_curves_of_their_own() -> None:
    rng = np.random.default_rng(4)
    parties = []
    for _ in range(3):
        numbers = rng.integers(0, 2, 100)
        scores = {"old": rng.random((100, 2)), "new": rng.random((100, 2))}
        parties.append(Table.of(numbers, scores, groups=rng.choice(["F", "M"], 100)))
    result = ask(parties, classes=[0, 1], group_column="sex")
    assert len(result.curves) == 2 * 2 * 3
    for each in result.curves:
        assert each.tp[-1] + each.fp[-1] == (300 if each.where.group is None else each.tp[-1] + each.fp[-1])
    small = ask([Table.of([1, 0] * 15, [0.9, 0.1] * 15, groups=["F"] * 25 + ["X"] * 5)] * 3, group_column="sex")
    assert [each.where.group for each in small.curves] == [None]


def test_scores_that_are_no_probabilities_have_no_calibration() -> None:
    result = evaluate(
        [([1, 0], [5.0, -3.0])] * 3, release="curve", allow_curves=True, decision_points=Grid.explicit([4, 0, -4])
    )
    assert [row.metric for row in result.results] == ["auc", "average-precision", "ks"]
    with pytest.raises(UndefinedMetric, match="not probabilities"):
        result.curves[0].reliability()


def test_one_class_leaves_what_it_can() -> None:
    rows = {row.metric: row for row in ask([([1], [0.5])] * 3).results}
    assert rows["average-precision"].value == 1.0
    assert "one class" in str(rows["auc"].error)
    assert "one class" in str(rows["ks"].error)
    assert rows["ece"].value == pytest.approx(0.5, abs=1e-6)
    nothing = Curve(Slice("", None, None), Grid.even(2), np.zeros(2, np.int64), np.zeros(2, np.int64))
    with pytest.raises(UndefinedMetric, match="no sample is positive"):
        nothing.precision_recall()


def test_without_consent_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was sent")

    monkeypatch.setattr(run, "play", never)
    table = Table.of([1, 0] * 30, [0.9, 0.1] * 30, groups=["F", "M"] * 30)
    for options in ({}, {"allow_curves": False}, {"group_column": "sex"}):
        with pytest.raises(ConfigError, match="curves are not allowed"):
            evaluate([table] * 3, release="curve", **options)


def test_a_curve_goes_with_no_other_metric_protocol_or_interval() -> None:
    pair = ([1, 0], [0.9, 0.2])
    for options in ({"metrics": ["f1"]}, {"ci": 0.95}, {"protocol": "paper-semi-honest"}, {"minimum_cohort": 4}):
        with pytest.raises((ConfigError, CohortTooSmall)):
            ask([pair] * 3, **options)
    with pytest.raises(CapacityError, match="Lower max_samples"):
        ask([pair] * 3, max_samples=1 << 30)


def a_round(protocol: str = "padded", sums: int = 4, round_id: str = "00" * 16) -> Round:
    return Round(
        id=round_id, protocol=protocol, engine="none", parties=("a", "b", "c"), leader="a",
        precision=None, sums=sums,
    )  # fmt: skip


def released_by(protocol: str) -> CountsRelease:
    counts = PROTOCOLS[protocol].counts
    assert isinstance(counts, CountsRelease)
    return counts


def no_keys(round_: Round) -> tuple[PartySecrets, PublicSetup]:
    """There is no FHE here: the leader has seeds alone."""
    return secrets_of(round_.leader), PublicSetup(round=round_.id, sender=round_.leader, keys=())


def secrets_of(party: str) -> PartySecrets:
    """A leader's, whichever party leads."""
    return PartySecrets(seed=SEED, pad_seed=pad_seed(MASTER, party), master=MASTER)


def submitted(round_: Round, name: str, own: NDArray[np.int64]) -> TaggedCounts:
    tags = released_by(round_.protocol).tags
    return party_submit(round_, secrets_of(name), name, Contribution(own), tags, name.encode() * 16)


def opened(round_: Round, sums: PaddedSums) -> list[int]:
    counts: list[int] = leader_open(round_, secrets_of("a"), sums, released_by(round_.protocol).tags).tolist()
    return counts


def aggregator_of(round_: Round) -> Any:
    return released_by(round_.protocol).aggregator(ClearEngine(), round_, no_keys(round_)[1], RNG)


NONCES = b"".join(name.encode() * 16 for name in "abc")
OWN = {"a": np.array([1, 2, 3, 4]), "b": np.array([0, 0, 7, 1]), "c": np.array([9, 1, 0, 0])}


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_all_roles_come_to_the_sums(protocol: str) -> None:
    round_ = a_round(protocol)
    own = {name: Contribution(each[np.newaxis]) for name, each in OWN.items()}
    members = Members(PROTOCOLS[protocol], ClearEngine(), round_, own, RNG, keys=no_keys(round_))
    verdict = members.play()
    assert verdict.counts == (10, 3, 10, 5)
    assert verdict.roster == ("a", "b", "c")
    assert verdict.ratios == ()
    assert (verdict.verified, verdict.soundness_bits) == ((None, None) if protocol == "padded" else (True, 92.0))
    # The leader opened the sums; another party was told.
    assert {name: each.checked for name, each in members.verdicts.items()} == {"a": True, "b": False}
    assert {each.counts for each in members.verdicts.values()} == {verdict.counts}


def test_a_round_of_ratios_releases_no_counts_and_not_every_protocol_releases_any() -> None:
    """A study says which of both it is; that the parties agree to it is checked before: here, and by their vaults."""
    ratios = Round(
        id="00" * 16, protocol="padded", engine="none", batch=auc_batch(5, 100), parties=("a", "b", "c"), leader="a"
    )
    with pytest.raises(CapacityError, match="not 0 counts"):
        submitted(ratios, "a", OWN["a"])
    with pytest.raises(RemoteProtocolError, match="bytes of padded counts instead of 0"):
        opened(ratios, _summed(a_round()))
    assert PROTOCOLS["padded"].of_round(ratios) is PROTOCOLS["padded"]
    with pytest.raises(ConfigError, match="paper-semi-honest has no release of counts"):
        PROTOCOLS["paper-semi-honest"].of_round(a_round("paper-semi-honest"))


def test_a_leader_opens_sums_for_those_who_proved_to_have_uploaded() -> None:
    round_, release = a_round(), released_by("padded")
    secrets, _ = no_keys(round_)
    signed = {name: name.encode() * 16 for name in "abc"}
    seat = Seat(engine=ClearEngine(), round=round_, me="a", secrets=secrets, rng=RNG, uploaded=signed)
    body = encode(_summed(round_))
    answered = release.answer(seat, Stage.RESULT, body)
    assert answered.verdict is not None
    assert answered.verdict.counts == (10, 3, 10, 5)
    for others in ({"a": signed["a"], "b": signed["b"]}, signed | {"b": bytes(16)}):
        with pytest.raises(RemoteProtocolError, match="not that of the uploads"):
            release.answer(replace(seat, uploaded=others), Stage.RESULT, body)


def _summed(round_: Round) -> PaddedSums:
    aggregator = aggregator_of(round_)
    for name, own in OWN.items():
        aggregator.receive(submitted(round_, name, own))
    sums: PaddedSums = aggregator.result()
    return sums


def test_uploads_and_their_sum_are_fresh_and_uniform() -> None:
    """A pad that repeats, or is missing, would show in an upload of zeros."""
    nothing = np.zeros(2000, dtype=np.int64)
    seen = [
        submitted(a_round(sums=2000, round_id=f"{number:032x}"), name, nothing).values
        for number in range(2)
        for name in "ab"
    ]
    assert len(set(map(bytes, seen))) == 4
    values = np.frombuffer(seen[0], dtype="<u2").reshape(-1, 3)[:, :2].astype(np.float64)
    assert abs(values.mean() / 65535 - 0.5) < 0.03


@settings(max_examples=60)
@given(st.integers(0, 11), st.integers(1, curve.PRIME - 1))
def test_a_sum_that_was_changed_is_refused(place: int, shift: int) -> None:
    round_ = a_round("padded-verified")
    honest = padding.UploadSum(12)
    for name, own in OWN.items():
        honest.add(submitted(round_, name, own).values, name)
    (values,) = honest.totals([curve.PRIME])
    values[place] = (int(values[place]) + shift) % curve.PRIME
    forged = PaddedSums(round=round_.id, roster=("a", "b", "c"), nonces=NONCES, values=padding.pack([values]))
    with pytest.raises(VerificationFailed):
        opened(round_, forged)


def test_dropouts_are_left_out_and_a_small_cohort_is_refused() -> None:
    round_ = a_round()
    aggregator = aggregator_of(round_)
    aggregator.receive(submitted(round_, "a", OWN["a"]))
    with pytest.raises(RemoteProtocolError, match="twice"):
        aggregator.receive(submitted(round_, "a", OWN["a"]))
    with pytest.raises(CohortTooSmall):
        aggregator.result()
    sums = _summed(round_)
    with pytest.raises(CohortTooSmall):
        opened(round_, PaddedSums(round=round_.id, roster=("a",), nonces=bytes(16), values=sums.values))
    with pytest.raises(RemoteProtocolError, match="another round"):
        opened(a_round(round_id="11" * 16), sums)


def test_counts_are_sealed_for_their_own_round_only() -> None:
    round_, secrets = a_round(), secrets_of("b")
    sealed = leader_seal(round_, secrets, Verdict(roster=("a", "b", "c"), counts=(1, 2, 3, 4)), RNG)
    assert party_unseal(round_, secrets, sealed).counts == (1, 2, 3, 4)
    altered = SealedVerdict(round=round_.id, box=sealed.box[:-1] + bytes([sealed.box[-1] ^ 1]))
    for seed, message in ((Secret(bytes(32)), sealed), (SEED, altered)):
        with pytest.raises(RemoteProtocolError, match="altered"):
            party_unseal(round_, replace(secrets, seed=seed), message)
    with pytest.raises(RemoteProtocolError, match="another round"):
        party_unseal(a_round(round_id="11" * 16), secrets, sealed)


def test_counts_that_would_overflow_are_refused() -> None:
    for bad in ([1, 2, 3], [-1, 0, 0, 0], [1 << 45, 0, 0, 0]):
        with pytest.raises(CapacityError):
            submitted(a_round(), "a", np.array(bad))
