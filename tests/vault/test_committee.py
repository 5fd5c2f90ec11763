"""A committee of three among five vaults: rounds, restarts at every stage, lost members, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from fheval import wire
from fheval.aggregator import conductor
from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import load_kit
from fheval.errors import CohortTooSmall, ConfigError, RemoteProtocolError, TransportError
from fheval.party import core, steps
from fheval.party.messages import Relay, Request
from fheval.party.rosters import require_apart
from fheval.party.terms import check_round
from fheval.protocols.base import Stage
from fheval.protocols.committee import members_of
from fheval.protocols.committee_messages import MixNotice, OpenNotice, RosterNotice
from fheval.secrets import SystemRandomness
from fheval.study import Study
from vault.trial import NAMES, Trial

pytestmark = pytest.mark.slow

MEMBERS = NAMES[:3]
Carry = Callable[[Exchange], Mapping[str, bytes]]


def committee(trial: Trial, **changes: Any) -> Study:
    return trial.study("committee", **{"leaders": MEMBERS} | changes)


def carried(
    trial: Trial, study: Study, disturb: Callable[[Exchange, Carry], Mapping[str, bytes]], **options: Any
) -> Any:
    """A whole evaluation, in which every exchange goes through `disturb`."""

    def straight(asked: Exchange) -> Mapping[str, bytes]:
        handlers = trial.handlers()
        return {name: handlers[name](data) for name, data in asked.requests.items() if name in handlers}

    return drive(trial.conduct(study, **options), lambda asked: disturb(asked, straight))


def test_all_members_learn_the_pooled_auc_and_nobody_leads(trial: Trial) -> None:
    trial.start()
    report = trial.play(committee(trial))
    assert report.confirmed == report.roster
    assert set(report.roster) == set(NAMES)
    assert members_of(report.round) == MEMBERS
    for name in NAMES:
        assert trial.released(name) == pytest.approx(trial.pooled(), abs=1e-4)


def test_a_second_round_uses_the_keys_of_the_first(trial: Trial) -> None:
    trial.start()
    study = committee(trial)
    first = trial.play(study)
    second = trial.play(study, keys=first.keys, earlier=[first.roster])
    assert second.keys.epoch == first.keys.epoch
    assert second.round.id != first.round.id
    assert trial.released(NAMES[-1]) == pytest.approx(trial.pooled(), abs=1e-4)


def test_a_committee_of_everybody(trial: Trial) -> None:
    trial.start()
    report = trial.play(committee(trial, options=(("committee", 5),), leaders=NAMES))
    assert members_of(report.round) == NAMES
    assert trial.released(NAMES[0]) == pytest.approx(trial.pooled(), abs=1e-4)


@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.OFFER, Stage.SUBMIT, Stage.PADS, Stage.MIX, Stage.OPEN])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_member_that_is_restarted_at_any_stage_goes_on(trial: Trial, stage: Stage, when: str) -> None:
    """Restarted before it answers, or after and asked again: the same request gets the same bytes."""
    trial.start()
    seen: list[tuple[bytes, bytes]] = []

    def disturb(asked: Exchange, straight: Carry) -> Mapping[str, bytes]:
        if asked.stage is not stage or MEMBERS[1] not in asked.requests:
            return straight(asked)
        if when == "before":
            trial.start(MEMBERS[1])
            return straight(asked)
        first = straight(asked)
        trial.start(MEMBERS[1])
        again = straight(asked)
        seen.append((first[MEMBERS[1]], again[MEMBERS[1]]))
        return again

    report = carried(trial, committee(trial), disturb)
    assert len(report.attempts) == 1
    assert all(one == other for one, other in seen)
    assert bool(seen) == (when == "after")
    assert trial.released(NAMES[-1]) == pytest.approx(trial.pooled(), abs=1e-4)


def spent(trial: Trial) -> list[int]:
    return [sum(each.rounds for each in trial.ledgers[name].spending()) for name in trial.vaults]


@pytest.mark.parametrize("stage", [Stage.OFFER, Stage.SUBMIT, Stage.PADS, Stage.MIX])
def test_a_member_that_is_lost_is_replaced_by_a_spare_in_a_new_round(trial: Trial, stage: Stage) -> None:
    """Nothing was opened, and no release is spent but that of the round that succeeds."""
    trial.start()

    def disturb(asked: Exchange, straight: Carry) -> Mapping[str, bytes]:
        if asked.stage is stage:
            trial.stop(MEMBERS[1])
        return straight(asked)

    report = carried(trial, committee(trial, leaders=NAMES[:4]), disturb)
    assert [attempt.failure is None for attempt in report.attempts] == [False, True]
    assert report.attempts[0].void
    assert members_of(report.round) == (MEMBERS[0], MEMBERS[2], NAMES[3])
    assert set(spent(trial)) == {1}
    others = [name for name in NAMES if name != MEMBERS[1]]
    assert trial.released(NAMES[-1]) == pytest.approx(trial.pooled(others), abs=1e-4)


def test_without_a_spare_the_round_ends_and_costs_nothing(trial: Trial) -> None:
    trial.start()

    def disturb(asked: Exchange, straight: Carry) -> Mapping[str, bytes]:
        if asked.stage is Stage.MIX:
            trial.stop(MEMBERS[1])
        return straight(asked)

    with pytest.raises(CohortTooSmall, match="it takes 3"):
        carried(trial, committee(trial), disturb)
    assert set(spent(trial)) == {0}


def test_a_member_lost_while_shares_are_opened_leaves_the_round_counted(trial: Trial) -> None:
    """Two have given their shares: who of the others knows that the third will never come back?"""
    trial.start()

    def disturb(asked: Exchange, straight: Carry) -> Mapping[str, bytes]:
        if asked.stage is Stage.OPEN:
            trial.stop(MEMBERS[1])
        return straight(asked)

    with pytest.raises(CohortTooSmall):
        carried(trial, committee(trial), disturb)
    assert set(spent(trial)) == {1}


def test_a_party_that_is_missing_is_left_out(trial: Trial) -> None:
    trial.start()
    trial.stop(NAMES[4])
    report = trial.play(committee(trial), members=NAMES)
    assert set(report.roster) == set(NAMES[:4])
    assert trial.released(NAMES[3]) == pytest.approx(trial.pooled(NAMES[:4]), abs=1e-4)


# What a vault refuses


def changed(request: bytes, kind: type[Any], change: Callable[[Any], Any]) -> bytes:
    outer = wire.decode(request, Request, sender="")
    relay = wire.decode(bytes(outer.body), Relay, sender="")
    body = wire.encode(change(wire.decode(bytes(relay.body), kind, sender="")))
    return wire.encode(Request(stage=outer.stage, body=wire.encode(msgspec.structs.replace(relay, body=body))))


def tampered(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + bytes(data[1:])


LIES: dict[str, tuple[Stage, type[Any], Callable[[Any], Any]]] = {
    "an upload of no party": (
        Stage.PADS,
        RosterNotice,
        lambda m: msgspec.structs.replace(m, uploads=tampered(bytes(m.uploads))),
    ),
    "an offer of no member": (
        Stage.PADS,
        RosterNotice,
        lambda m: msgspec.structs.replace(m, offers=(*m.offers[:2], tampered(bytes(m.offers[2])))),
    ),
    "another upload": (
        Stage.MIX,
        MixNotice,
        lambda m: msgspec.structs.replace(m, values=(tampered(bytes(m.values[0])), *m.values[1:])),
    ),
    "another difference": (
        Stage.MIX,
        MixNotice,
        lambda m: msgspec.structs.replace(
            m,
            told=(
                *m.told[:2],
                msgspec.structs.replace(m.told[2], left=(tampered(bytes(m.told[2].left[0])), *m.told[2].left[1:])),
            ),
        ),
    ),
    "another share": (
        Stage.OPEN,
        OpenNotice,
        lambda m: msgspec.structs.replace(m, mixed=(*m.mixed[:2], (tampered(bytes(m.mixed[2][0])),))),
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_was_not_signed_is_refused_and_ends_the_round(trial: Trial, lie: str) -> None:
    """Told to the first member alone: it aborts, and without it nothing opens."""
    trial.start()
    stage, kind, change = LIES[lie]

    def disturb(asked: Exchange, straight: Carry) -> Mapping[str, bytes]:
        if asked.stage is not stage:
            return straight(asked)
        requests = dict(asked.requests)
        if MEMBERS[0] in requests:
            requests[MEMBERS[0]] = changed(requests[MEMBERS[0]], kind, change)
        return straight(Exchange(stage=asked.stage, round=asked.round, requests=requests))

    with pytest.raises((CohortTooSmall, TransportError)):
        carried(trial, committee(trial), disturb)
    assert all(trial.last(name).verdict is None for name in NAMES)


def test_a_study_that_names_too_few_members_is_not_signed(trial: Trial) -> None:
    for named in ((), NAMES[:2]):
        with pytest.raises(ConfigError, match="The committee has 3 members"):
            trial.consortium.authority.sign_study(committee(trial, leaders=named))


def test_members_that_the_study_does_not_name_are_refused(trial: Trial) -> None:
    """The aggregator and its friends among the parties: whoever is no candidate gets no seat, and no upload."""
    trial.start()
    study = committee(trial, leaders=MEMBERS)

    def disturb(asked: Exchange, straight: Carry) -> Mapping[str, bytes]:
        return straight(asked)

    trial.accept(study)
    with pytest.raises((CohortTooSmall, TransportError)):
        carried(trial, study, disturb, members=NAMES[2:])
    round_ = study.round(study.call(SystemRandomness(), engine=trial.engine.name, parties=NAMES, leader=NAMES[2]))
    assert members_of(round_) == NAMES[2:]
    kit = load_kit(trial.consortium.path(NAMES[0]), now=trial.clock.now)
    with pytest.raises(RemoteProtocolError, match="does not let 'hazel' lead"):
        check_round(kit, study, round_, now=trial.clock.now)


def test_the_aggregator_does_not_choose_who_blinds(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two members blind. Two accomplices who are not the first two are refused these places."""
    trial.start()
    study = committee(trial)
    accomplices_first = (*MEMBERS[1:], MEMBERS[0])
    monkeypatch.setattr(
        conductor, "_with_committee", lambda *_: ((*accomplices_first, *NAMES[3:]), accomplices_first[0])
    )
    with pytest.raises((CohortTooSmall, TransportError)):
        trial.play(study)
    # Without the rule they get them, and tests/adversary/test_two_blinders.py has what they learn.
    monkeypatch.setattr(core, "check_round", in_any_order(check_round))
    trial.start()
    assert members_of(trial.play(study).round) == accomplices_first


