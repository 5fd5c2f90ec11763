"""Rounds that release curves: the members learn the pooled counts where their study says so, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from fheval.aggregator.conductor import Report, drive
from fheval.aggregator.round_in_play import Exchange
from fheval.cli.vault_views import rounds_json, rounds_table
from fheval.counting import Grid
from fheval.engines import load_engine
from fheval.errors import ConfigError
from fheval.evaluation.curves import Curve, read_curves
from fheval.party.columns import StudyColumns
from fheval.party.messages import REFUSAL, Relay
from fheval.protocols import PROTOCOLS, base
from fheval.protocols.base import Stage
from fheval.protocols.curve import PRIME, PaddedSums
from fheval.protocols.padding import UploadSum, pack
from fheval.protocols.round import Ending, Verdict, leader_seal
from fheval.wire import decode, encode
from vault.requests import a_party, changed, is_aborted, is_refused, opened, played_until
from vault.trial import NAMES, PADDED, PAPER, POINTS, PicksTheFirst, Trial, Wire

Log = pytest.LogCaptureFixture
Patch = pytest.MonkeyPatch

LEADER = "alder"
CHECKING = ("birch", "cedar")


@pytest.fixture
def curves(trial: Trial) -> Trial:
    """Vaults of which two open results themselves."""
    trial.checking |= set(CHECKING)
    return trial


def play(trial: Trial, wire: Wire, protocol: str = "padded", **options: Any) -> Report:
    """A round that the first member leads."""
    return drive(trial.conduct(trial.study(protocol, release="curve"), rng=PicksTheFirst(), **options), wire)


def verdict_of(trial: Trial, name: str) -> Verdict:
    verdict = trial.last(name).verdict
    assert verdict is not None
    return verdict


def curve_of(trial: Trial, name: str) -> Curve:
    """The curve that a member holds after its newest round."""
    (curve,) = read_curves(trial.last(name).study, (), verdict_of(trial, name).counts)
    return curve


def rows_of(trial: Trial, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The labels and scores of these members, read from their files."""
    lines = [line.split(",") for name in names for line in trial.data(name).read_text().splitlines()[1:]]
    return np.array([int(label) for label, _ in lines]), np.array([float(score) for _, score in lines])


def is_pooled(trial: Trial, curve: Curve, names: Sequence[str] = NAMES) -> bool:
    """Whether these are the counts over all rows, counted here row by row and point by point."""
    labels, scores = rows_of(trial, names)
    points = Grid.even(POINTS).points
    called = [*(scores > point for point in points[:-1]), np.ones(len(scores), dtype=bool)]
    calibration = curve.to_dict()["calibration"]
    return (
        curve.tp.tolist() == [int(labels[each].sum()) for each in called]
        and curve.fp.tolist() == [int((1 - labels[each]).sum()) for each in called]
        and (sum(calibration["samples"]), sum(calibration["positives"])) == (len(labels), labels.sum())
        and sum(calibration["sum_of_probabilities"]) == pytest.approx(scores.sum(), abs=1e-3)
    )


@pytest.mark.parametrize("protocol", PADDED)
def test_every_member_holds_the_pooled_counts(curves: Trial, protocol: str) -> None:
    report = play(curves, Wire(curves), protocol)
    assert report.roster == report.confirmed == NAMES
    for name in NAMES:
        verdict = verdict_of(curves, name)
        assert (verdict.ending, verdict.roster, verdict.ratios) == (Ending.RELEASED, NAMES, ())
        assert (verdict.verified, verdict.checked) == (
            True if protocol == "padded-verified" else None,
            name == LEADER or name in CHECKING,
        )
        assert is_pooled(curves, curve_of(curves, name))
    soundness = verdict_of(curves, "maple").soundness_bits
    # Two tags in a field of 46 bits.
    assert soundness == (pytest.approx(92, abs=0.5) if protocol == "padded-verified" else None)


