"""Each stage once: the same request gets the same bytes, anything else ends the round."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.errors import RemoteProtocolError
from fheval.party.accepted import AcceptedStudies
from fheval.party.context import RoundContext
from fheval.party.core import _require_next
from fheval.party.messages import REFUSAL, Epoch, Relay, Submit, request
from fheval.protocols import PROTOCOLS, padded
from fheval.protocols.base import Stage
from fheval.protocols.round import Round, RoundCall
from vault.requests import (
    a_party,
    call_of,
    changed,
    is_aborted,
    is_refused,
    of_another_study,
    opened,
    otherwise,
    played_until,
    set_up,
)
from vault.trial import ALL, NAMES, Trial, Wire

Log = pytest.LogCaptureFixture

STAGES_OF_LEADER = [Stage.SETUP, Stage.SUBMIT, Stage.PADS, Stage.RESULT]
STAGES: list[Stage] = [stage for stage in Stage if stage is not Stage.HELLO and not stage.part]


@pytest.mark.parametrize("protocol", ALL)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_retry_gets_the_same_bytes(trial: Trial, protocol: str, restarted: bool) -> None:
    wire = Wire(trial)
    drive(trial.conduct(trial.study(protocol)), wire)
    before = {name: trial.ledgers[name].history() for name in NAMES}
    if restarted:
        trial.start()
    for (_, name, data), (_, _, reply) in zip(wire.requests, wire.replies, strict=True):
        assert trial.vaults[name].handle(data) == reply
    assert {name: trial.ledgers[name].history() for name in NAMES} == before


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT, Stage.PADS, Stage.RESULT])
def test_a_leader_asked_twice_otherwise(trial: Trial, caplog: Log, stage: Stage, restarted: bool) -> None:
    after = PROTOCOLS["padded"].steps[STAGES_OF_LEADER.index(stage)].stage
    wire, round_, asked = played_until(trial, after)
    leader = round_.leader
    if restarted:
        trial.start(leader)
    honest = wire.request(stage, leader)
    other = {
        Stage.SETUP: lambda: changed(honest, call=_coarser(trial, honest)),
        Stage.SUBMIT: lambda: changed(honest, box=bytes(opened(honest, Submit).box) + b"\0"),
        Stage.PADS: lambda: changed(honest, proofs=opened(honest, Relay).proofs[::-1]),
        Stage.RESULT: lambda: changed(honest, body=b"another"),
    }[stage]()
    is_refused(trial, leader, other, "was answered before, for another request", caplog)
    assert is_aborted(trial, leader, round_)
    # What is aborted stays so: for retries, for the honest next stage, and after a restart.
    for data in (honest, asked.get(leader, honest)):
        is_refused(trial, leader, data, "was aborted before", caplog)
    trial.start(leader)
    is_refused(trial, leader, honest, "was aborted before", caplog)


def _coarser(trial: Trial, honest: bytes) -> RoundCall:
    return of_another_study(trial, call_of(honest), precision=2e-4)


def test_two_different_submits(trial: Trial, caplog: Log) -> None:
    wire, round_, asked = played_until(trial, Stage.PADS)
    name = a_party(round_)
    honest = wire.request(Stage.SUBMIT, name)
    is_refused(trial, name, changed(honest, call=_coarser(trial, honest)), "was answered before", caplog)
    assert is_aborted(trial, name, round_)
    assert asked


@pytest.mark.parametrize(
    "changes",
    [
        {"leader": NAMES[-1]},
        {"parties": NAMES[::-1]},
        {"study": bytes(32)},
    ],
)
def test_the_same_round_described_otherwise_at_the_next_stage(
    trial: Trial, caplog: Log, changes: dict[str, Any]
) -> None:
    """Another study than the keys were made for, or another call; each would be allowed in a round of its own."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    honest = asked[round_.leader]
    if changes.get("leader") == round_.leader:
        changes = {"leader": NAMES[0]}
    told = changed(honest, call=otherwise(call_of(honest), **changes))
    is_refused(trial, round_.leader, told, "was described otherwise before", caplog)
    assert is_aborted(trial, round_.leader, round_)


