"""Rounds that failed: what nobody can have opened, and nobody ever will, costs no release; all else does."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.errors import CohortTooSmall, TransportError
from fheval.party.messages import REFUSAL, Reply, Submit, Void, Voided, request
from fheval.protocols.base import Stage
from fheval.wire import decode
from vault.requests import a_party, changed, is_refused, opened, played_until, proof_of
from vault.trial import NAMES, PADDED, PicksTheFirst, Trial, Wire

Log = pytest.LogCaptureFixture


def spent(trial: Trial, name: str) -> int:
    """How many releases a member counts, of whatever data set."""
    history = trial.ledgers[name].history()
    data_sets = {each.use.lineage for each in history if each.use is not None}
    return sum(trial.ledgers[name].releases(each) for each in data_sets)


def void_of(wire: Wire) -> bytes:
    """What an aggregator asks of the leader of a round that has failed."""
    submit = opened(wire.request(Stage.SUBMIT), Submit)
    return request(Stage.VOID, Void(call=submit.call, epoch=submit.epoch))


def voided(trial: Trial, wire: Wire, leader: str) -> bytes:
    """The leader's word, as it is relayed."""
    reply = trial.vaults[leader].handle(void_of(wire))
    return request(Stage.VOIDED, Voided(round=decode(reply, Reply, sender=leader).round, proofs=(proof_of(reply),)))


# One who is absent


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("absent", NAMES)
def test_one_absent_vault_costs_the_others_nothing(trial: Trial, protocol: str, absent: str) -> None:
    """Whoever it is, the leader among them, and with the keys of an earlier round."""
    study = trial.study(protocol)
    keys = trial.play(study).keys
    trial.begin_anew()
    trial.stop(absent)
    for _ in range(3):
        keys = trial.play(study, keys=keys).keys
    for name in NAMES:
        if name != absent:
            assert spent(trial, name) == 3
            states = [each.void for each in trial.ledgers[name].history() if each.verdict is None]
            assert all(states), "a round without a verdict that still counts"


def test_a_leader_that_is_gone_is_noticed_before_anyone_uploads(trial: Trial) -> None:
    keys = trial.play(rng=PicksTheFirst()).keys
    trial.begin_anew()
    trial.stop("alder")
    wire = Wire(trial)
    report = drive(trial.conduct(trial.study(), rng=PicksTheFirst(), keys=keys), wire)
    first, _ = report.attempts
    assert (first.leader, first.void) == ("alder", True)
    assert "alder failed. It did not answer at stage hello" in (first.failure or "")
    assert len(trial.ledgers["birch"].history()) == 2


@pytest.mark.parametrize("protocol", PADDED)
def test_too_small_a_cohort_costs_nothing(trial: Trial, protocol: str) -> None:
    trial.stop("cedar", "hazel", "maple")
    for _ in range(3):
        with pytest.raises(CohortTooSmall):
            trial.play(trial.study(protocol), rng=PicksTheFirst())
    for name in ("alder", "birch"):
        # Who is there is found out before anybody uploads.
        assert all(each.use is None for each in trial.ledgers[name].history())
        assert spent(trial, name) == 0