def test_a_round_has_three_exchanges_and_no_keys_for_ciphertexts(curves: Trial) -> None:
    wire = Wire(curves)
    report = play(curves, wire)
    asked = list(dict.fromkeys(stage for stage, _, _ in wire.requests))
    assert asked == [Stage.SETUP, Stage.HELLO, Stage.SUBMIT, Stage.RESULT, Stage.BROADCAST]
    assert report.keys.public.keys == ()


def test_with_the_engine_of_a_deployment(curves: Trial) -> None:
    curves.engine = load_engine()
    curves.start()
    play(curves, Wire(curves), "padded-verified")
    assert is_pooled(curves, curve_of(curves, "hazel"))


@pytest.mark.parametrize("protocol", PADDED)
def test_those_who_are_away_are_left_out(curves: Trial, protocol: str) -> None:
    curves.stop("hazel")
    report = play(curves, Wire(curves), protocol)
    rest = tuple(name for name in NAMES if name != "hazel")
    assert (report.roster, report.dropped, len(report.attempts)) == (rest, ("hazel",), 1)
    assert all(is_pooled(curves, curve_of(curves, name), rest) for name in rest)


def test_a_second_round_under_the_same_keys_has_fresh_pads(curves: Trial) -> None:
    first, second = Wire(curves), Wire(curves)
    keys = play(curves, first).keys
    assert play(curves, second, keys=keys).keys.epoch == keys.epoch
    assert is_pooled(curves, curve_of(curves, "cedar"))
    assert first.reply(Stage.SUBMIT, "maple")[-900:-100] != second.reply(Stage.SUBMIT, "maple")[-900:-100]


def test_keys_of_a_curve_carry_no_ratio(curves: Trial) -> None:
    keys = play(curves, Wire(curves)).keys
    report = curves.play(keys=keys)
    assert report.keys.epoch != keys.epoch
    assert curves.released("cedar") == pytest.approx(curves.pooled(), abs=1e-4)


def test_each_curve_is_one_release(curves: Trial) -> None:
    for name in NAMES:
        rows = zip(*rows_of(curves, [name]), strict=True)
        lines = "".join(f"{label},{score},{1 - score}\n" for label, score in rows)
        curves.data(name).write_text("label,old,new\n" + lines)
        curves.columns[name] = StudyColumns(models={"old": "old", "new": "new"})
    curves.start()
    curves.play(curves.study(release="curve", models=("old", "new")))
    last = curves.last("maple")
    assert last.use is not None
    assert last.use.releases == 2
    old, new = read_curves(last.study, (), verdict_of(curves, "maple").counts)
    assert old.auc() + new.auc() == pytest.approx(1.0, abs=0.03)


def test_what_the_operator_sees(curves: Trial) -> None:
    play(curves, Wire(curves), "padded-verified")
    (found,) = rounds_json([curves.last("maple")])["rounds"]
    assert [row["metric"] for row in found["results"]] == ["auc", "average-precision", "ks", "ece"]
    assert found["auc"] == pytest.approx(curves.pooled(), abs=1e-12)
    (shown,) = found["curves"]
    curve = curve_of(curves, "maple")
    assert shown == {"model": None, "class": None, "group": None} | curve.to_dict()
    assert found["precision"] == "exact"
    console = Console(width=160)
    with console.capture() as capture:
        console.print(rounds_table([curves.last("maple")]))
    assert f"auc {curves.pooled():.4f}" in capture.get()


def test_without_samples_of_both_classes_there_are_counts_and_no_auc(curves: Trial) -> None:
    for name in NAMES:
        curves.data(name).write_text("label,score\n1,0.5\n1,0.7\n")
    curves.prepare()
    play(curves, Wire(curves))
    assert is_pooled(curves, curve_of(curves, "cedar"))
    (found,) = rounds_json([curves.last("cedar")])["rounds"]
    assert found["auc"] is None


# Where it is not allowed