def empty(trial: Trial, stage: Stage, round_: Round) -> bytes:
    """A request for a stage in which nothing but the round is right."""
    if stage is Stage.SETUP:
        return set_up(round_.call)
    return request(stage, Relay(round=round_.id, body=b""))


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.PADS, Stage.RESULT, Stage.BROADCAST])
@pytest.mark.parametrize("reached", [Stage.PADS, Stage.RESULT])
def test_a_stage_out_of_order(trial: Trial, caplog: Log, leads: bool, stage: Stage, reached: Stage) -> None:
    wire, round_, _ = played_until(trial, reached)
    name = round_.leader if leads else a_party(round_)
    answered = tuple(asked for asked, who, _ in wire.requests if who == name and asked is not Stage.HELLO)
    if stage in answered or stage in FOLLOWS["padded", leads][answered]:
        return
    is_refused(trial, name, empty(trial, stage, round_), "does not follow", caplog)
    assert is_aborted(trial, name, round_)


@pytest.mark.parametrize("stage", [Stage.PADS, Stage.RESULT, Stage.BROADCAST])
def test_a_round_that_nobody_announced(trial: Trial, caplog: Log, stage: Stage) -> None:
    _, round_, _ = played_until(trial, Stage.SETUP)
    is_refused(trial, round_.leader, empty(trial, stage, round_), "has no part in", caplog)
    assert trial.ledgers[round_.leader].round(round_.id) is None


def test_only_the_leader_makes_keys(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SETUP)
    is_refused(trial, a_party(round_), asked[round_.leader], "does not follow", caplog)


