"""What an audit did with vaults of default settings, done again: nothing about anybody's rows shows in a reply.

Each attack is run twice: as things are, and with the guard that stops it taken out.
"""

from __future__ import annotations

import math
import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from numpy.typing import NDArray

from fheval import field
from fheval.consortium.signed_study import SignedStudy
from fheval.errors import ConfigError, FhevalError
from fheval.party.accepted import Acceptance, AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.data_set import DataSet
from fheval.party.messages import REFUSAL, Epoch, Hello, Relay, Reply, Submit, Tell, Void, Voided, request
from fheval.party.prepare import require_admitted
from fheval.protocols import PROTOCOLS, padded, padded_verified, release
from fheval.protocols.base import Stage
from fheval.protocols.round import Contribution, Ending, RoundCall
from fheval.secrets import SystemRandomness, log_uniform_integer
from fheval.study import Study
from fheval.wire import decode, encode
from vault.requests import another, call_of, changed, played_until, set_up
from vault.trial import NAMES, Trial, write_scores

RNG = SystemRandomness()


# The aggregator varies the question and watches who refuses


def found_by_refusals(trial: Trial, name: str, honest: RoundCall) -> int:
    """The smallest bound on rows that a vault does not refuse, by bisection over studies that differ in it."""
    low, high = 0, 1 << 13
    while high - low > 1:
        middle = (low + high) // 2
        study = asked_with(trial, middle)
        refused = trial.vaults[name].handle(set_up(another(honest, study=study.hash(), leader=name))) == REFUSAL
        low, high = (middle, high) if refused else (low, middle)
    return high


PROBES: dict[bytes, Study] = {}


def asked_with(trial: Trial, bound: int) -> Study:
    study = trial.study(most_rows_per_party=max(2, bound), name="probe")
    PROBES[study.hash()] = study
    return study


