"""What those are told who open nothing: members, finished numbers; the aggregator, where a study says so, the same."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from msgspec.structs import replace as changed_to

from fheval import field
from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Told, _agreed
from fheval.counting import Grid, count_file
from fheval.disclosure import RevealsMore, disclosed_by, disclosure_in_words
from fheval.evaluation.finished import Finished, FinishedTelling, finish
from fheval.evaluation.result import Row
from fheval.party import core
from fheval.party.messages import REFUSAL, Reply, Tell, request
from fheval.protocols import PROTOCOLS, base, padded, padded_verified
from fheval.protocols.base import Stage, Telling
from fheval.protocols.round import Ending, Verdict, leader_seal
from fheval.wire import decode, encode
from vault.requests import is_refused, played_until
from vault.trial import ALL, NAMES, POINTS, PicksTheFirst, Trial, Wire, write_scores

Patch = pytest.MonkeyPatch

LEADER = "alder"
CHECKERS = ("birch", "cedar")
LEARNS = "members and aggregator"
RESAMPLED: dict[str, Any] = {"replicates": 40, "interval": 0.95, "metrics": ("auc", "accuracy@0.5")}


def play(trial: Trial, protocol: str, wire: Wire | None = None, **changes: Any) -> Told | None:
    """One round, led by the first member, and what the aggregator was told of it."""
    study = trial.study(protocol, **({"learns": LEARNS, "checkers": CHECKERS} | changes))
    return drive(trial.conduct(study, PicksTheFirst()), wire or Wire(trial)).told


def tell(round_id: str) -> bytes:
    return request(Stage.TELL, Tell(round=round_id))


# The aggregator


@pytest.mark.parametrize("protocol", ALL)
def test_it_is_told_what_leader_and_checkers_have_signed(trial: Trial, protocol: str) -> None:
    told = play(trial, protocol)
    assert told is not None
    assert told.numbers is not None
    assert told.by == (LEADER, *CHECKERS)
    (row,) = told.numbers.rows
    assert row.value == pytest.approx(trial.pooled(), abs=1e-4)


def test_of_a_committee_all_members_tell(trial: Trial) -> None:
    told = play(trial, "committee", checkers=(), leaders=NAMES[:3])
    assert told is not None
    assert told.numbers is not None
    assert told.by == NAMES[:3]
    assert told.numbers.rows[0].value == pytest.approx(trial.pooled(), abs=1e-4)


def test_it_is_told_the_decimals_of_the_study_and_not_what_the_leader_sees(trial: Trial) -> None:
    told = play(trial, "padded-verified", precision=1e-2)
    assert told is not None
    assert told.numbers is not None
    (row,) = told.numbers.rows
    exact = trial.rows(LEADER)[0].value
    assert row.value == round(trial.pooled(), 2) != exact == pytest.approx(trial.pooled(), abs=1e-12)


def test_it_is_told_intervals_and_no_resamples(trial: Trial) -> None:
    wire = Wire(trial)
    told = play(trial, "padded-verified", wire, precision=1e-4, **RESAMPLED)
    assert told is not None
    assert told.numbers is not None
    auc, accuracy = told.numbers.rows
    assert auc.low is not None
    assert auc.low < trial.pooled() < (auc.high or 0)
    assert accuracy.metric == "accuracy@0.5"
    said = decode(bytes(decode(wire.reply(Stage.TELL), Reply, sender="test").body), Finished, sender="test")
    assert said.agrees_with(told.numbers)


def test_counts_are_told_where_they_are_released(trial: Trial) -> None:
    told = play(trial, "padded-verified", release="curve", precision=None)
    assert told is not None
    assert told.numbers is not None
    assert sum(told.numbers.curves(trial.last("hazel").study)[0].tp[-1:]) > 0
    assert told.numbers.verified is True


@pytest.mark.parametrize("protocol", ALL)
def test_nobody_is_asked_and_nobody_answers_where_members_alone_learn_it(
    trial: Trial, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(trial)
    assert play(trial, protocol, wire, learns="members") is None
    assert Stage.TELL not in {stage for stage, _, _ in wire.requests}
    ended = trial.last(LEADER)
    is_refused(trial, LEADER, tell(ended.round.id), "not among those who learn", caplog)
    assert trial.last(LEADER).verdict == ended.verdict


def test_who_neither_leads_nor_checks_tells_nothing(trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
    play(trial, "padded-verified")
    is_refused(trial, "hazel", tell(trial.last("hazel").round.id), "Stage 'tell' does not follow", caplog)


def test_nothing_is_told_before_the_round_is_over(trial: Trial, monkeypatch: Patch) -> None:
    options: dict[str, Any] = {"learns": LEARNS, "checkers": CHECKERS}
    _, round_, _ = played_until(trial, Stage.BROADCAST, "padded-verified", PicksTheFirst(), **options)
    assert trial.vaults[LEADER].handle(tell(round_.id)) == REFUSAL
    # Without the rule the leader would, and the members might never hear of it.
    _, round_, _ = played_until(trial, Stage.BROADCAST, "padded-verified", PicksTheFirst(), **options)
    monkeypatch.setattr(core, "_require_next", lambda *_: None)
    assert trial.vaults[LEADER].handle(tell(round_.id)) != REFUSAL


def test_it_is_told_once_and_in_the_same_bytes(trial: Trial) -> None:
    wire = Wire(trial)
    play(trial, "padded-verified", wire)
    for name in (LEADER, *CHECKERS):
        assert trial.vaults[name].handle(wire.request(Stage.TELL, name)) == wire.reply(Stage.TELL, name)


# Who does not agree is named, and nothing is believed


def numbers(value: float = 0.75, **changes: Any) -> Finished:
    return Finished(**({"ending": Ending.RELEASED, "rows": (Row(metric="auc", value=value),)} | changes))


def test_all_must_say_the_same() -> None:
    assert _agreed(["a", "b"], {"a": numbers(), "b": numbers(0.75 + 1e-12)}) == Told(by=("a", "b"), numbers=numbers())
    other = _agreed(["a", "b"], {"a": numbers(), "b": numbers(0.76)})
    assert other.numbers is None
    assert "do not say the same (a: released, b: released)" in str(other.problem)
    silent = _agreed(["a", "b"], {"a": numbers()})
    assert silent.numbers is None
    assert str(silent.problem).startswith("b did not say")
    assert str(_agreed([], {}).problem).startswith("Nobody")


def test_a_lying_leader_is_not_believed(trial: Trial, monkeypatch: Patch) -> None:
    """What it seals for the others is not what it found; checkers open the same bytes and find out."""
    honest = leader_seal

    def lie(round_: Any, secrets: Any, verdict: Verdict, rng: Any) -> Any:
        return honest(round_, secrets, replace(verdict, ratios=(Fraction(1, 2),) * len(verdict.ratios)), rng)

    monkeypatch.setattr(base, "leader_seal", lie)
    told = play(trial, "padded-verified")
    assert told is not None
    assert told.numbers is None
    assert "do not say the same" in str(told.problem)


# An aggregator that deviates


class Meddling(padded_verified.Aggregator):
    """Adds one to a slot of the sum, by taking off a cover that is another one than the leader was given."""

    def factors(self) -> Any:
        (left, right), *others = super().factors()
        return [(field.add(left, (left * 0 + 1), self.layout.primes[0]), right), *others]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_a_deviating_aggregator_is_told_does_not_depend_on_rows(
    trial: Trial, monkeypatch: Patch, seed: int
) -> None:
    """It is told that there is nothing, in the same bytes whatever the rows."""
    write_scores(trial.data("maple"), seed=seed, rows=20 * seed)
    monkeypatch.setattr(padded_verified.PROTOCOL, "aggregator", Meddling)
    wire = Wire(trial)
    told = play(trial, "padded-verified", wire)
    assert told == Told(by=(LEADER, *CHECKERS), problem="There are no numbers: refused.")
    body = decode(wire.reply(Stage.TELL), Reply, sender="test").body
    assert bytes(body) == encode(Finished(ending=Ending.REFUSED))


# Of five parties with sixty rows each: more pairs there cannot be.
MOST_PAIRS = 150**2


class Steering(padded.Aggregator):
    """Has the leader divide the denominator, twice the product of the classes, by a number of its own."""

    def draw_blinding(self) -> Any:
        assert isinstance(self.layout, padded.Layout)
        assert self.layout.rounded is not None
        scale, forms = max(each.smallest for each in self.layout.rounded.scales), len(self.round.forms)
        weights = [0, scale, 0] * forms
        offsets = [0, 2 * MOST_PAIRS * scale] * forms
        return [(field.from_large_integers(weights, prime), offsets) for prime in self.layout.primes]


def steered(trial: Trial, monkeypatch: Patch) -> float:
    """What the aggregator takes the product of both classes for."""
    monkeypatch.setattr(PROTOCOLS["padded"], "aggregator", Steering)
    told = play(trial, "padded")
    assert told is not None
    assert told.numbers is not None
    return (told.numbers.rows[0].value or 0.0) * MOST_PAIRS


def test_with_a_protocol_that_verifies_nothing_it_chooses_what_it_is_told(trial: Trial, monkeypatch: Patch) -> None:
    """Which is why such a study must say that it reveals counts."""
    counted = [count_file(trial.data(name), Grid.even(POINTS)) for name in NAMES]
    positives, negatives = (sum(getattr(each, side) for each in counted) for side in ("positives", "negatives"))
    assert steered(trial, monkeypatch) == pytest.approx(positives * negatives, rel=1e-3)


@pytest.mark.parametrize(
    ("protocol", "precision"), [("padded", 1e-4), ("paper-semi-honest", 1e-4), ("paper-malicious", None)]
)
def test_such_a_study_is_not_signed_unless_it_says_so(trial: Trial, protocol: str, precision: float | None) -> None:
    asked = trial.study(protocol, learns=LEARNS, precision=precision)
    study = changed_to(asked, reveals="ratios", least_rows=10**6)
    assert not PROTOCOLS[protocol].right_or_nothing
    found = disclosed_by(study)
    assert (found.reveals, found.steers) == ("counts", True)
    assert "With padded-verified" in disclosure_in_words(found)[-1]
    with pytest.raises(RevealsMore, match="can have others computed"):
        trial.accept(study)
    trial.accept(changed_to(study, reveals="counts"))


def test_one_that_verifies_is(trial: Trial) -> None:
    study = trial.study("padded-verified", learns=LEARNS, precision=1e-2, least_rows=10**6)
    trial.accept(changed_to(study, reveals="ratios"))


# Members


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_members_hold_finished_numbers_and_no_resamples(trial: Trial, protocol: str) -> None:
    play(trial, protocol, learns="members", precision=1e-4, **RESAMPLED)
    opened, told = trial.last(LEADER).verdict, trial.last("hazel").verdict
    assert opened is not None
    assert told is not None
    assert len(opened.ratios) == 2 * 41 + 1
    assert told.ratios == ()
    ours, theirs = trial.rows("hazel"), trial.rows(CHECKERS[0])
    assert [row.metric for row in ours] == ["auc", "accuracy@0.5"]
    for one, other in zip(ours, theirs, strict=True):
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=1e-4)


def test_without_the_rule_a_member_would_hold_every_resample(trial: Trial, monkeypatch: Patch) -> None:
    monkeypatch.setattr("fheval.party.steps.telling", lambda *_: Telling())
    play(trial, "padded", learns="members", **RESAMPLED)
    told = trial.last("hazel").verdict
    assert told is not None
    assert len(told.ratios) == 2 * 41 + 1


def sealed_length(trial: Trial, **changes: Any) -> int:
    wire = Wire(trial)
    play(trial, "padded-verified", wire, learns="members", **RESAMPLED, **changes)
    return len(wire.request(Stage.BROADCAST, "hazel"))


def test_a_result_has_the_length_of_a_refusal(trial: Trial, monkeypatch: Patch) -> None:
    released = sealed_length(trial)
    assert trial.last("hazel").verdict.ending is Ending.RELEASED  # type: ignore[union-attr]
    monkeypatch.setattr(padded_verified.PROTOCOL, "aggregator", Meddling)
    assert sealed_length(trial) == released
    assert trial.last("hazel").verdict.ending is Ending.REFUSED  # type: ignore[union-attr]


def test_numbers_that_make_no_sense_are_none(trial: Trial) -> None:
    study = trial.study(**RESAMPLED)
    round_ = trial.round(study, LEADER)
    told = Verdict(roster=NAMES, numbers=b"\0\0\0\3abc")
    assert finish(study, told) == Finished(ending=Ending.REFUSED)
    assert not FinishedTelling(study, round_).same(told, Verdict(roster=NAMES))