def in_any_order(check: Callable[..., Any]) -> Callable[..., Any]:
    """The check of a round, of a study that names its members as the round has them."""

    def checked(kit: Any, study: Study, round_: Any, **others: Any) -> Any:
        return check(kit, msgspec.structs.replace(study, leaders=members_of(round_)), round_, **others)

    return checked


def test_close_rosters_are_not_both_opened(trial: Trial) -> None:
    """Every member keeps the rule: all but one may work together with the aggregator."""
    trial.start()
    study = committee(trial)
    trial.play(study)
    with pytest.raises((CohortTooSmall, TransportError)):
        trial.play(study, members=NAMES[:4])


@pytest.mark.parametrize("honest", range(3))
def test_one_honest_member_is_enough_to_keep_rosters_apart(
    trial: Trial, honest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other two open whatever they are asked to, and the round still ends."""
    trial.start()
    study = committee(trial)
    trial.play(study)
    required = require_apart
    asked = {"by": ""}

    def only_the_honest(uploaded: Any, earlier: Any, least: int) -> None:
        if asked["by"] == MEMBERS[honest]:
            required(uploaded, earlier, least)

    monkeypatch.setattr(steps, "require_apart", only_the_honest)

    def disturb(exchange: Exchange, _: Carry) -> Mapping[str, bytes]:
        replies = {}
        for name, data in exchange.requests.items():
            asked["by"] = name
            replies[name] = trial.vaults[name].handle(data)
        return replies

    with pytest.raises((CohortTooSmall, TransportError)):
        carried(trial, study, disturb, members=NAMES[:4])
    monkeypatch.setattr(steps, "require_apart", lambda *_: None)
    carried(trial, study, disturb, members=NAMES[:4])
    assert trial.released(NAMES[3]) == pytest.approx(trial.pooled(NAMES[:4]), abs=1e-4)