@pytest.mark.parametrize("protocol", PAPER)
def test_a_protocol_that_has_no_curves(curves: Trial, caplog: Log, protocol: str) -> None:
    with pytest.raises(ConfigError, match="computes one AUC a round"):
        curves.study(protocol, release="curve")


# An aggregator that deviates


def changing(monkeypatch: Patch, protocol: str, change: Callable[[NDArray[np.uint64]], None]) -> None:
    """Let the aggregator answer with another sum; it is the same one for the leader and for those who check."""
    counts = PROTOCOLS[protocol].counts
    assert counts is not None
    aggregator: Any = counts.aggregator
    honest = aggregator.result

    def deviating(this: Any, *chosen: Any) -> PaddedSums:
        sums: PaddedSums = honest(this, *chosen)
        total = UploadSum(this.round.sums * (1 + this.tags))
        total.add(sums.values, "test")
        (values,) = total.totals([PRIME])
        change(values)
        return msgspec.structs.replace(sums, values=pack([values % np.uint64(PRIME)]))

    monkeypatch.setattr(aggregator, "result", deviating)


def _add_one_sample(values: NDArray[np.uint64]) -> None:
    values[3] += np.uint64(1)


def _change_all(values: NDArray[np.uint64]) -> None:
    values += np.uint64(1)


def _change_a_tag(values: NDArray[np.uint64]) -> None:
    values[-1] += np.uint64(1)


def _swap_two_counts(values: NDArray[np.uint64]) -> None:
    values[[3, 4]] = values[[4, 3]]


CHANGES = {
    "one sample more": _add_one_sample,
    "everything": _change_all,
    "a tag": _change_a_tag,
    "two counts swapped": _swap_two_counts,
    "nothing but zeros": lambda values: values.fill(0),
}


def sizes(wire: Wire) -> list[tuple[Stage, str, int]]:
    """What an aggregator sees of replies."""
    return sorted((stage, name, len(data)) for stage, name, data in wire.replies)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_sum_is_refused_by_all_and_the_aggregator_sees_no_difference(
    curves: Trial, monkeypatch: Patch, change: str
) -> None:
    honest, lying = Wire(curves), Wire(curves)
    play(curves, honest, "padded-verified")
    changing(monkeypatch, "padded-verified", CHANGES[change])
    assert play(curves, lying, "padded-verified").confirmed == NAMES
    for name in NAMES:
        verdict = verdict_of(curves, name)
        assert (verdict.ending, verdict.counts) == (Ending.REFUSED, ())
    assert sizes(lying) == sizes(honest)


def test_an_upload_that_was_added_twice_is_refused(curves: Trial, monkeypatch: Patch) -> None:
    counts = PROTOCOLS["padded-verified"].counts
    assert counts is not None
    aggregator: Any = counts.aggregator
    honest = aggregator.receive

    def twice(this: Any, upload: Any) -> None:
        honest(this, upload)
        if len(this.roster) == 1:
            this.uploads.add(upload.values, upload.sender)

    monkeypatch.setattr(aggregator, "receive", twice)
    play(curves, Wire(curves), "padded-verified")
    assert {verdict_of(curves, name).ending for name in NAMES} == {Ending.REFUSED}


def test_without_tags_a_changed_sum_passes(curves: Trial, monkeypatch: Patch) -> None:
    """As `padded` says: it is for an aggregator that follows the protocol."""
    changing(monkeypatch, "padded", _add_one_sample)
    play(curves, Wire(curves), "padded")
    assert {verdict_of(curves, name).ending for name in NAMES} == {Ending.RELEASED}
    assert not is_pooled(curves, curve_of(curves, "cedar"))


