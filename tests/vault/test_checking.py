"""Parties that open a result themselves: who lies to them, or shows them something else, is not believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import pytest

from fheval.aggregator.conductor import Report, drive
from fheval.aggregator.round_in_play import Exchange
from fheval.engines import load_engine
from fheval.party.messages import Relay, Reply
from fheval.protocols import PROTOCOLS, base, padding
from fheval.protocols.base import Receipt, Stage
from fheval.protocols.padded import PaddedResult
from fheval.protocols.round import Ending, Round, Verdict, leader_seal
from fheval.wire import decode, encode
from vault.requests import changed, is_refused, opened, played_until
from vault.trial import ALL, NAMES, PADDED, PAPER, PicksTheFirst, Trial, Wire

Log = pytest.LogCaptureFixture
Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.slow

LEADER = "alder"
CHECKING = ("birch", "cedar")
TRUSTING = ("hazel", "maple")


@pytest.fixture(autouse=True)
def checking(trial: Trial) -> None:
    """Two parties check, two do not; the first member leads all rounds of this file."""
    trial.checking |= set(CHECKING)


def play(trial: Trial, wire: Wire, protocol: str = "padded", **options: Any) -> Report:
    return drive(trial.conduct(trial.study(protocol), rng=PicksTheFirst(), **options), wire)


def verdict_of(trial: Trial, name: str) -> Verdict:
    verdict = trial.last(name).verdict
    assert verdict is not None
    return verdict


def is_accepted(trial: Trial, name: str) -> bool:
    """Whether a member holds the right result."""
    return verdict_of(trial, name).ending is Ending.RELEASED and trial.released(name) == pytest.approx(
        trial.pooled(), abs=1e-4
    )


def is_not_accepted(trial: Trial, name: str) -> bool:
    """Whether a member holds no result, for its own reasons."""
    verdict = verdict_of(trial, name)
    return verdict.ending is Ending.REFUSED_BY_CHECK and not verdict.ratios


def seen_by_the_aggregator(wire: Wire) -> list[tuple[Stage, str, int]]:
    """Who has answered what, and at which length; in the last replies there is nothing but the round."""
    seen = []
    for stage, name, data in wire.replies:
        if stage is Stage.BROADCAST:
            reply = decode(data, Reply, sender=name)
            assert bytes(reply.body) == encode(Receipt(round=reply.round))
        seen.append((stage, name, len(data)))
    return seen


class Opened:
    """How often an answer was decrypted, and which ones."""

    def __init__(self, monkeypatch: Patch) -> None:
        self.ciphertexts: list[Any] = []
        honest = padding.leader_decrypt

        def noting(*arguments: Any) -> Any:
            self.ciphertexts.append(arguments[-1])
            return honest(*arguments)

        monkeypatch.setattr(padding, "leader_decrypt", noting)


# Honest rounds


@pytest.mark.parametrize("protocol", PADDED)
def test_an_honest_round_is_accepted_by_all(trial: Trial, protocol: str, monkeypatch: Patch, caplog: Log) -> None:
    caplog.set_level("INFO", logger="fheval.vault")
    opened_by = Opened(monkeypatch)
    wire = Wire(trial)
    report = play(trial, wire, protocol)
    assert report.confirmed == NAMES
    assert all(is_accepted(trial, name) for name in NAMES)
    # The leader, and those who check: all of them the same ciphertexts.
    assert len(opened_by.ciphertexts) == 1 + len(CHECKING)
    assert len(set(opened_by.ciphertexts)) == 1
    assert {name: verdict_of(trial, name).checked for name in NAMES} == {
        name: name == LEADER or name in CHECKING for name in NAMES
    }
    assert len({replace(verdict_of(trial, name), checked=True) for name in NAMES}) == 1
    assert "not accepted" not in caplog.text
    assert caplog.text.count("a result was released, and checked") == 1 + len(CHECKING)


@pytest.mark.parametrize("protocol", PADDED)
def test_with_real_ciphertexts(trial: Trial, protocol: str) -> None:
    trial.engine = load_engine()
    trial.start()
    assert play(trial, Wire(trial), protocol).confirmed == NAMES
    assert all(is_accepted(trial, name) for name in NAMES)
    assert verdict_of(trial, CHECKING[0]).checked


@pytest.mark.parametrize("protocol", ALL)
def test_a_check_costs_no_exchange_and_checkers_get_the_ciphertexts(trial: Trial, protocol: str) -> None:
    # The leader may be named a checker as well, and has the ciphertexts.
    trial.checking.add(LEADER)
    checked, unchecked = Wire(trial), Wire(trial)
    play(trial, checked, protocol)
    trial.checking.clear()
    play(trial, unchecked, protocol)
    assert [request[:2] for request in checked.requests] == [request[:2] for request in unchecked.requests]
    shown = {
        name: bytes(answer)
        for stage, name, data in checked.requests
        if stage is Stage.BROADCAST and (answer := opened(data, Relay).shown) is not None
    }
    assert set(shown) == (set() if protocol in PAPER else set(CHECKING))
    if shown:
        assert set(shown.values()) == {bytes(opened(checked.request(Stage.RESULT, LEADER), Relay).body)}


@pytest.mark.parametrize("protocol", PAPER)
def test_in_the_papers_protocols_every_party_checks_anyway(trial: Trial, protocol: str) -> None:
    play(trial, Wire(trial), protocol)
    assert all(verdict_of(trial, name).checked for name in NAMES)


@pytest.mark.parametrize("protocol", PADDED)
def test_that_a_metric_is_undefined_is_checked_as_well(trial: Trial, protocol: str) -> None:
    for name in NAMES:
        trial.data(name).write_text("label,score\n1,0.5\n1,0.7\n")
    play(trial, Wire(trial), protocol)
    assert {verdict_of(trial, name).ending for name in NAMES} == {Ending.UNDEFINED}
    assert all(verdict_of(trial, name).checked for name in CHECKING)


def test_a_refusal_that_the_check_confirms_is_a_refusal(trial: Trial) -> None:
    def meddle(asked: Exchange, name: str, data: bytes) -> bytes:
        if asked.stage is Stage.RESULT:
            return changed(data, body=b"noise")
        return changed(data, shown=b"noise") if asked.stage is Stage.BROADCAST and name in CHECKING else data

    play(trial, Wire(trial, meddle=meddle))
    assert {verdict_of(trial, name).ending for name in NAMES} == {Ending.REFUSED}


def test_a_dropout_is_part_of_what_is_checked(trial: Trial) -> None:
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.SUBMIT and name == "maple")
    play(trial, wire)
    rest = tuple(name for name in NAMES if name != "maple")
    for name in rest:
        assert verdict_of(trial, name).roster == rest
        assert trial.released(name) == pytest.approx(trial.pooled(rest), abs=1e-4)


# A leader that lies


def moved(told: Verdict, by: Fraction = Fraction(-1, 1000)) -> Verdict:
    """Another value."""
    return replace(told, ratios=tuple(Fraction(ratio or 0) + by for ratio in told.ratios))


LIES: dict[str, Callable[[Verdict], Verdict]] = {
    "another value": moved,
    "a value off by little": lambda told: moved(told, Fraction(1, 10**9)),
    "no value": lambda told: replace(told, ratios=(None,)),
    "no values": lambda told: replace(told, ratios=()),
    "undefined": lambda told: Verdict(ending=Ending.UNDEFINED, roster=told.roster, answer=told.answer),
    "refused": lambda told: Verdict(ending=Ending.REFUSED, roster=told.roster, answer=told.answer),
    "fewer parties": lambda told: replace(told, roster=told.roster[:3]),
    "parties in another order": lambda told: replace(told, roster=told.roster[::-1]),
    "verified otherwise": lambda told: replace(told, verified=not told.verified),
    "sounder": lambda told: replace(told, soundness_bits=1000.0),
    "more hidden": lambda told: replace(told, hiding_bits=1000),
    "other ciphertexts": lambda told: replace(told, answer=sha256(b"others").digest()),
    "no ciphertexts": lambda told: replace(told, answer=b""),
}


def lying(monkeypatch: Patch, lie: Callable[[Verdict], Verdict]) -> None:
    """Let the leader seal something else than it found."""
    monkeypatch.setattr(
        base, "leader_seal", lambda round_, secrets, found, rng: leader_seal(round_, secrets, lie(found), rng)
    )


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("lie", LIES)
def test_a_lying_leader_is_caught_by_those_who_check(trial: Trial, monkeypatch: Patch, protocol: str, lie: str) -> None:
    lying(monkeypatch, LIES[lie])
    report = play(trial, Wire(trial), protocol)
    assert report.roster == NAMES
    assert all(is_not_accepted(trial, name) for name in CHECKING)


@pytest.mark.parametrize("protocol", PADDED)
def test_and_not_by_those_who_do_not(trial: Trial, monkeypatch: Patch, caplog: Log, protocol: str) -> None:
    lying(monkeypatch, moved)
    play(trial, Wire(trial), protocol)
    for name in TRUSTING:
        verdict = verdict_of(trial, name)
        assert (verdict.ending, verdict.checked) == (Ending.RELEASED, False)
        assert trial.released(name) == pytest.approx(trial.pooled() - 1e-3, abs=1e-4)
    assert trial.released(LEADER) == pytest.approx(trial.pooled(), abs=1e-4)
    complaint = "The leader's outcome (released) is not what this vault finds in the same ciphertexts (released)"
    assert caplog.text.count(complaint) == len(CHECKING)
    assert f"{trial.pooled():.3f}" not in caplog.text


@pytest.mark.parametrize("protocol", PADDED)
def test_a_member_says_nothing_of_its_check(trial: Trial, monkeypatch: Patch, protocol: str) -> None:
    """Accepted, and not accepted for whatever reason: the aggregator sees the same replies, and as long ones."""
    accepted = Wire(trial)
    assert play(trial, accepted, protocol).confirmed == NAMES
    for meddle in SHOWN.values():
        refused = Wire(trial, meddle=meddle)
        assert play(trial, refused, protocol).confirmed == NAMES
        assert is_not_accepted(trial, "birch")
        assert seen_by_the_aggregator(refused) == seen_by_the_aggregator(accepted)
    for lie in ("another value", "undefined", "refused", "other ciphertexts"):
        with monkeypatch.context() as patch:
            lying(patch, LIES[lie])
            refused = Wire(trial)
            assert play(trial, refused, protocol).confirmed == NAMES
        assert is_not_accepted(trial, "birch")
        assert seen_by_the_aggregator(refused) == seen_by_the_aggregator(accepted)


def test_checkers_send_no_longer_uploads(trial: Trial) -> None:
    wire = Wire(trial)
    play(trial, wire)
    assert len({len(wire.reply(Stage.SUBMIT, name)) for name in NAMES}) == 1


def test_what_was_not_accepted_counts_as_a_release(trial: Trial, monkeypatch: Patch) -> None:
    """Others have got a result, and whoever got it given back would learn of the check."""
    for lie in ("another value", "refused"):
        before = trial.ledgers["birch"].releases("of-birch")
        with monkeypatch.context() as patch:
            lying(patch, LIES[lie])
            play(trial, Wire(trial))
        assert is_not_accepted(trial, "birch")
        assert trial.ledgers["birch"].releases("of-birch") == before + 1
    play(trial, Wire(trial, meddle=SHOWN["nothing"]))
    assert trial.ledgers["birch"].releases("of-birch") == 3


def test_a_leader_cannot_speak_of_a_check(trial: Trial, monkeypatch: Patch, caplog: Log) -> None:
    lying(monkeypatch, lambda told: Verdict(ending=Ending.REFUSED_BY_CHECK, roster=told.roster, answer=told.answer))
    _, _, asked = played_until(trial, Stage.BROADCAST)
    name = next(name for name in TRUSTING if name in asked)
    is_refused(trial, name, asked[name], "sealed verdict was altered", caplog)


def test_no_leader_can_make_a_result_look_checked(trial: Trial, monkeypatch: Patch) -> None:
    lying(monkeypatch, lambda told: replace(told, checked=True))
    play(trial, Wire(trial))
    assert not any(verdict_of(trial, name).checked for name in TRUSTING)


# An aggregator that shows something else


def instead(answer: Callable[[bytes], bytes | None]) -> Callable[[Exchange, str, bytes], bytes]:
    """Show this to those who check."""

    def meddle(asked: Exchange, _: str, data: bytes) -> bytes:
        honest = opened(data, Relay).shown if asked.stage is Stage.BROADCAST else None
        return data if honest is None else changed(data, shown=answer(bytes(honest)))

    return meddle


def _flipped(honest: bytes) -> bytes:
    return honest[:-1] + bytes([honest[-1] ^ 1])


SHOWN = {
    "nothing": instead(lambda _: None),
    "no bytes": instead(lambda _: b""),
    "noise": instead(lambda _: b"noise"),
    "another bit": instead(_flipped),
    "more": instead(lambda honest: honest + b"\0"),
}

COMPLAINTS = dict.fromkeys(SHOWN, "are not those that the leader says it opened") | {
    "nothing": "left out the ciphertexts, which a checker must get"
}


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("shown", SHOWN)
def test_other_ciphertexts_or_none_are_not_accepted_and_not_opened(
    trial: Trial, monkeypatch: Patch, caplog: Log, protocol: str, shown: str
) -> None:
    opened_by = Opened(monkeypatch)
    play(trial, Wire(trial, meddle=SHOWN[shown]), protocol)
    assert all(is_not_accepted(trial, name) for name in CHECKING)
    assert all(is_accepted(trial, name) for name in (LEADER, *TRUSTING))
    assert len(opened_by.ciphertexts) == 1
    assert caplog.text.count(COMPLAINTS[shown]) == len(CHECKING)


class Blindings:
    """An aggregator that answers twice: the leader gets one blinding, the parties another of the same data."""

    def __init__(self, monkeypatch: Patch, protocol: str) -> None:
        self.second = b""
        aggregator: Any = PROTOCOLS[protocol].aggregator
        honest = aggregator.result

        def twice(this: Any, pads: Any) -> PaddedResult:
            self.second = encode(honest(this, pads))
            monkeypatch.setattr(this, "answer_now", lambda: None)
            this.prepare()
            first: PaddedResult = honest(this, pads)
            return first

        monkeypatch.setattr(aggregator, "result", twice)


@pytest.mark.parametrize("protocol", PADDED)
def test_a_second_blinding_of_the_same_data_is_never_opened(trial: Trial, monkeypatch: Patch, protocol: str) -> None:
    both = Blindings(monkeypatch, protocol)
    opened_by = Opened(monkeypatch)
    wire = Wire(trial, meddle=instead(lambda _: both.second))
    play(trial, wire, protocol)
    first = bytes(opened(wire.request(Stage.RESULT, LEADER), Relay).body)
    assert both.second not in (b"", first)
    assert opened_by.ciphertexts == [decode(first, PaddedResult, sender="test").ciphertexts]
    assert all(is_not_accepted(trial, name) for name in CHECKING)


def test_the_answer_of_an_earlier_round_is_not_opened(trial: Trial, monkeypatch: Patch) -> None:
    earlier = Wire(trial)
    keys = play(trial, earlier).keys
    stale = bytes(opened(earlier.request(Stage.RESULT, LEADER), Relay).body)
    opened_by = Opened(monkeypatch)
    play(trial, Wire(trial, meddle=instead(lambda _: stale)), keys=keys)
    assert len(opened_by.ciphertexts) == 1
    assert all(is_not_accepted(trial, name) for name in CHECKING)


def test_ciphertexts_shown_to_others_than_checkers_are_not_opened(trial: Trial, monkeypatch: Patch) -> None:
    opened_by = Opened(monkeypatch)

    def meddle(asked: Exchange, name: str, data: bytes) -> bytes:
        return changed(data, shown=b"noise") if asked.stage is Stage.BROADCAST and name in TRUSTING else data

    play(trial, Wire(trial, meddle=meddle))
    assert len(opened_by.ciphertexts) == 1 + len(CHECKING)
    assert all(is_accepted(trial, name) for name in NAMES)


# Once


def led_until_broadcast(trial: Trial) -> tuple[Round, dict[str, bytes]]:
    """A round up to its last exchange, led by whoever does not check."""
    while True:
        _, round_, asked = played_until(trial, Stage.BROADCAST)
        if round_.leader not in CHECKING:
            return round_, asked


def test_what_was_not_accepted_stays_so(trial: Trial, caplog: Log) -> None:
    _, asked = led_until_broadcast(trial)
    without = changed(asked["birch"], shown=None)
    reply = trial.vaults["birch"].handle(without)
    assert trial.vaults["birch"].handle(without) == reply
    is_refused(trial, "birch", asked["birch"], "was answered before, for another request", caplog)
    assert is_not_accepted(trial, "birch")
