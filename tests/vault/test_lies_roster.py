"""Altered rosters, uploads that nobody signed, verdicts that no leader gave, and bytes that are no message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fheval.party.verdict import Ending, Verdict, leader_seal

from fheval.aggregator.conductor import drive
from fheval.consortium import sign
from fheval.party.context import RoundContext
from fheval.party.messages import REFUSAL, Epoch, Reply, Request, request
from fheval.protocols.base import Stage
from fheval.protocols.padded import PaddedResult
from fheval.secrets import SystemRandomness
from fheval.wire import HEADER, decode, encode
from vault.requests import a_party, changed, claim_of, is_aborted, is_refused, opened, played_until
from vault.trial import NAMES, PicksTheFirst, Trial, Wire

Log = pytest.LogCaptureFixture


def test_an_altered_roster_at_submit(trial: Trial, caplog: Log) -> None:
    """The bundle is bound to the roster that the leader was told."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)
    left_out = next(n for n in NAMES if n not in (name, round_.leader))
    fewer = msgspec.structs.replace(round_, parties=tuple(n for n in NAMES if n != left_out))
    is_refused(trial, name, changed(asked[name], round=fewer), "is for another roster", caplog)


def test_a_round_that_was_described_otherwise_to_one_party(trial: Trial, caplog: Log) -> None:
    """A party that was told something else has signed something else."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    victim = a_party(round_)
    asked[victim] = changed(asked[victim], round=msgspec.structs.replace(round_, precision=2e-4))
    claims = tuple(claim_of(trial.vaults[name].handle(data)) for name, data in asked.items())
    data = request(Stage.PADS, Pads(round=round_.id, claims=claims))
    is_refused(trial, round_.leader, data, f"is not signed by {victim}", caplog)
    assert is_aborted(trial, round_.leader, round_)


def test_a_claimed_upload_that_the_member_never_signed(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.PADS)
    claims = list(opened(asked[round_.leader], Pads).claims)
    claims[2] = msgspec.structs.replace(claims[2], digest=bytes(32))
    data = changed(asked[round_.leader], claims=tuple(claims))
    is_refused(trial, round_.leader, data, f"is not signed by {claims[2].party}", caplog)
    assert is_aborted(trial, round_.leader, round_)
    assert trial.vaults[round_.leader].handle(asked[round_.leader]) == REFUSAL


@pytest.mark.parametrize("protocol", ["paper-semi-honest", "paper-malicious"])
def test_a_claimed_upload_in_a_paper_protocol(trial: Trial, caplog: Log, protocol: str) -> None:
    _, round_, asked = played_until(trial, Stage.RESULT, protocol)
    name = a_party(round_)
    claims = list(opened(asked[name], Result).claims)
    claims[1] = msgspec.structs.replace(claims[1], signature=claims[0].signature)
    is_refused(trial, name, changed(asked[name], claims=tuple(claims)), "is not signed by", caplog)


def test_an_upload_of_an_earlier_round(trial: Trial, caplog: Log) -> None:
    first = Wire(trial)
    drive(trial.conduct(trial.plan()), first)
    _, round_, asked = played_until(trial, Stage.PADS)
    claims = list(opened(asked[round_.leader], Pads).claims)
    claims[0] = claim_of(first.reply(Stage.SUBMIT, claims[0].party))
    data = changed(asked[round_.leader], claims=tuple(claims))
    is_refused(trial, round_.leader, data, "is not signed by", caplog)


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        (lambda claims: claims[:2], "minimum cohort is 3"),
        (lambda claims: (*claims, claims[0]), "unknown or repeated"),
        (lambda claims: (*claims, msgspec.structs.replace(claims[0], party="oak")), "unknown or repeated"),
        (lambda claims: (msgspec.structs.replace(claims[0], digest=b""), *claims[1:]), "no digest"),
        (lambda _: (), "minimum cohort is 3"),
    ],
)
def test_a_roster_that_cannot_be(trial: Trial, caplog: Log, keep: Any, reason: str) -> None:
    _, round_, asked = played_until(trial, Stage.PADS)
    claims = opened(asked[round_.leader], Pads).claims
    is_refused(trial, round_.leader, changed(asked[round_.leader], claims=keep(claims)), reason, caplog)


def test_an_answer_for_another_roster(trial: Trial) -> None:
    """Nobody rewrites who came: the verdict is that nothing was accepted."""
    _, round_, asked = played_until(trial, Stage.RESULT)
    result = decode(bytes(opened(asked[round_.leader], Result).answer), PaddedResult, sender="test")
    fewer = encode(msgspec.structs.replace(result, roster=result.roster[:3]))
    assert trial.vaults[round_.leader].handle(changed(asked[round_.leader], answer=fewer)) != REFUSAL
    verdict = trial.last(round_.leader).verdict
    assert verdict is not None
    assert not verdict.ratios


# The broadcast


def test_a_verdict_that_the_leader_did_not_sign(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name = a_party(round_)
    reply = decode(opened(asked[name], Broadcast).verdict, Reply, sender="test")
    forger = trial.vaults[next(n for n in NAMES if n not in (name, round_.leader))]._steps.kit.identity
    signature = sign(forger, round_id=round_.id, stage="result", roster_hash=bytes(32), payload=bytes(32))
    forged = encode(msgspec.structs.replace(reply, body=bytes(reply.body), signature=signature))
    is_refused(trial, name, changed(asked[name], verdict=forged), "is not signed by", caplog)


def test_a_verdict_of_an_earlier_round(trial: Trial, caplog: Log) -> None:
    first = Wire(trial)
    drive(trial.conduct(trial.plan()), first)
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name = a_party(round_)
    stale = opened(first.request(Stage.BROADCAST, name), Broadcast).verdict
    is_refused(trial, name, changed(asked[name], verdict=stale), "another stage, round or member", caplog)


def test_a_refusal_in_place_of_a_verdict(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name = a_party(round_)
    is_refused(trial, name, changed(asked[name], verdict=REFUSAL), "refused", caplog)


def test_a_verdict_for_a_party_whose_upload_was_left_out(trial: Trial, caplog: Log) -> None:
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.SUBMIT and name == "maple")
    report = drive(trial.conduct(trial.plan(), rng=PicksTheFirst()), wire)
    assert report.dropped == ("maple",)
    is_refused(trial, "maple", wire.request(Stage.BROADCAST), "does not cover this party", caplog)


def test_a_verdict_over_too_few(trial: Trial, caplog: Log) -> None:
    """A leader that follows the protocol signs no such thing; if one does, nobody believes it."""
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name, steps = a_party(round_), trial.vaults[round_.leader]._steps
    context = RoundContext.of(round_, Epoch(id=round_.id, leader=round_.leader), trial.policy.roster(NAMES))
    secrets = steps._keyring.secrets(context, now=trial.clock.now)
    small = Verdict(ending=Ending.REFUSED, roster=(name, round_.leader))
    sealed = leader_seal(round_, secrets, small, SystemRandomness())
    data = changed(asked[name], verdict=context.reply(steps.kit.identity, Stage.RESULT, sealed))
    is_refused(trial, name, data, "minimum cohort is 3", caplog)


# Bytes


def test_truncated_and_lengthened_requests(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)
    data = asked[name]
    for length in [*range(64), len(data) // 2, len(data) - 1]:
        is_refused(trial, name, data[:length], "Refused", caplog)
    is_refused(trial, name, data + b"\0", "malformed", caplog)
    assert trial.vaults[name].handle(data) != REFUSAL


def test_an_oversized_request(trial: Trial, caplog: Log) -> None:
    is_refused(trial, "alder", HEADER + bytes(64 << 20), "exceeds the limit", caplog)


def test_a_stage_with_the_message_of_another(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)
    body = bytes(decode(asked[name], Request, sender="test").body)
    is_refused(trial, name, encode(Request(stage=Stage.PADS, body=body)), "malformed", caplog)


def test_control_characters_do_not_reach_the_log(trial: Trial, caplog: Log) -> None:
    data = HEADER + msgspec.msgpack.encode(["x\n\x1b[31mINFO all is well", "submit", b""])
    is_refused(trial, "alder", data, "all is well", caplog)
    assert "\n" not in caplog.messages[-1]
    assert "\x1b" not in caplog.messages[-1]
    assert len(caplog.messages[-1]) < 500
