"""Expired and foreign certificates, and keys that were replayed, altered, swapped or made up."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from fheval.aggregator.conductor import drive
from fheval.consortium import BundleContext, seal_bundle, sign
from fheval.party.messages import REFUSAL, Epoch, Relay, Submit, binding, request
from fheval.protocols.base import Stage
from fheval.protocols.padded import RosterNotice
from fheval.secrets import Secret
from fheval.wire import encode
from keys_consortium import Consortium
from vault.requests import (
    a_party,
    another,
    call_of,
    changed,
    is_refused,
    of_another_study,
    opened,
    played_until,
    proof_of,
    set_up,
)
from vault.trial import NAMES, RULES, PicksTheFirst, Trial, Wire, make_consortium

Log = pytest.LogCaptureFixture


def test_a_member_whose_certificate_has_expired(trial: Trial, caplog: Log) -> None:
    trial.consortium.authority.sign_next_policy(RULES, now=trial.clock.now, days=30, remove=["maple"])
    trial.consortium.enrol("maple-2", days=2)
    trial.consortium.sign(RULES)
    members = (*NAMES[:4], "maple-2")
    trial.start(*NAMES[:4])
    study = trial.study()
    told = trial.round(study, "alder", members).call
    assert trial.vaults["alder"].handle(set_up(told)) != REFUSAL
    trial.clock.now += timedelta(days=3)
    is_refused(trial, "alder", set_up(another(told)), "expired", caplog)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    """Another consortium, with members of the same names."""
    return make_consortium(tmp_path_factory.mktemp("foreign"))


def forged_bundle(foreign: Consortium, submit: Submit, recipient: str, trial: Trial) -> bytes:
    """A bundle of a leader with the right name and a certificate of another authority."""
    impostor = foreign.kit(submit.epoch.leader).identity
    honest = trial.policy
    context = BundleContext(epoch=submit.epoch.id, roster_hash=honest.roster(NAMES).hash(), policy_hash=honest.hash())
    record = msgspec.structs.replace(
        foreign.kit(recipient).identity.record, sealing_key=honest.member(recipient).sealing_key
    )
    return seal_bundle(impostor, record, Secret(bytes(32)), context, now=trial.clock.now)


def test_keys_of_a_leader_with_a_foreign_certificate(trial: Trial, foreign: Consortium, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)
    forged = forged_bundle(foreign, opened(asked[name], Submit), name, trial)
    is_refused(trial, name, changed(asked[name], bundle=forged), "names another sender", caplog)
    assert trial.vaults[name].handle(asked[name]) != REFUSAL


def test_an_upload_signed_under_a_foreign_certificate(trial: Trial, foreign: Consortium, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.PADS)
    proofs = list(opened(asked[round_.leader], Relay).proofs)
    impostor = foreign.kit(proofs[0].party).identity
    signature = sign(
        impostor,
        round_id=binding(round_, Epoch(id=round_.id, leader=round_.leader)),
        stage="submit",
        roster_hash=trial.policy.roster(NAMES).hash(),
        payload=proofs[0].digest,
    )
    proofs[0] = msgspec.structs.replace(proofs[0], signature=signature)
    is_refused(trial, round_.leader, changed(asked[round_.leader], proofs=tuple(proofs)), "is not signed by", caplog)


# Bundles


def test_a_bundle_of_an_earlier_epoch(trial: Trial, caplog: Log) -> None:
    first = Wire(trial)
    drive(trial.conduct(trial.study(), rng=PicksTheFirst()), first)
    _, round_, asked = played_until(trial, Stage.SUBMIT, rng=PicksTheFirst())
    name = a_party(round_)
    old = opened(first.request(Stage.SUBMIT, name), Submit)
    replayed = changed(asked[name], bundle=old.bundle, box=bytes(old.box))
    is_refused(trial, name, replayed, "is of another epoch", caplog)


def test_other_keys_for_an_epoch_that_is_known(trial: Trial, caplog: Log) -> None:
    wire, round_, _ = played_until(trial, Stage.PADS)
    name = a_party(round_)
    own = opened(wire.request(Stage.SUBMIT, name), Submit)
    again = Submit(call=another(own.call), epoch=own.epoch, bundle=own.bundle, box=bytes(own.box))
    leader = trial.vaults[round_.leader]._steps.kit.identity
    context = BundleContext(
        epoch=own.epoch.id, roster_hash=trial.policy.roster(NAMES).hash(), policy_hash=trial.policy.hash()
    )
    other = seal_bundle(leader, trial.policy.member(name), Secret(bytes(32)), context, now=trial.clock.now)
    data = request(Stage.SUBMIT, msgspec.structs.replace(again, bundle=other))
    is_refused(trial, name, data, "Other keys than before", caplog)
    assert trial.vaults[name].handle(request(Stage.SUBMIT, again)) != REFUSAL


def test_a_bundle_for_somebody_else(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    first, second = [name for name in NAMES if name != round_.leader][:2]
    is_refused(trial, first, asked[second], "is for another recipient", caplog)


@pytest.mark.parametrize(("field", "reason"), [("bundle", ""), ("box", "were altered")])
def test_altered_keys(trial: Trial, caplog: Log, field: str, reason: str) -> None:
    """The box is for those who open answers."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_) if field == "bundle" else round_.leader
    content = bytearray(bytes(getattr(opened(asked[name], Submit), field)))
    content[-1] ^= 1
    is_refused(trial, name, changed(asked[name], **{field: bytes(content)}), reason, caplog)


