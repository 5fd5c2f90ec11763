"""Altered rosters, uploads that nobody signed, verdicts that no leader gave, and bytes that are no message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fheval.aggregator.conductor import drive
from fheval.consortium import sign
from fheval.errors import CohortTooSmall
from fheval.party.context import RoundContext
from fheval.party.messages import LIMITS, REFUSAL, Epoch, Proof, Relay, Reply, Request, binding, request
from fheval.protocols.base import Answer, Stage
from fheval.protocols.padded import PaddedResult, RosterNotice
from fheval.protocols.round import Ending, SealedVerdict, Verdict, leader_seal
from fheval.secrets import SystemRandomness
from fheval.wire import HEADER, decode, encode
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
    proof_of,
    set_up,
)
from vault.trial import NAMES, PicksTheFirst, Trial, Wire

Log = pytest.LogCaptureFixture


def notice(proofs: Sequence[Proof], round_id: str) -> bytes:
    """The roster of those whose uploads are shown."""
    nonces = b"".join(proof.nonce for proof in proofs)
    roster = tuple(proof.party for proof in proofs)
    return encode(RosterNotice(round=round_id, roster=roster, nonces=nonces, covered=b""))


@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT])
def test_a_leader_whom_the_study_does_not_let_lead(trial: Trial, caplog: Log, stage: Stage) -> None:
    """Or an aggregator would let the member lead that works together with it."""
    _, round_, asked = played_until(trial, stage, leaders=("birch", "cedar"))
    assert round_.leader in ("birch", "cedar")
    name = "maple"
    told = otherwise(call_of(next(iter(asked.values()))), id="ab" * 16, leader=name)
    is_refused(trial, name, set_up(told), "does not let 'maple' lead", caplog)


def test_nobody_is_there_to_lead(trial: Trial) -> None:
    with pytest.raises(CohortTooSmall, match="Of those who may lead, maple, none is there"):
        trial.play(trial.study(leaders=("maple",)), members=NAMES[:4])


def test_a_leader_that_is_lost_is_followed_by_one_who_may(trial: Trial) -> None:
    trial.stop("birch")
    report = trial.play(trial.study(leaders=("birch", "hazel")))
    assert report.attempts[-1].leader == "hazel"
    assert report.roster == tuple(name for name in NAMES if name != "birch")


def test_an_altered_roster_at_submit(trial: Trial, caplog: Log) -> None:
    """The bundle is bound to the roster that the leader was told."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)
    left_out = next(n for n in NAMES if n not in (name, round_.leader))
    fewer = otherwise(call_of(asked[name]), parties=tuple(n for n in NAMES if n != left_out))
    is_refused(trial, name, changed(asked[name], call=fewer), "is for another roster", caplog)