def answer_whatever_is_asked(trial: Trial, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a vault take any study from the aggregator, and refuse those that its rows do not fit."""
    share = DataSet(trial.data(name)).count(trial.study(), RNG)

    def ready(_: AcceptedStudies, study_hash: bytes) -> Acceptance | None:
        try:
            require_admitted(PROBES[study_hash], share)
        except ConfigError:
            return None
        signed = encode(SignedStudy(study=PROBES[study_hash].to_bytes(), signature=b""))
        return Acceptance(signed=signed, data="", columns=StudyColumns(), lineage="trial")

    monkeypatch.setattr(AcceptedStudies, "ready", ready)


def test_refusals_do_not_tell_how_many_rows_there_are(trial: Trial) -> None:
    write_scores(trial.data("birch"), seed=1, rows=10)
    honest = trial.round(trial.study(), "birch").call
    assert found_by_refusals(trial, "birch", honest) == found_by_refusals(trial, "cedar", honest) == 1 << 13


def test_they_would_if_the_aggregator_chose_the_question(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    write_scores(trial.data("birch"), seed=1, rows=37)
    honest = trial.round(trial.study(), "birch").call
    answer_whatever_is_asked(trial, "birch", monkeypatch)
    assert found_by_refusals(trial, "birch", honest) == 37


# Totals beyond the bound


def test_parties_whose_rows_may_exceed_the_bound_get_no_study(trial: Trial) -> None:
    """Five parties of 60 rows, and numbers sized for 64 in all."""
    with pytest.raises(ConfigError, match="could have more than the 64"):
        trial.accept(trial.study(max_samples=64, most_rows_per_party=60))
    with pytest.raises(ConfigError, match="A party has 60 rows, and the study allows 12 of each"):
        trial.accept(trial.study(max_samples=64))


def test_without_the_rule_a_wrong_auc_is_released(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that are too large wrap around where K is large, as it is now and then; here always."""
    monkeypatch.setattr(Study, "_require_room", lambda *_: None)
    monkeypatch.setattr(
        release, "smooth_log_integer", lambda rng, low, octaves: log_uniform_integer(rng, low << (octaves - 4), 4)
    )
    study = trial.study(max_samples=64, most_rows_per_party=60)
    # Of such rounds, about half are refused or right.
    for _ in range(25):
        assert trial.play(study).confirmed == NAMES
        verdict = trial.last("birch").verdict
        assert verdict is not None
        if verdict.ratios and abs(trial.released("birch") - trial.pooled()) > 0.01:
            return
    raise AssertionError("no wrong AUC came out")


# A weaker protocol than the parties agreed on


def weaker(trial: Trial) -> tuple[Study, bytes]:
    """A study that differs in its protocol alone, and the request for a round of it."""
    agreed = trial.study("padded-verified")
    honest = trial.round(agreed, "birch").call
    other = replace(agreed, protocol="padded", name="weaker")
    trial.consortium.authority.sign_study(other)
    return other, set_up(another(honest, study=other.hash()))


def test_a_weaker_protocol_is_refused_even_where_it_was_signed(trial: Trial) -> None:
    _, asked = weaker(trial)
    assert trial.vaults["birch"].handle(asked) == REFUSAL


def test_acceptance_is_what_refuses_it(trial: Trial) -> None:
    other, asked = weaker(trial)
    trial.accept(other)
    assert trial.vaults["birch"].handle(asked) != REFUSAL


class Forging(padded.Aggregator):
    """Gives num no weight, and den 0.999 of what it has below the line."""

    def draw_blinding(self) -> Any:
        assert isinstance(self.layout, padded.Layout)
        assert self.layout.rounded is not None
        drawn = self.layout.rounded.draw(self.round.denominators, self.rng)
        weights = [part for one in drawn for part in (0, one.scale * 999 // 1000, one.scale)]
        return [(field.from_large_integers(weights, prime), [0] * 2 * len(drawn)) for prime in self.layout.primes]


class ForgingVerified(padded_verified.Aggregator):
    """The same under the protocol that the parties agreed on: another weight above the line than below it."""

    def draw_blinding(self) -> Any:
        honest = super().draw_blinding()
        for weights, _ in honest:
            weights[::2] = 999
        return honest


@pytest.mark.parametrize("agreed", ["padded", "padded-verified"])
def test_a_forged_auc_is_accepted_under_the_weaker_protocol_alone(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, agreed: str
) -> None:
    monkeypatch.setattr(PROTOCOLS["padded"], "aggregator", Forging)
    monkeypatch.setattr(PROTOCOLS["padded-verified"], "aggregator", ForgingVerified)
    trial.play(trial.study(agreed))
    verdict = trial.last("birch").verdict
    assert verdict is not None
    if agreed == "padded":
        assert trial.released("birch") == pytest.approx(0.999, abs=1e-3)
    else:
        assert verdict.ending is Ending.REFUSED


# Any sequence of requests gets replies of the same kind and length, whatever the data


def write_rows(trial: Trial, name: str, labels: NDArray[Any], scores: NDArray[Any]) -> None:
    np.save(trial.data(name), np.column_stack([labels, scores]))


def with_different_data(trial: Trial, large: int) -> None:
    """Ten rows; very many; one class; values outside their range. Of a vault whose file was emptied see `emptied`."""
    trial.ending = ".npy"
    draw = np.random.default_rng(3)
    for name in NAMES:
        write_scores(trial.data(name), seed=1, rows=10)
    write_rows(trial, "cedar", draw.integers(0, 2, large), draw.random(large))
    write_rows(trial, "hazel", np.ones(50), draw.random(50))
    write_rows(trial, "maple", draw.normal(0, 40, 70), draw.normal(0, 40, 70))


OPERATIONS = (
    *("noise", "hello", "submit", "again", "no seal", "no bundle", "set up", "relay", "another study", "result"),
    *("tell", "void", "voided"),
)


def sent(trial: Trial, name: str, asked: dict[str, bytes], operation: str) -> bytes:
    honest = asked[name]
    call = call_of(honest)
    epoch = Epoch(id=call.id, leader=call.leader)
    return {
        "noise": b"noise",
        "hello": request(Stage.HELLO, Hello(challenge=bytes(16))),
        "submit": honest,
        "again": honest,
        "no seal": changed(honest, bundle=asked["birch"][:50]),
        "no bundle": request(Stage.SUBMIT, Submit(call=another(call), epoch=epoch, bundle=b"", box=b"")),
        "set up": set_up(another(call, leader=name)),
        "relay": request(Stage.BROADCAST, Relay(round=call.id, body=b"")),
        "another study": set_up(another(call, study=bytes(32), leader=name)),
        "result": request(Stage.RESULT, Relay(round=call.id, body=b"x")),
        "tell": request(Stage.TELL, Tell(round=call.id)),
        "void": request(Stage.VOID, Void(call=call, epoch=epoch)),
        "voided": request(Stage.VOIDED, Voided(round=call.id, proofs=())),
    }[operation]


def emptied(trial: Trial, name: str) -> None:
    """Take all rows from a vault after it has accepted its studies, and let it see that."""
    write_rows(trial, name, np.empty(0), np.empty(0))
    trial.prepare(name)
    assert all(each.problem is not None for each in trial.studies[name].all())


# A regression over a public range, which admits all of these files.
ADMITS_ALL: dict[str, Any] = {"metrics": ("mae",), "target_range": (0.0, 1.0), "max_samples": 1 << 23}


@pytest.fixture
def different(trial: Trial) -> Trial:
    with_different_data(trial, 1_000_000)
    trial.accept(trial.study(**ADMITS_ALL))
    emptied(trial, "alder")
    return trial


def kind(reply: bytes) -> tuple[str, int]:
    """All that an aggregator can compare: refused or not, for which stage, and how long."""
    return "refused" if reply == REFUSAL else decode(reply, Reply, sender="vault").stage.value, len(reply)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=8))
def test_replies_do_not_depend_on_rows(different: Trial, operations: list[str]) -> None:
    _, round_, asked = played_until(different, Stage.SUBMIT, **ADMITS_ALL)
    seen = {
        name: [kind(different.vaults[name].handle(sent(different, name, asked, each))) for each in operations]
        for name in NAMES
        # A leader has answered more.
        if name != round_.leader
    }
    first = next(iter(seen.values()))
    assert all(each == first for each in seen.values())


def test_a_study_that_is_not_ready_is_like_one_that_was_never_accepted(trial: Trial) -> None:
    study = trial.study()
    trial.unwilling.add("cedar")
    called = trial.round(study, "birch").call
    trial.studies["birch"]._file.connection.execute("DELETE FROM rounds")
    submit = Submit(call=called, epoch=Epoch(id=called.id, leader="birch"), bundle=b"", box=b"")
    for operation in (set_up(called), request(Stage.SUBMIT, submit)):
        assert trial.vaults["birch"].handle(operation) == trial.vaults["cedar"].handle(operation) == REFUSAL
    (standing,) = trial.studies["birch"].all()
    assert not trial.studies["cedar"].all()
    assert standing.acceptance.study == study


@pytest.mark.parametrize("rows", ["", "1,0.5\n"])
def test_data_that_are_too_few_are_told_to_the_operator_alone(trial: Trial, rows: str) -> None:
    trial.data("birch").write_text("label,score\n" + rows)
    with pytest.raises(FhevalError, match="rows"):
        trial.accept(trial.study(), "birch")
    assert not trial.studies["birch"].all()


def test_new_data_that_cannot_be_used_leave_what_was_prepared(trial: Trial) -> None:
    """Whether and when the data change must not show; `fheval vault status` tells the operator."""
    study = trial.study()
    trial.accept(study)
    trial.data("birch").write_text("label,score\n1,0.5\n")
    trial.prepare("birch")
    assert trial.studies["birch"].ready(study.hash()) is not None
    (standing,) = trial.studies["birch"].all()
    assert "There are 1 rows" in str(standing.problem)


# Time


def ks_distance(first: list[float], second: list[float]) -> float:
    """The largest distance between two empirical distribution functions."""
    both = np.sort([*first, *second])
    return float(
        np.max(np.abs(np.searchsorted(np.sort(first), both, "right") / len(first)
                      - np.searchsorted(np.sort(second), both, "right") / len(second)))
    )  # fmt: skip


RESAMPLED: dict[str, Any] = {"replicates": 40, "interval": 0.9, "rounds": 100}


def distance_of_times(trial: Trial, rows: int, count: int, **asked: Any) -> float:
    """How far apart the times of so many submits are, of a vault with ten rows and of one with so many.

    Processor time, the two in random order; the first of each warms caches up.
    """
    trial.ending = ".npy"
    for name in NAMES:
        write_scores(trial.data(name), seed=1, rows=rows if name == "cedar" else 10)
    found: dict[str, list[float]] = {"birch": [], "cedar": []}
    for _ in range(count):
        _, _, requests = played_until(trial, Stage.SUBMIT, max_samples=1 << 26, **asked)
        for name in random.sample(sorted(found), 2):
            start = time.process_time()
            assert trial.vaults[name].handle(requests[name]) != REFUSAL
            found[name].append(time.process_time() - start)
    return ks_distance(found["birch"][1:], found["cedar"][1:])


def distinguishable(count: int) -> float:
    """The distance that two samples of one distribution exceed once in a thousand times."""
    return 1.95 * math.sqrt(2 / (count - 1))


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "count", "asked"), [(10_000_000, 200, {}), (10_000, 100, RESAMPLED)])
def test_the_time_of_a_submit_does_not_tell_how_many_rows_there_are(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, rows: int, count: int, asked: dict[str, Any]
) -> None:
    monkeypatch.setattr("fheval.party.prepare.SPARE_ATTEMPTS", 1)
    assert distance_of_times(trial, rows, count, **asked) < distinguishable(count)


@pytest.mark.slow
def test_it_would_if_rows_were_counted_when_somebody_asks(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(self: AcceptedStudies, study: Study) -> Contribution:
        accepted = self.ready(study.hash())
        assert accepted is not None
        return accepted.data_set.count(study, RNG).contribution

    monkeypatch.setattr(AcceptedStudies, "take", counted)
    assert distance_of_times(trial, 100_000, 20) > distinguishable(20)