def test_keys_that_come_from_no_party(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)
    data = changed(asked[name], epoch=Epoch(id=round_.id, leader="oak"))
    is_refused(trial, name, data, "who does not lead the round", caplog)


def test_keys_for_other_parameters(trial: Trial, caplog: Log) -> None:
    wire, round_, _ = played_until(trial, Stage.PADS)
    name = a_party(round_)
    own = opened(wire.request(Stage.SUBMIT, name), Submit)
    other = another(of_another_study(trial, own.call, protocol="paper-semi-honest", precision=None))
    data = request(Stage.SUBMIT, Submit(call=other, epoch=own.epoch, bundle=own.bundle, box=bytes(own.box)))
    is_refused(trial, name, data, "other engine or other parameters", caplog)


def test_keys_of_another_epoch_for_one_party_alone(trial: Trial, caplog: Log) -> None:
    """What a party signs names the keys that it used, so the leader notices that they are not its own."""
    first = Wire(trial)
    drive(trial.conduct(trial.study(), rng=PicksTheFirst()), first)
    _, round_, asked = played_until(trial, Stage.SUBMIT, rng=PicksTheFirst())
    victim = a_party(round_)
    old = opened(first.request(Stage.SUBMIT, victim), Submit)
    asked[victim] = changed(asked[victim], epoch=old.epoch, bundle=old.bundle, box=bytes(old.box))
    proofs = tuple(proof_of(trial.vaults[name].handle(data)) for name, data in asked.items())
    nonces = b"".join(proof.nonce for proof in proofs)
    notice = RosterNotice(round=round_.id, roster=tuple(proof.party for proof in proofs), nonces=nonces, covered=b"")
    data = request(Stage.PADS, Relay(round=round_.id, body=encode(notice), proofs=proofs))
    is_refused(trial, round_.leader, data, f"is not signed by {victim}", caplog)


def test_keys_that_were_made_under_an_older_policy(trial: Trial, caplog: Log) -> None:
    first = Wire(trial)
    round_ = drive(trial.conduct(trial.study()), first).round
    trial.consortium.sign(RULES)
    trial.start()
    name = a_party(round_)
    earlier = first.request(Stage.SUBMIT, name)
    data = changed(earlier, call=another(call_of(earlier)))
    is_refused(trial, name, data, "under another policy", caplog)


def test_a_policy_that_changes_during_a_round(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.BROADCAST)
    trial.consortium.sign(RULES)
    name = a_party(round_)
    trial.vaults[name].use_kit(trial.consortium.kit(name))
    is_refused(trial, name, asked[name], "under another policy", caplog)