def test_a_round_that_was_described_otherwise_to_one_party(trial: Trial, caplog: Log) -> None:
    """A party that was told something else has signed something else."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    victim = a_party(round_)
    asked[victim] = changed(asked[victim], call=of_another_study(trial, call_of(asked[victim]), precision=2e-4))
    proofs = tuple(proof_of(trial.vaults[name].handle(data)) for name, data in asked.items())
    data = request(Stage.PADS, Relay(round=round_.id, body=notice(proofs, round_.id), proofs=proofs))
    is_refused(trial, round_.leader, data, f"is not signed by {victim}", caplog)
    assert is_aborted(trial, round_.leader, round_)


def test_a_claimed_upload_that_the_member_never_signed(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.PADS)
    proofs = list(opened(asked[round_.leader], Relay).proofs)
    proofs[2] = msgspec.structs.replace(proofs[2], digest=bytes(32))
    data = changed(asked[round_.leader], proofs=tuple(proofs))
    is_refused(trial, round_.leader, data, f"is not signed by {proofs[2].party}", caplog)
    assert is_aborted(trial, round_.leader, round_)
    assert trial.vaults[round_.leader].handle(asked[round_.leader]) == REFUSAL


@pytest.mark.parametrize("protocol", ["paper-semi-honest", "paper-malicious"])
def test_a_claimed_upload_in_a_paper_protocol(trial: Trial, caplog: Log, protocol: str) -> None:
    _, round_, asked = played_until(trial, Stage.RESULT, protocol)
    name = a_party(round_)
    proofs = list(opened(asked[name], Relay).proofs)
    proofs[1] = msgspec.structs.replace(proofs[1], signature=proofs[0].signature)
    is_refused(trial, name, changed(asked[name], proofs=tuple(proofs)), "is not signed by", caplog)


def test_an_upload_of_an_earlier_round(trial: Trial, caplog: Log) -> None:
    first = Wire(trial)
    drive(trial.conduct(trial.study()), first)
    _, round_, asked = played_until(trial, Stage.PADS)
    proofs = list(opened(asked[round_.leader], Relay).proofs)
    proofs[0] = proof_of(first.reply(Stage.SUBMIT, proofs[0].party))
    data = changed(asked[round_.leader], proofs=tuple(proofs))
    is_refused(trial, round_.leader, data, "is not signed by", caplog)


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        (lambda proofs: proofs[:2], "minimum cohort is 3"),
        (lambda proofs: (*proofs, proofs[0]), "unknown or repeated"),
        (lambda proofs: (*proofs, msgspec.structs.replace(proofs[0], party="oak")), "unknown or repeated"),
        (lambda proofs: (msgspec.structs.replace(proofs[0], digest=b""), *proofs[1:]), "no digest"),
        (lambda _: (), "minimum cohort is 3"),
    ],
)
def test_a_roster_that_cannot_be(trial: Trial, caplog: Log, keep: Any, reason: str) -> None:
    _, round_, asked = played_until(trial, Stage.PADS)
    proofs = keep(opened(asked[round_.leader], Relay).proofs)
    data = changed(asked[round_.leader], body=notice(proofs, round_.id), proofs=proofs)
    is_refused(trial, round_.leader, data, reason, caplog)


@pytest.mark.parametrize("keep", [lambda names: names[:3], lambda names: names[::-1], lambda _: ()])
def test_a_roster_other_than_of_the_uploads_that_are_shown(trial: Trial, caplog: Log, keep: Any) -> None:
    """Pads for fewer parties, in another round of the same uploads, would give their difference away."""
    _, round_, asked = played_until(trial, Stage.PADS)
    proofs = {proof.party: proof.nonce for proof in opened(asked[round_.leader], Relay).proofs}
    kept = keep(NAMES)
    told = RosterNotice(round=round_.id, roster=kept, nonces=b"".join(proofs[name] for name in kept), covered=b"")
    data = changed(asked[round_.leader], body=encode(told))
    is_refused(trial, round_.leader, data, "not that of the uploads that were shown", caplog)
    assert is_aborted(trial, round_.leader, round_)


def test_a_nonce_that_its_party_did_not_sign(trial: Trial, caplog: Log) -> None:
    """Whether in the roster alone, or in the proof as well: the leader derives no pad for it."""
    _, round_, asked = played_until(trial, Stage.PADS)
    first, *rest = opened(asked[round_.leader], Relay).proofs
    forged = (msgspec.structs.replace(first, nonce=bytes(16)), *rest)
    told = notice(forged, round_.id)
    is_refused(trial, round_.leader, changed(asked[round_.leader], body=told), "not that of the uploads", caplog)
    _, round_, asked = played_until(trial, Stage.PADS)
    first, *rest = opened(asked[round_.leader], Relay).proofs
    for nonce, reason in ((bytes(16), f"is not signed by {first.party}"), (b"", "no digest or nonce")):
        forged = (msgspec.structs.replace(first, nonce=nonce), *rest)
        data = changed(asked[round_.leader], body=notice(forged, round_.id), proofs=forged)
        is_refused(trial, round_.leader, data, reason, caplog)
        _, round_, asked = played_until(trial, Stage.PADS)
        first, *rest = opened(asked[round_.leader], Relay).proofs


def test_an_answer_for_another_roster(trial: Trial) -> None:
    """Nobody rewrites who came: the verdict is that nothing was accepted."""
    _, round_, asked = played_until(trial, Stage.RESULT)
    result = decode(bytes(opened(asked[round_.leader], Relay).body), PaddedResult, sender="test")
    fewer = encode(msgspec.structs.replace(result, roster=result.roster[:3]))
    assert trial.vaults[round_.leader].handle(changed(asked[round_.leader], body=fewer)) != REFUSAL
    verdict = trial.last(round_.leader).verdict
    assert verdict is not None
    assert not verdict.ratios


# The broadcast


def test_a_verdict_that_the_leader_did_not_sign(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name = a_party(round_)
    (proof,) = opened(asked[name], Relay).proofs
    forger = trial.vaults[next(n for n in NAMES if n not in (name, round_.leader))]._steps.kit.identity
    signature = sign(
        forger,
        round_id=binding(round_, Epoch(id=round_.id, leader=round_.leader)),
        stage="result",
        roster_hash=trial.policy.roster(NAMES).hash(),
        payload=proof.digest,
    )
    forged = msgspec.structs.replace(proof, signature=signature)
    is_refused(trial, name, changed(asked[name], proofs=(forged,)), "is not signed by", caplog)


@pytest.mark.parametrize(
    "shown",
    [
        lambda *_: (),
        lambda proof, _: (proof, proof),
        lambda proof, name: (msgspec.structs.replace(proof, party=name),),
        lambda proof, _: (msgspec.structs.replace(proof, party="oak"),),
    ],
)
def test_a_verdict_without_the_leaders_signature(trial: Trial, caplog: Log, shown: Any) -> None:
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name = a_party(round_)
    (proof,) = opened(asked[name], Relay).proofs
    data = changed(asked[name], proofs=shown(proof, name))
    is_refused(trial, name, data, "came without its signature", caplog)


def test_another_verdict_than_the_leader_signed(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name = a_party(round_)
    sealed = decode(bytes(opened(asked[name], Relay).body), SealedVerdict, sender="test")
    box = sealed.box[:-1] + bytes([sealed.box[-1] ^ 1])
    data = changed(asked[name], body=encode(msgspec.structs.replace(sealed, box=box)))
    is_refused(trial, name, data, f"is not signed by {round_.leader}", caplog)


@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT, Stage.PADS])
def test_what_the_leader_signed_at_another_stage(trial: Trial, caplog: Log, stage: Stage) -> None:
    wire, round_, asked = played_until(trial, Stage.BROADCAST)
    name, earlier = a_party(round_), wire.reply(stage, round_.leader)
    data = changed(asked[name], body=bytes(decode(earlier, Reply, sender="test").body), proofs=(proof_of(earlier),))
    is_refused(trial, name, data, f"is not signed by {round_.leader}", caplog)


def test_a_verdict_of_an_earlier_round(trial: Trial, caplog: Log) -> None:
    first = Wire(trial)
    drive(trial.conduct(trial.study()), first)
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name = a_party(round_)
    stale = opened(first.request(Stage.BROADCAST, name), Relay)
    proofs = tuple(msgspec.structs.replace(proof, party=round_.leader) for proof in stale.proofs)
    data = changed(asked[name], body=bytes(stale.body), proofs=proofs)
    is_refused(trial, name, data, f"is not signed by {round_.leader}", caplog)


def test_a_refusal_in_place_of_a_verdict(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    name = a_party(round_)
    is_refused(trial, name, changed(asked[name], body=REFUSAL), "is not signed by", caplog)


def test_a_verdict_for_a_party_whose_upload_was_left_out(trial: Trial, caplog: Log) -> None:
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.SUBMIT and name == "maple")
    report = drive(trial.conduct(trial.study(), rng=PicksTheFirst()), wire)
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
    proof = proof_of(context.reply(steps.kit.identity, Stage.RESULT, Answer(body=sealed)))
    data = changed(asked[name], body=encode(sealed), proofs=(proof,))
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


@pytest.mark.parametrize("stage", sorted(LIMITS))
def test_a_stage_without_keys_or_counts_is_small(trial: Trial, caplog: Log, stage: Stage) -> None:
    large = encode(Request(stage=stage, body=HEADER + bytes(LIMITS[stage])))
    is_refused(trial, "alder", large, "exceeds the limit", caplog)


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