@pytest.mark.parametrize("keep", [lambda names: names[:3], lambda names: names[::-1], lambda _: ()])
def test_a_sum_for_other_parties_than_have_uploaded(curves: Trial, caplog: Log, keep: Any) -> None:
    _, round_, asked = played_until(curves, Stage.RESULT, release="curve")
    data = asked[round_.leader]
    sums = decode(bytes(opened(data, Relay).body), PaddedSums, sender="test")
    fewer = msgspec.structs.replace(sums, roster=keep(sums.roster))
    told = changed(data, body=encode(fewer))
    is_refused(curves, round_.leader, told, "not that of the uploads that were shown", caplog)
    assert is_aborted(curves, round_.leader, round_)


def test_an_upload_that_nobody_signed(curves: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(curves, Stage.RESULT, release="curve")
    data = asked[round_.leader]
    first, second, *rest = opened(data, Relay).proofs
    forged = msgspec.structs.replace(first, signature=second.signature)
    told = changed(data, proofs=(forged, second, *rest))
    is_refused(curves, round_.leader, told, f"is not signed by {first.party}", caplog)


def test_bytes_that_are_no_sum(curves: Trial, caplog: Log) -> None:
    """They say nothing that is secret, so that a plain refusal tells nothing either."""
    _, round_, asked = played_until(curves, Stage.RESULT, release="curve")
    data = changed(asked[round_.leader], body=b"noise")
    is_refused(curves, round_.leader, data, "are not a message", caplog)
    assert is_aborted(curves, round_.leader, round_)


def test_a_sum_of_another_length_gets_a_verdict(curves: Trial) -> None:
    _, round_, asked = played_until(curves, Stage.RESULT, release="curve")
    data = asked[round_.leader]
    sums = decode(bytes(opened(data, Relay).body), PaddedSums, sender="test")
    shorter = msgspec.structs.replace(sums, values=bytes(sums.values)[:-6])
    assert curves.vaults[round_.leader].handle(changed(data, body=encode(shorter))) != REFUSAL
    assert verdict_of(curves, round_.leader).ending is Ending.REFUSED


def test_a_party_is_not_given_the_sum(curves: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(curves, Stage.RESULT, release="curve")
    is_refused(curves, a_party(round_), asked[round_.leader], "does not follow", caplog)


# A leader that lies


LIES: dict[str, Callable[[Verdict], Verdict]] = {
    "other counts": lambda told: replace(told, counts=(told.counts[0] + 1, *told.counts[1:])),
    "no counts": lambda told: replace(told, counts=()),
    "fewer parties": lambda told: replace(told, roster=told.roster[:3]),
    "parties in another order": lambda told: replace(told, roster=told.roster[::-1]),
    "refused": lambda told: Verdict(ending=Ending.REFUSED, roster=told.roster, answer=told.answer),
    "sounder": lambda told: replace(told, soundness_bits=1000.0),
    "no answer": lambda told: replace(told, answer=b""),
}


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("lie", LIES)
def test_a_lying_leader_is_caught_by_those_who_check(
    curves: Trial, monkeypatch: Patch, protocol: str, lie: str
) -> None:
    monkeypatch.setattr(
        base, "leader_seal", lambda round_, secrets, found, rng: leader_seal(round_, secrets, LIES[lie](found), rng)
    )
    curves.stop("hazel")
    play(curves, Wire(curves), protocol)
    for name in CHECKING:
        verdict = verdict_of(curves, name)
        assert (verdict.ending, verdict.counts) == (Ending.REFUSED_BY_CHECK, ())


def test_other_sums_than_the_leader_opened_are_not_accepted(curves: Trial) -> None:
    def meddle(asked: Exchange, name: str, data: bytes) -> bytes:
        shown = asked.stage is Stage.BROADCAST and name in CHECKING
        return changed(data, shown=bytes(opened(data, Relay).shown or b"") + b"\0") if shown else data

    assert play(curves, Wire(curves, meddle=meddle)).confirmed == NAMES
    assert all(verdict_of(curves, name).ending is Ending.REFUSED_BY_CHECK for name in CHECKING)
    assert is_pooled(curves, curve_of(curves, "maple"))