@pytest.mark.parametrize("dies_before", [Stage.PADS, Stage.RESULT])
def test_a_leader_that_dies_on_the_way_costs_a_release(trial: Trial, dies_before: Stage) -> None:
    """Nobody knows whether it will open the round when it is back."""
    wire = Wire(trial)

    def exchange(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is dies_before:
            trial.stop("alder")
        return wire(asked)

    report = drive(trial.conduct(trial.study(), rng=PicksTheFirst()), exchange)
    assert [attempt.void for attempt in report.attempts] == [False, False]
    assert spent(trial, "birch") == 2


def test_a_leader_that_refuses_may_void(trial: Trial) -> None:
    """Here because it was shown a roster that is not that of the proofs."""
    wire = Wire(trial, meddle=lambda asked, _, data: changed(data, body=b"x") if asked.stage is Stage.PADS else data)
    with pytest.raises((CohortTooSmall, TransportError)):
        drive(trial.conduct(trial.study()), wire)
    assert [spent(trial, name) for name in NAMES] == [0] * 5


# A void round stays void


def test_a_void_round_is_never_opened(trial: Trial, caplog: Log) -> None:
    wire, round_, asked = played_until(trial, Stage.PADS)
    leader, party = round_.leader, a_party(round_)
    relayed = voided(trial, wire, leader)
    for restart in (False, True):
        if restart:
            trial.start(leader)
        is_refused(trial, leader, asked[leader], "is void", caplog)
    assert trial.vaults[party].handle(relayed) != REFUSAL
    assert spent(trial, party) == spent(trial, leader) == 0
    is_refused(trial, party, wire.request(Stage.SUBMIT, party), "is void", caplog)


def test_a_round_that_was_opened_or_may_be_is_not_void(trial: Trial, caplog: Log) -> None:
    """Otherwise the aggregator could take back what it has got, or learn from refusals what was accepted."""
    for reached in (Stage.RESULT, Stage.BROADCAST):
        wire, round_, _ = played_until(trial, reached)
        is_refused(trial, round_.leader, void_of(wire), "does not follow", caplog)
    before = {name: spent(trial, name) for name in NAMES}
    assert set(before.values()) == {2}


def test_only_who_could_open_says_so(trial: Trial, caplog: Log) -> None:
    wire, round_, _ = played_until(trial, Stage.PADS)
    party = a_party(round_)
    is_refused(trial, party, void_of(wire), "does not follow", caplog)


FORGERIES: dict[str, Callable[[Trial, Wire, Voided, str, str], Voided]] = {
    "no proof": lambda _t, _w, honest, _l, _p: msgspec.structs.replace(honest, proofs=()),
    "another party's name": lambda _t, _w, honest, _l, party: msgspec.structs.replace(
        honest, proofs=(msgspec.structs.replace(honest.proofs[0], party=party),)
    ),
    "a changed signature": lambda _t, _w, honest, _l, _p: msgspec.structs.replace(
        honest, proofs=(msgspec.structs.replace(honest.proofs[0], signature=bytes(64)),)
    ),
    "the leader's upload": lambda _t, wire, honest, leader, _p: msgspec.structs.replace(
        honest, proofs=(proof_of(wire.reply(Stage.SUBMIT, leader)),)
    ),
    "more than the leader's": lambda _t, wire, honest, _l, party: msgspec.structs.replace(
        honest, proofs=(*honest.proofs, proof_of(wire.reply(Stage.SUBMIT, party)))
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_void_is_refused(trial: Trial, forgery: str) -> None:
    wire, round_, _ = played_until(trial, Stage.PADS)
    leader, party = round_.leader, a_party(round_)
    honest = opened(voided(trial, wire, leader), Voided)
    forged = FORGERIES[forgery](trial, wire, honest, leader, party)
    assert trial.vaults[party].handle(request(Stage.VOIDED, forged)) == REFUSAL
    assert spent(trial, party) == 1
    # The true one still helps.
    assert trial.vaults[party].handle(request(Stage.VOIDED, honest)) != REFUSAL
    assert spent(trial, party) == 0


def test_the_void_of_another_round_is_refused(trial: Trial) -> None:
    first, round_one, _ = played_until(trial, Stage.PADS)
    proofs = opened(voided(trial, first, round_one.leader), Voided).proofs
    for _ in range(20):
        _, round_two, _ = played_until(trial, Stage.PADS)
        if round_two.leader == round_one.leader:
            break
    party = a_party(round_two)
    before = spent(trial, party)
    assert trial.vaults[party].handle(request(Stage.VOIDED, Voided(round=round_two.id, proofs=proofs))) == REFUSAL
    assert spent(trial, party) == before


def test_a_party_without_an_upload_has_nothing_to_take_back(trial: Trial) -> None:
    """It says so, since a refusal may be for want of room on its disk; and nothing of it is in its ledger."""
    stranger = trial.round(trial.study(), "alder")
    message = request(Stage.VOIDED, Voided(round=stranger.id, proofs=()))
    said = decode(trial.vaults["alder"].handle(message), Reply, sender="alder")
    assert (said.stage, said.round, said.sender, said.body) == (Stage.VOIDED, stranger.id, "alder", b"")
    assert trial.ledgers["alder"].history() == []


def test_a_leader_voids_a_round_that_it_never_heard_of(trial: Trial, caplog: Log) -> None:
    """It was there, and did not upload: whatever comes later for this round, it keeps its word."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    leader, party = round_.leader, a_party(round_)
    assert trial.vaults[party].handle(asked[party]) != REFUSAL
    relayed = opened(asked[party], Submit)
    reply = trial.vaults[leader].handle(request(Stage.VOID, Void(call=relayed.call, epoch=relayed.epoch)))
    assert reply != REFUSAL
    message = request(Stage.VOIDED, Voided(round=round_.id, proofs=(proof_of(reply),)))
    assert trial.vaults[party].handle(message) != REFUSAL
    assert spent(trial, party) == 0
    is_refused(trial, leader, asked[leader], "is void", caplog)


def test_both_answers_are_the_same_for_a_retry(trial: Trial) -> None:
    wire, round_, _ = played_until(trial, Stage.PADS)
    leader, party = round_.leader, a_party(round_)
    asked = void_of(wire)
    assert trial.vaults[leader].handle(asked) == trial.vaults[leader].handle(asked) != REFUSAL
    relayed = voided(trial, wire, leader)
    assert trial.vaults[party].handle(relayed) == trial.vaults[party].handle(relayed) != REFUSAL


# Protocols whose answer every party opens


@pytest.mark.parametrize("protocol", ["paper-semi-honest", "paper-malicious"])
def test_where_all_can_open_all_must_sign(trial: Trial, protocol: str) -> None:
    """One who is absent could open the round later, so that it counts."""

    study = trial.study(protocol)
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.SUBMIT and name in NAMES[2:])
    with pytest.raises(TransportError):
        drive(trial.conduct(study, attempts=1), wire)
    assert [spent(trial, name) for name in NAMES] == [1] * 5
    noise = Wire(trial)

    def spoiled(asked: Exchange) -> dict[str, bytes]:
        replies = noise(asked)
        return (
            {n: b"noise" if n in NAMES[2:] else d for n, d in replies.items()}
            if asked.stage is Stage.SUBMIT
            else replies
        )

    with pytest.raises(TransportError):
        drive(trial.conduct(study, attempts=1), spoiled)
    # Those whose uploads were spoiled on the way hear as well that all have signed.
    assert [spent(trial, name) for name in NAMES] == [1] * 5