def test_a_request_that_failed_may_be_repaired(trial: Trial, caplog: Log) -> None:
    """Trouble of this vault's own, such as a disk that is full, is nobody's lie."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    leader = round_.leader
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AcceptedStudies, "take", Mock(side_effect=OSError("No space left on device")))
        is_refused(trial, leader, asked[leader], "could not answer (OSError)", caplog)
    assert not is_aborted(trial, leader, round_)
    assert trial.vaults[leader].handle(asked[leader]) != REFUSAL


def test_old_replies_are_dropped_and_never_replaced_by_others(trial: Trial) -> None:
    wire = Wire(trial)
    drive(trial.conduct(trial.study()), wire)
    for _ in range(4):
        trial.play()
    for stage, name, data in wire.requests:
        if stage is Stage.HELLO:
            continue  # which changes nothing, and is answered anew each time
        assert trial.vaults[name].handle(data) == REFUSAL, stage


# The order of stages, written out: what may follow what was answered, for the leader and for the others


SETUP, OFFER, SUBMIT, PADS, MIX, OPEN, RESULT, BROADCAST, TELL, VOID, VOIDED = STAGES

_NEW_LEADER = {(): {SETUP, SUBMIT}, (SETUP,): {SUBMIT}}
_NEW_PARTY: dict[tuple[Stage, ...], set[Stage]] = {(): {SUBMIT}}


def _goes_on(*stages: Stage, keys_made: bool) -> dict[tuple[Stage, ...], set[Stage]]:
    """One stage behind the other, and nothing behind the last."""
    first = [(SETUP, SUBMIT), (SUBMIT,)] if keys_made else [(SUBMIT,)]
    return {
        (*begun, *stages[:count]): set(stages[count : count + 1]) for begun in first for count in range(len(stages) + 1)
    }


_PADDED = {
    True: _NEW_LEADER | _goes_on(PADS, RESULT, BROADCAST, keys_made=True),
    False: _NEW_PARTY | _goes_on(BROADCAST, keys_made=False),
}
_PAPER = {
    True: _NEW_LEADER | _goes_on(RESULT, keys_made=True),
    False: _NEW_PARTY | _goes_on(RESULT, keys_made=False),
}
_CURVE = {
    True: _NEW_LEADER | _goes_on(RESULT, BROADCAST, keys_made=True),
    False: _NEW_PARTY | _goes_on(BROADCAST, keys_made=False),
}

_OF_A_MEMBER = (OFFER, SUBMIT, PADS, MIX, OPEN, BROADCAST)
_COMMITTEE = {
    True: {(): {SETUP, OFFER}, (SETUP,): {OFFER}}
    | {
        (*begun, *_OF_A_MEMBER[:count]): set(_OF_A_MEMBER[count : count + 1])
        for begun in ((SETUP,), ())
        for count in range(1, len(_OF_A_MEMBER) + 1)
    },
    False: _NEW_PARTY | _goes_on(BROADCAST, keys_made=False),
}

FOLLOWS = {
    (protocol, leads): table[leads]
    for protocol, table in {
        "padded": _PADDED,
        "padded-verified": _PADDED,
        "committee": _COMMITTEE,
        "paper-semi-honest": _PAPER,
        "paper-malicious": _PAPER,
        "padded, curve": _CURVE,
        "padded-verified, curve": _CURVE,
    }.items()
    for leads in (True, False)
}


def _may_end(answered: tuple[Stage, ...], *, opens: bool, committee: bool) -> set[Stage]:
    """A round may be void as long as nobody knows more of it than uploads, or has given a share away."""
    if {RESULT, BROADCAST, OPEN if committee else PADS}.intersection(answered):
        return set()
    return ({VOID} if opens else set()) | ({VOIDED} if SUBMIT in answered else set())


@pytest.mark.parametrize(("protocol", "leads"), FOLLOWS)
def test_every_order_but_one_is_refused(trial: Trial, protocol: str, leads: bool) -> None:
    name, _, release = protocol.partition(", ")
    study = trial.study(name, release=release or "ratios", leaders=NAMES)
    round_ = trial.round(study, "alder")
    context = RoundContext.of(round_, Epoch(id=round_.id, leader="alder"), trial.policy.roster(NAMES))
    me = "alder" if leads else "maple"
    for answered, goes_on in FOLLOWS[protocol, leads].items():
        opens = leads or name.startswith("paper")
        allowed = goes_on | _may_end(answered, opens=opens, committee=name == "committee")
        if leads and not goes_on:
            # The aggregator asks what came out; whether it may learn it is another question.
            allowed |= {TELL}
        for stage in Stage:
            if stage in allowed:
                _require_next(context, me, answered, stage)
                continue
            with pytest.raises(RemoteProtocolError, match="does not follow") as caught:
                _require_next(context, me, answered, stage)
            assert (caught.value.step, caught.value.culprit) == (stage.value, "aggregator")


@pytest.mark.parametrize(("protocol", "leads"), FOLLOWS)
def test_every_stage_leads_forward_and_no_stage_comes_twice(trial: Trial, protocol: str, leads: bool) -> None:
    name, _, release = protocol.partition(", ")
    round_ = trial.round(trial.study(name, release=release or "ratios", leaders=NAMES), "alder")
    stages = PROTOCOLS[name].of_round(round_).stages_of(round_, "alder" if leads else "maple")
    assert [stage for stage in STAGES if stage in stages] == list(stages)
    assert stages[0] is (Stage.OFFER if name == "committee" and leads else Stage.SUBMIT)
    assert stages[-1] in (Stage.RESULT, Stage.BROADCAST)
    assert not {Stage.HELLO, Stage.SETUP, Stage.TELL, Stage.VOID, Stage.VOIDED} & set(stages)


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
    report = drive(trial.conduct(trial.study(protocol)), exchange)
    assert report.confirmed == NAMES
    assert all(len(each) == 1 for each in replies.values())
    assert trial.released("cedar") == pytest.approx(trial.pooled(), abs=1e-4)


def test_each_part_of_a_stage_once(trial: Trial, monkeypatch: pytest.MonkeyPatch, caplog: Log) -> None:
    """The leader's pads in several messages: a stage each, in their order, for one roster."""
    monkeypatch.setattr(padded, "MOST_CIPHERTEXTS", 1)
    wire = Wire(trial)
    report = drive(trial.conduct(trial.study("padded")), wire)
    leader = report.round.leader
    parts = [stage for stage in Stage.PADS.parts if any(each is stage for each, _, _ in wire.requests)]
    assert len(parts) > 1
    assert trial.last(leader).stages == (Stage.SETUP, Stage.SUBMIT, *parts, Stage.RESULT, Stage.BROADCAST)
    assert trial.released(leader) == pytest.approx(trial.pooled(), abs=1e-3)
    for stage in parts:
        assert trial.vaults[leader].handle(wire.request(stage)) == wire.reply(stage)
    other = changed(wire.request(parts[1]), proofs=opened(wire.request(parts[1]), Relay).proofs[::-1])
    is_refused(trial, leader, other, "was answered before, for another request", caplog)


def test_parts_come_in_their_order(trial: Trial, monkeypatch: pytest.MonkeyPatch, caplog: Log) -> None:
    monkeypatch.setattr(padded, "MOST_CIPHERTEXTS", 1)
    _, round_, asked = played_until(trial, Stage.PADS)
    (body,) = asked.values()
    skipped = request(Stage.PADS_2, opened(body, Relay))
    is_refused(trial, round_.leader, skipped, "'pads-2' does not follow 'submit'", caplog)
    assert is_aborted(trial, round_.leader, round_)
