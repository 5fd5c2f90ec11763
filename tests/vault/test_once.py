"""Each stage once: the same request gets the same bytes, anything else ends the round."""

from __future__ import annotations

from collections import defaultdict

import pytest
from fheval.party.stages import TRANSITIONS, Part, State, advance, state_after
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.party.messages import REFUSAL, SetUp, Submit, request
from fheval.protocols.base import Stage
from fheval.protocols.round import Round
from vault.requests import a_party, another, changed, is_aborted, is_refused, opened, played_until
from vault.trial import ALL, NAMES, Trial, Wire

Log = pytest.LogCaptureFixture

STAGES: list[Stage] = [stage for stage in Stage if stage is not Stage.HELLO]


@pytest.mark.parametrize("protocol", ALL)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_retry_gets_the_same_bytes(trial: Trial, protocol: str, restarted: bool) -> None:
    wire = Wire(trial)
    drive(trial.conduct(trial.plan(protocol)), wire)
    before = {name: trial.ledgers[name].history() for name in NAMES}
    if restarted:
        trial.start()
    for (_, name, data), (_, _, reply) in zip(wire.requests, wire.replies, strict=True):
        assert trial.vaults[name].handle(data) == reply
    assert {name: trial.ledgers[name].history() for name in NAMES} == before


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT, Stage.PADS, Stage.RESULT])
def test_a_leader_asked_twice_otherwise(trial: Trial, caplog: Log, stage: Stage, restarted: bool) -> None:
    after = STAGES[STAGES.index(stage) + 1]
    wire, round_, asked = played_until(trial, after)
    leader = round_.leader
    if restarted:
        trial.start(leader)
    honest = wire.request(stage, leader)
    other = {
        Stage.SETUP: lambda: changed(honest, round=_coarser(round_)),
        Stage.SUBMIT: lambda: changed(honest, box=bytes(opened(honest, Submit).box) + b"\0"),
        Stage.PADS: lambda: changed(honest, claims=opened(honest, Pads).claims[::-1]),
        Stage.RESULT: lambda: changed(honest, answer=b"another"),
    }[stage]()
    is_refused(trial, leader, other, "was answered before, for another request", caplog)
    assert is_aborted(trial, leader, round_)
    # What is aborted stays so: for retries, for the honest next stage, and after a restart.
    for data in (honest, asked.get(leader, honest)):
        is_refused(trial, leader, data, "was aborted before", caplog)
    trial.start(leader)
    is_refused(trial, leader, honest, "was aborted before", caplog)


def _coarser(round_: Round) -> Round:
    return another(round_, id=round_.id, precision=2e-4)


def test_two_different_submits(trial: Trial, caplog: Log) -> None:
    wire, round_, asked = played_until(trial, Stage.PADS)
    name = a_party(round_)
    honest = wire.request(Stage.SUBMIT, name)
    is_refused(trial, name, changed(honest, round=_coarser(round_)), "was answered before", caplog)
    assert is_aborted(trial, name, round_)
    assert asked


def test_the_same_round_described_otherwise_at_the_next_stage(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    told = changed(asked[round_.leader], round=_coarser(round_))
    is_refused(trial, round_.leader, told, "was described otherwise before", caplog)
    assert is_aborted(trial, round_.leader, round_)


def empty(stage: Stage, round_: Round) -> bytes:
    """A request for a stage in which nothing but the round is right."""
    return {
        Stage.PADS: lambda: request(stage, Pads(round=round_.id, claims=())),
        Stage.RESULT: lambda: request(stage, Result(round=round_.id, answer=b"")),
        Stage.BROADCAST: lambda: request(stage, Broadcast(round=round_.id, verdict=b"")),
        Stage.SETUP: lambda: request(stage, SetUp(round=round_)),
    }[stage]()


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.PADS, Stage.RESULT, Stage.BROADCAST])
@pytest.mark.parametrize("reached", [Stage.PADS, Stage.RESULT])
def test_a_stage_out_of_order(trial: Trial, caplog: Log, leads: bool, stage: Stage, reached: Stage) -> None:
    wire, round_, _ = played_until(trial, reached)
    name = round_.leader if leads else a_party(round_)
    part = Part.PADDED_LEADER if leads else Part.PADDED_PARTY
    answered = [asked for asked, who, _ in wire.requests if who == name]
    if stage in answered or (state_after(part, answered), stage) in TRANSITIONS[part]:
        return
    is_refused(trial, name, empty(stage, round_), "does not follow", caplog)
    assert is_aborted(trial, name, round_)


@pytest.mark.parametrize("stage", [Stage.PADS, Stage.RESULT, Stage.BROADCAST])
def test_a_round_that_nobody_announced(trial: Trial, caplog: Log, stage: Stage) -> None:
    _, round_, _ = played_until(trial, Stage.SETUP)
    is_refused(trial, round_.leader, empty(stage, round_), "has no part in", caplog)
    assert trial.ledgers[round_.leader].round(round_.id) is None


def test_only_the_leader_makes_keys(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SETUP)
    is_refused(trial, a_party(round_), asked[round_.leader], "does not follow", caplog)


def test_a_request_that_failed_may_be_repaired(trial: Trial, caplog: Log) -> None:
    """Trouble of this vault's own, such as a file that is gone, is nobody's lie."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    leader = round_.leader
    hidden = trial.data(leader).with_suffix(".away")
    trial.data(leader).rename(hidden)
    is_refused(trial, leader, asked[leader], "could not answer (InputError)", caplog)
    assert not is_aborted(trial, leader, round_)
    hidden.rename(trial.data(leader))
    assert trial.vaults[leader].handle(asked[leader]) != REFUSAL


def test_old_replies_are_dropped_and_never_replaced_by_others(trial: Trial) -> None:
    wire = Wire(trial)
    drive(trial.conduct(trial.plan()), wire)
    for _ in range(4):
        trial.play()
    for stage, name, data in wire.requests:
        assert trial.vaults[name].handle(data) == REFUSAL, stage


# The table itself


@pytest.mark.parametrize("part", Part)
def test_every_stage_leads_forward_and_no_state_is_left_twice(part: Part) -> None:
    order = list(State)
    for (state, stage), following in TRANSITIONS[part].items():
        assert order.index(following) > order.index(state)
        assert advance(part, state, stage) is following
        assert stage is not Stage.HELLO
    assert State.DONE in TRANSITIONS[part].values()


# Everything at once


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_repeated_requests_lost_replies_and_restarts(trial: Trial, data: st.DataObject) -> None:
    """Whatever is sent again or lost, every request has one reply, and the round ends as it should."""
    replies: defaultdict[bytes, set[bytes]] = defaultdict(set)

    def exchange(asked: Exchange) -> dict[str, bytes]:
        arrived = {}
        for name, sent in asked.requests.items():
            for _ in range(data.draw(st.integers(1, 3), label="times")):
                if data.draw(st.integers(0, 9), label="restart") == 0:
                    trial.start(name)
                arrived[name] = trial.vaults[name].handle(sent)
                replies[name.encode() + sent].add(arrived[name])
        return arrived

    protocol = data.draw(st.sampled_from(["padded", "padded-verified"]), label="protocol")
    report = drive(trial.conduct(trial.plan(protocol)), exchange)
    assert report.confirmed == NAMES
    assert all(len(each) == 1 for each in replies.values())
    assert trial.released("cedar") == pytest.approx(trial.pooled(), abs=1e-4)
