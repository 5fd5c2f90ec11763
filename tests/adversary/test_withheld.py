"""An aggregator that leaves numbers out gets neither a verified nothing nor an interval out of what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from fheval import evaluate
from fheval.errors import VerificationFailed
from fheval.evaluation import result
from fheval.evaluation.result import Estimate, all_verified, result_rows
from fheval.metrics.registry import auc_batch
from fheval.protocols import PROTOCOLS, padded, padded_verified
from fheval.protocols.base import Seat, Stage
from fheval.protocols.play import Members
from fheval.protocols.round import Ending, Form, Verdict
from fheval.report.wording import verified_in_words
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval.wire import encode
from protocols.rounds import CLEAR, Cast, a_round, contributions_of, curve, pooled

RNG = SystemRandomness()

ROSTER = ("north", "east", "west")


def verdict_of(study: Study, lost: int, *, first_too: bool = False) -> Verdict:
    """As `padded-verified` gives it, with that many resamples of the first number zeroed."""
    forms = len(study.batch().forms)
    ratios: list[Fraction | None] = [Fraction(3, 4)] * forms
    ratios[1 : 1 + lost] = [None] * lost
    if first_too:
        ratios[0] = None
    return Verdict(roster=ROSTER, ratios=tuple(ratios), verified=True, soundness_bits=80.0)


STUDY = Study.of(metrics=["recall", "accuracy"], interval=0.95, protocol="padded-verified", decision_points=10)


def test_a_number_that_did_not_come_is_not_verified() -> None:
    verdict = verdict_of(STUDY, 0, first_too=True)
    rows = result_rows(STUDY, verdict)
    recall, accuracy = rows
    assert (recall.value, recall.verified) == (None, False)
    assert recall.error is not None
    assert recall.error.startswith("withheld or undefined, not verified")
    assert (accuracy.value, accuracy.verified) == (0.75, True)
    assert recall.to_dict()["verified"] is False
    assert all_verified(verdict, rows) is False
    assert all_verified(verdict_of(STUDY, 0), result_rows(STUDY, verdict_of(STUDY, 0))) is True


@pytest.mark.parametrize(("lost", "interval"), [(0, True), (160, True), (161, False), (199, False), (200, False)])
def test_an_interval_takes_the_resamples_that_its_level_needs(lost: int, interval: bool) -> None:
    recall, accuracy = result_rows(STUDY, verdict_of(STUDY, lost))
    assert (recall.low is not None) is interval
    assert (accuracy.low, accuracy.note) == (0.75, None)
    if lost:
        assert recall.note is not None
        assert f"withheld or undefined in {lost} of 200" in recall.note
        assert ("no interval" in recall.note) is not interval


# Whole rounds

ROWS = [([0, 1, 1, 0, 1, 1, 0, 1], [0.1, 0.8, 0.9, 0.3, 0.7, 0.4, 0.6, 0.95])] * 3


def blinding_with(change: Callable[[Any], None]) -> Callable[[Any], Any]:
    honest = padded.Aggregator.draw_blinding

    def draw(aggregator: Any) -> Any:
        blinding = honest(aggregator)
        for weights, _ in blinding:
            change(weights)
        return blinding

    return draw


def test_an_aggregator_that_zeroes_a_form_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def zero(weights: Any) -> None:
        weights[:2] = 0

    monkeypatch.setattr(padded_verified.Aggregator, "draw_blinding", blinding_with(zero))
    told = evaluate(ROWS, metrics=["recall", "accuracy"], protocol="padded-verified", engine=CLEAR)
    recall, accuracy = told.results
    assert (recall.value, recall.verified, accuracy.value, accuracy.verified) == (None, False, 0.75, True)
    assert told.verified is False
    assert told.to_dict()["verified"] is False
    assert "withheld or undefined, not verified" in told.to_dict()["results"][0]["error"]
    assert "but for 1 of 2 numbers" in verified_in_words(told)


def test_without_the_rules_both_would_be_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval of width 0 from one resample of 200, and a number that did not come beside "verified"."""
    monkeypatch.setattr(Estimate, "carries", lambda *_: True)
    monkeypatch.setattr(result, "_with_state", lambda row, verified: replace(row, verified=verified))
    recall, _ = result_rows(STUDY, verdict_of(STUDY, 199))
    assert (recall.low, recall.high, recall.verified) == (0.75, 0.75, True)
    withheld = verdict_of(STUDY, 0, first_too=True)
    assert all_verified(withheld, result_rows(STUDY, withheld)) is True


@pytest.mark.parametrize("guarded", [True, False])
def test_padded_refuses_ratios_that_cannot_be(monkeypatch: pytest.MonkeyPatch, guarded: bool) -> None:
    """A tilt as large as the scale adds one to the ratio; without the range it would be told."""

    def add_one(weights: Any) -> None:
        weights[1] = weights[0]

    monkeypatch.setattr(padded.Aggregator, "draw_blinding", blinding_with(add_one))
    if not guarded:
        monkeypatch.setattr(Form, "largest", property(lambda form: form.bound))
        told = evaluate(ROWS, metrics=["recall"], protocol="padded", engine=CLEAR)
        assert told.value("recall@0.5") == pytest.approx(1.8, abs=1e-4)
        return
    with pytest.raises(VerificationFailed):
        evaluate(ROWS, metrics=["recall"], protocol="padded", engine=CLEAR)


def test_the_refusal_is_sealed_and_as_long_as_any_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the aggregator relays after the leader has opened its answer has one length, refused or not."""
    sizes = []
    for change in (0, 1):
        cast = Cast(a_round("padded", 3))
        if change:
            monkeypatch.setattr(
                padded.Aggregator, "draw_blinding", blinding_with(lambda weights: weights.__setitem__(1, weights[0]))
            )
        own = contributions_of(cast.round, [curve(40, 70), curve(0, 25), curve(9, 1)])
        answer = encode(cast.result_of(cast.served(own)))
        seat = Seat(engine=cast.engine, round=cast.round, me=cast.round.leader, secrets=cast.secrets, rng=RNG)
        answered = PROTOCOLS["padded"].answer(replace(seat, roster=cast.round.parties), Stage.RESULT, answer)
        assert answered.verdict is not None
        assert answered.verdict.ending is (Ending.REFUSED if change else Ending.RELEASED)
        sizes.append(len(encode(answered.body)))
    assert len(set(sizes)) == 1


def test_padded_verified_tells_decimals_to_those_who_do_not_open_the_answer() -> None:
    batch = auc_batch(6, 1 << 24)
    round_ = replace(a_round("padded-verified", 4), precision=1e-3, batch=batch, checkers=("hospital-3",))
    counts = [curve(40, 70), curve(0, 25), curve(9, 1), curve(3, 3)]
    members = Members(PROTOCOLS["padded-verified"], CLEAR, round_, contributions_of(round_, counts), RNG)
    told = members.play()
    exact = Fraction(pooled(counts).numerator(), pooled(counts).denominator())
    assert members.verdicts[round_.leader].ratio() == exact
    assert told.ratio() == Fraction(round(exact * 1000), 1000) != exact
