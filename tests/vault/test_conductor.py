"""The aggregator's side: it takes what members signed for it and nothing else, and goes on without the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fheval.aggregator.conductor import Report, drive
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import Identity
from fheval.errors import CohortTooSmall, RemoteProtocolError, TransportError
from fheval.party.context import RoundContext
from fheval.party.epoch import make_keys
from fheval.party.messages import REFUSAL, KeySetUp, Reply
from fheval.protocols.base import Answer, Stage
from fheval.wire import decode, encode
from in_process import in_process
from vault.trial import NAMES, PADDED, PicksTheFirst, Trial

Meddle = Callable[[Exchange, dict[str, bytes]], dict[str, bytes]]


def play(trial: Trial, meddle: Meddle, protocol: str = "padded") -> Report:
    """A round in which the replies are changed on their way; without meddling the first member leads."""

    def exchange(asked: Exchange) -> dict[str, bytes]:
        return meddle(asked, dict(in_process(trial.handlers())(asked)))

    return drive(trial.conduct(trial.study(protocol), rng=PicksTheFirst()), exchange)


def at(stage: Stage, change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> Meddle:
    """Change the replies of one stage, the first time only."""
    done: list[Stage] = []

    def meddle(asked: Exchange, replies: dict[str, bytes]) -> dict[str, bytes]:
        if asked.stage is not stage or done:
            return replies
        done.append(stage)
        return change(replies)

    return meddle


def altered(reply: bytes) -> bytes:
    """A reply whose content has one other bit."""
    read = decode(reply, Reply, sender="test")
    body = bytearray(bytes(read.body))
    body[-1] ^= 1
    return encode(msgspec.structs.replace(read, body=bytes(body)))


SPOILED: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "refused": lambda _: REFUSAL,
    "noise": lambda _: b"noise",
    "altered": lambda replies: altered(replies["maple"]),
    "of another member": lambda replies: replies["hazel"],
}


@pytest.mark.parametrize("spoiled", SPOILED)
@pytest.mark.parametrize("protocol", [*PADDED, "paper-semi-honest"])
def test_a_bad_upload_is_a_dropout(trial: Trial, protocol: str, spoiled: str) -> None:
    report = play(trial, at(Stage.SUBMIT, lambda r: r | {"maple": SPOILED[spoiled](r)}), protocol)
    assert report.roster == report.confirmed == NAMES[:4]
    assert report.dropped == ("maple",)
    assert len(report.attempts) == 1
    assert trial.released("alder") == pytest.approx(trial.pooled(NAMES[:4]), abs=1e-4)


class Impostor:
    """Lets one member sign, under its own name, an upload that claims to be another's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, member: str, claimed: str) -> None:
        honest = RoundContext.reply
        self.signed = 0

        def reply(context: RoundContext, identity: Identity, stage: Stage, answer: Answer) -> bytes:
            if identity.name == member and stage is Stage.SUBMIT:
                upload: Any = answer.body
                answer = replace(answer, body=msgspec.structs.replace(upload, sender=claimed))
                self.signed += 1
            return honest(context, identity, stage, answer)

        monkeypatch.setattr(RoundContext, "reply", reply)


@pytest.mark.parametrize("release", ["ratios", "curve"])
@pytest.mark.parametrize("protocol", [*PADDED, "paper-semi-honest"])
@pytest.mark.parametrize(("member", "claimed"), [("birch", "maple"), ("maple", "birch"), ("maple", "oak")])
def test_an_upload_in_another_members_name_is_not_taken(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, protocol: str, member: str, claimed: str, release: str
) -> None:
    """Or whoever came first could speak for another, whose own upload would then count as a repetition."""
    if release == "curve" and protocol not in PADDED:
        return
    impostor = Impostor(monkeypatch, member, claimed)
    study = trial.study(protocol, release=release)
    report = drive(trial.conduct(study, rng=PicksTheFirst()), in_process(trial.handlers()))
    assert impostor.signed == 1
    rest = tuple(name for name in NAMES if name != member)
    assert (report.roster, report.dropped, len(report.attempts)) == (rest, (member,), 1)
    if release == "ratios":
        assert trial.released("alder") == pytest.approx(trial.pooled(rest), abs=1e-4)


@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.PADS, Stage.RESULT])
@pytest.mark.parametrize("change", [lambda _: REFUSAL, lambda _: b"noise", altered])
def test_a_bad_reply_of_the_leader_makes_another_lead(
    trial: Trial, stage: Stage, change: Callable[[bytes], bytes]
) -> None:
    def meddle(asked: Exchange, replies: dict[str, bytes]) -> dict[str, bytes]:
        spoiled = asked.stage is stage and "alder" in replies
        return replies | {"alder": change(replies["alder"])} if spoiled else replies

    report = play(trial, meddle)
    first, second = report.attempts
    assert (first.leader, second.leader) == ("alder", "birch")
    assert first.failure is not None
    assert "alder" in first.failure
    assert second.failure is None
    assert report.roster == NAMES[1:]


@pytest.mark.parametrize("change", [lambda _: REFUSAL, lambda _: b"noise", altered])
def test_a_bad_reply_to_the_result_is_asked_for_again(trial: Trial, change: Callable[[bytes], bytes]) -> None:
    """The leader may have opened the answer: one more round would be one more release."""
    report = play(trial, at(Stage.RESULT, lambda replies: {name: change(data) for name, data in replies.items()}))
    assert len(report.attempts) == 1
    assert report.confirmed == NAMES
    assert all(len(trial.ledgers[name].history()) == 1 for name in NAMES)


def test_a_set_up_that_leaves_a_party_out(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def forgetful(*arguments: Any, **options: Any) -> KeySetUp:
        made = make_keys(*arguments, **options)
        calls.append(made.public.sender)
        if len(calls) > 1:
            return made
        return msgspec.structs.replace(made, bundles={n: b for n, b in made.bundles.items() if n != "maple"})

    monkeypatch.setattr("fheval.party.steps.make_keys", forgetful)
    report = play(trial, lambda _, replies: replies)
    assert [attempt.leader for attempt in report.attempts] == calls == ["alder", "birch"]


def test_those_who_do_not_confirm_are_named(trial: Trial) -> None:
    report = play(trial, at(Stage.BROADCAST, lambda replies: {n: d for n, d in replies.items() if n != "cedar"}))
    assert report.roster == NAMES
    assert report.confirmed == tuple(name for name in NAMES if name != "cedar")


def test_every_attempt_has_its_own_round(trial: Trial) -> None:
    asked: list[str] = []

    def exchange(exchange_: Exchange) -> dict[str, bytes]:
        asked.append(exchange_.round)
        return {}

    with pytest.raises((TransportError, CohortTooSmall)):
        drive(trial.conduct(trial.study()), exchange)
    assert len(set(asked)) == len(asked) == 3


def test_members_that_the_policy_does_not_know(trial: Trial) -> None:
    with pytest.raises(RemoteProtocolError, match="'oak' is not a member"):
        trial.play(members=(*NAMES[:4], "oak"))


def test_a_report_has_no_result(trial: Trial) -> None:
    report = trial.play()
    assert f"{trial.released('alder'):.4f}" not in repr(report)
    assert set(Report.__slots__) == {"round", "roster", "dropped", "confirmed", "attempts", "keys", "told"}
    assert report.told is None


def test_a_handler_that_does_not_answer(trial: Trial) -> None:
    def silent(_: bytes) -> bytes:
        raise TransportError("Nobody there.")

    handlers = {**trial.handlers(), "maple": silent}
    report = drive(trial.conduct(trial.study(), rng=PicksTheFirst()), in_process(handlers))
    assert report.dropped == ("maple",)
