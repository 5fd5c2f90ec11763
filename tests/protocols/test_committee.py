"""`committee`: the same numbers as `padded`, and what its members and parties refuse."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np
import pytest

import fheval
from fheval import wire
from fheval.engines import Engine, load_engine
from fheval.errors import CapacityError, CohortTooSmall, ConfigError, EngineError, RemoteProtocolError, UndefinedMetric
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Stage
from fheval.protocols.committee import SIZE, Aggregator, lay_out, members_of
from fheval.protocols.committee_messages import (
    CommitteeCounts,
    Crossing,
    Mixed,
    MixNotice,
    Offer,
    OpenNotice,
    RosterNotice,
    SealedShare,
    SealedShares,
    told_digest,
    upload_digest,
)
from fheval.protocols.play import Members
from fheval.protocols.round import Contribution, PublicSetup, Round, Verdict
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval_lab.clear import ClearEngine
from published_data import published_file

CLEAR = ClearEngine()
RNG = SystemRandomness()


def committee_round(parties: int = 4, engine: Engine = CLEAR, **options: Any) -> Round:
    names = [f"hospital-{number}" for number in range(1, parties + 1)]
    chosen: dict[str, Any] = {"protocol": "committee", "decision_points": 10, "max_samples": 1 << 16} | options
    study = Study.of(**chosen)
    return study.round(study.call(RNG, engine=engine.name, parties=names, leader=names[0]))


def tables(round_: Round) -> dict[str, Contribution]:
    draw = np.random.default_rng(7)
    assert round_.batch is not None
    shape = (round_.batch.slices * round_.batch.lines, round_.batch.width)
    return {name: Contribution(draw.integers(0, 9, shape)) for name in round_.parties}


def truth(round_: Round, own: dict[str, Contribution]) -> list[Fraction]:
    total = Contribution(np.sum([each.table for each in own.values()], axis=0))
    found = []
    for form, (left, right) in zip(round_.forms, round_.factors_by_form(total), strict=True):
        products = [int(a) * int(b) for a, b in zip(left, right, strict=True)]
        found.append(Fraction(sum(products[: form.numerator]), sum(products[form.numerator :])))
    return found


def played(round_: Round, own: dict[str, Contribution] | None = None, engine: Engine = CLEAR, **kind: Any) -> Verdict:
    members = Members(PROTOCOLS["committee"], engine, round_, own or tables(round_), RNG)
    return members.play(**kind)


# The same numbers as anywhere


@pytest.mark.parametrize(("parties", "size"), [(3, 2), (3, 3), (4, 3), (7, 7), (30, 5), (100, 3)])
@pytest.mark.parametrize("precision", ["exact", 1e-4, 1e-2])
def test_the_ratios_are_those_of_the_pooled_counts(parties: int, size: int, precision: Any) -> None:
    round_ = committee_round(parties, committee=size, precision=precision, metrics=["auc", "f1@0.5"])
    own = tables(round_)
    verdict = played(round_, own)
    assert verdict.roster == round_.parties
    for found, right in zip(verdict.ratios, truth(round_, own), strict=True):
        assert found is not None
        assert found == right if precision == "exact" else abs(Fraction(found) - right) <= Fraction(str(precision)) / 2


@pytest.mark.parametrize("rounds", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_rounded_rounds_stay_within_half_the_precision(rounds: int) -> None:
    """Small denominators are the worst case: noise and fill weigh most there."""
    worst = Fraction(0)
    for number in range(rounds):
        round_ = committee_round(3, decision_points=3, max_samples=1 << 10, committee=2 + number % 2)
        draw = np.random.default_rng(number)
        own = {name: Contribution(draw.integers(0, 2, each.table.shape)) for name, each in tables(round_).items()}
        own[round_.parties[0]] = Contribution(np.ones_like(own[round_.parties[0]].table))
        verdict = played(round_, own)
        for found, right in zip(verdict.ratios, truth(round_, own), strict=True):
            assert found is not None
            worst = max(worst, abs(Fraction(found) - right))
    assert Fraction(1, 10**5) < worst <= Fraction(5, 10**5)


@pytest.mark.parametrize("name", ["seal", "openfhe"])
@pytest.mark.parametrize(("parties", "size", "precision"), [(3, 2, "exact"), (5, 5, 1e-4), (8, 3, 1e-4)])
def test_on_real_engines_too(name: str, parties: int, size: int, precision: Any) -> None:
    try:
        engine = load_engine(name)
    except (ConfigError, EngineError):
        pytest.skip(f"{name} is not installed here")
    round_ = committee_round(parties, engine, committee=size, precision=precision)
    own = tables(round_)
    for found, right in zip(played(round_, own, engine).ratios, truth(round_, own), strict=True):
        assert found is not None
        assert found == right if precision == "exact" else abs(Fraction(found) - right) <= Fraction(str(precision)) / 2


@pytest.mark.parametrize("size", [2, 3, 5, 7])
def test_the_papers_data_give_what_padded_gives(size: int) -> None:
    labels, scores = (np.loadtxt(published_file(f"{name}_1000.txt")) for name in ("labels", "pred_cons"))
    hospitals = list(zip(np.array_split(labels, 15), np.array_split(scores, 15), strict=True))
    asked: dict[str, Any] = {"decision_points": 100, "engine": CLEAR}
    padded = fheval.evaluate(hospitals, protocol="padded", precision="exact", **asked)
    exact = fheval.evaluate(hospitals, protocol="committee", committee=size, precision="exact", **asked)
    rounded = fheval.evaluate(hospitals, protocol="committee", committee=size, **asked)
    assert exact.auc == padded.auc
    assert abs(rounded.auc - exact.auc) <= 5e-5


def test_resamples_groups_of_numbers_and_several_sheets() -> None:
    """Two hundred products beyond one ciphertext's slots, and denominators with lines of their own."""
    round_ = committee_round(
        3, metrics=["auc", "recall@0.5", "kappa@0.5"], interval=0.9, replicates=400, decision_points=20, committee=2
    )
    assert lay_out(round_).plan.sheets > 1
    own = tables(round_)
    verdict = played(round_, own)
    for found, right in zip(verdict.ratios, truth(round_, own), strict=True):
        assert found is not None
        assert abs(Fraction(found) - right) <= Fraction(1, 20_000)


def test_a_round_without_any_denominator_is_undefined() -> None:
    round_ = committee_round(3)
    nothing = {name: Contribution(np.zeros_like(own.table)) for name, own in tables(round_).items()}
    for precision in (None, 1e-4):
        with pytest.raises(UndefinedMetric):
            played(committee_round(3, precision="exact" if precision is None else precision), nothing)


def test_evaluate_says_member_where_others_say_leader() -> None:
    hospitals = [([1, 0, 1], [0.9, 0.2, 0.6]), ([0, 0], [0.1, 0.7]), ([1], [0.8])]
    result = fheval.evaluate(hospitals, protocol="committee", committee=2, decision_points=11, engine=CLEAR)
    content = result.to_dict()
    assert set(content["seconds"]) == {"party", "member", "aggregator", "online", "decrypt"}
    assert set(content["bytes"]) == {"party_upload", "member_upload", "keys", "result"}
    assert all(content["bytes"].values())
    assert content["hiding_bits"] >= 6
    assert (content["verified"], content["soundness_bits"]) == (None, None)


# Who is in it


def test_the_committee_begins_with_the_leader_and_goes_round() -> None:
    names = ("ash", "birch", "cedar", "elm")
    study = Study.of(protocol="committee", committee=3)
    round_ = study.round(study.call(RNG, engine="clear", parties=names, leader="cedar"))
    assert members_of(round_) == ("cedar", "elm", "ash")
    everyone = Study.of(protocol="committee", committee=4)
    round_ = everyone.round(everyone.call(RNG, engine="clear", parties=names, leader="elm"))
    assert members_of(round_) == ("elm", "ash", "birch", "cedar")


@pytest.mark.parametrize("size", [0, 1, 17, "3", True])
def test_a_committee_has_two_to_sixteen_members(size: Any) -> None:
    with pytest.raises(ConfigError):
        Study.of(protocol="committee", committee=size)
    assert (SIZE.default, SIZE.least, SIZE.most) == (3, 2, 16)


def test_a_committee_larger_than_the_parties_is_refused_before_anyone_counts() -> None:
    with pytest.raises(ConfigError, match="A committee of 5 cannot be made of 3 parties"):
        fheval.evaluate([([1, 0], [0.5, 0.6])] * 3, protocol="committee", committee=5, engine=CLEAR)


def test_what_does_not_fit_the_messages_is_refused_before_anyone_counts() -> None:
    with pytest.raises(CapacityError, match="a round has room for"):
        lay_out(committee_round(16, committee=16, interval=0.95, replicates=200, decision_points=100))


def test_uploads_beyond_one_message_are_shown_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fheval.protocols.committee_numbers.MOST_SHOWN", 800)
    round_ = committee_round(4)
    assert len(lay_out(round_).parts) == len(lay_out(round_).primes)
    own = tables(round_)
    (found, _), (right, _) = played(round_, own).ratios, truth(round_, own)
    assert found is not None
    assert abs(Fraction(found) - right) <= Fraction(1, 20_000)


def test_groups_are_those_of_padded_in_one_message_or_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(14)
    hospitals = [
        {
            "y": rng.integers(0, 2, 200),
            "s": rng.random(200),
            "sex": rng.choice(["F", "M", "X"], 200, p=[0.5, 0.49, 0.01]),
        }
        for _ in range(4)
    ]
    asked: dict[str, Any] = {"label": "y", "score": "s", "group_column": "sex", "metrics": ["auc", "recall-gap@0.5"]}
    asked |= {"decision_points": 20, "precision": "exact", "engine": CLEAR}
    truth = fheval.evaluate(hospitals, protocol="padded", **asked).results
    assert {row.value is None for row in truth} == {True, False}
    assert fheval.evaluate(hospitals, protocol="committee", **asked).results == truth
    monkeypatch.setattr("fheval.protocols.committee_numbers.MOST_SHOWN", 3000)
    assert fheval.evaluate(hospitals, protocol="committee", **asked).results == truth


# What members and parties refuse: each lie of an aggregator, told to the first member or to all


class Liar(Aggregator):
    """Does what `lie` says to what it sends at a stage, and else what it should."""

    stage: Stage
    kind: type[Any]
    lie: Any

    def ask_committee(self, stage: Stage, bodies: Any, *, tries: int = 2) -> Any:
        return super().ask_committee(stage, self._changed(stage, bodies), tries=tries)

    def tell_all(self, body: bytes) -> Any:
        return super().tell_all(self._changed(Stage.BROADCAST, {"": body})[""])

    def _changed(self, stage: Stage, bodies: Any) -> Any:
        if stage is not self.stage:
            return bodies
        read = {name: wire.decode(body, self.kind, sender="") for name, body in bodies.items()}
        return {name: wire.encode(type(self).lie(self, read[name])) for name in bodies}


def tampered(data: bytes) -> Any:
    return bytes([data[0] ^ 1]) + bytes(data[1:])


def without_last(message: RosterNotice) -> RosterNotice:
    return msgspec.structs.replace(
        message, roster=message.roster[:-1], nonces=message.nonces[:-16], uploads=message.uploads[:-32]
    )


def other_offer(message: RosterNotice) -> RosterNotice:
    """The second member's offer in place of the third's."""
    first, second, _ = message.offers
    return msgspec.structs.replace(message, offers=(first, second, second))


def changed_value(message: MixNotice) -> MixNotice:
    return msgspec.structs.replace(message, values=(tampered(message.values[0]), *message.values[1:]))


def changed_value_and_digest(liar: Liar, message: MixNotice) -> MixNotice:
    """One upload changed, and its digest with it: the pads were given for another."""
    changed = changed_value(message)
    size = len(changed.values[0]) // len(message.roster)
    digest = sha256(changed.values[0][:size]).digest()
    return msgspec.structs.replace(changed, digests=digest + bytes(message.digests[32:]))


def changed_told(message: MixNotice) -> MixNotice:
    first, *others = message.told
    left = (tampered(first.left[0]), *first.left[1:])
    return msgspec.structs.replace(message, told=(msgspec.structs.replace(first, left=left), *others))


def changed_returns(message: MixNotice) -> MixNotice:
    first, *others = message.returns
    (sheet, *sheets), *primes = first
    return msgspec.structs.replace(message, returns=(((tampered(sheet), *sheets), *primes), *others))


LIES: dict[str, tuple[Stage, type[Any], Any]] = {
    "another round, pads": (Stage.PADS, RosterNotice, lambda _, m: msgspec.structs.replace(m, round="0" * 32)),
    "too few parties": (
        Stage.PADS,
        RosterNotice,
        lambda _, m: msgspec.structs.replace(
            m, roster=m.roster[:2], nonces=bytes(m.nonces[:32]), uploads=bytes(m.uploads[:64])
        ),
    ),
    "a member left out": (
        Stage.PADS,
        RosterNotice,
        lambda _, m: msgspec.structs.replace(
            m, roster=m.roster[1:], nonces=bytes(m.nonces[16:]), uploads=bytes(m.uploads[32:])
        ),
    ),
    "a nonce too few": (Stage.PADS, RosterNotice, lambda _, m: msgspec.structs.replace(m, nonces=bytes(m.nonces[16:]))),
    "an offer too few": (Stage.PADS, RosterNotice, lambda _, m: msgspec.structs.replace(m, offers=m.offers[1:])),
    "another's offer": (Stage.PADS, RosterNotice, lambda _, m: other_offer(m)),
    "offers exchanged": (Stage.PADS, RosterNotice, lambda _, m: msgspec.structs.replace(m, offers=m.offers[::-1])),
    "a changed upload": (Stage.MIX, MixNotice, lambda _, m: changed_value(m)),
    "a changed upload and digest": (Stage.MIX, MixNotice, changed_value_and_digest),
    "a changed difference": (Stage.MIX, MixNotice, lambda _, m: changed_told(m)),
    "a changed return": (Stage.MIX, MixNotice, lambda _, m: changed_returns(m)),
    "returns exchanged": (Stage.MIX, MixNotice, lambda _, m: msgspec.structs.replace(m, returns=m.returns[::-1])),
    "uploads of no prime": (Stage.MIX, MixNotice, lambda _, m: msgspec.structs.replace(m, values=())),
    "something mixed too few": (Stage.OPEN, OpenNotice, lambda _, m: msgspec.structs.replace(m, mixed=m.mixed[1:])),
    "mixed exchanged": (Stage.OPEN, OpenNotice, lambda _, m: msgspec.structs.replace(m, mixed=m.mixed[::-1])),
    "a share too few": (Stage.BROADCAST, SealedShares, lambda _, m: msgspec.structs.replace(m, shares=m.shares[1:])),
    "shares exchanged": (
        Stage.BROADCAST,
        SealedShares,
        lambda _, m: msgspec.structs.replace(m, shares=m.shares[::-1]),
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_ends_the_round(lie: str) -> None:
    stage, kind, change = LIES[lie]
    liar = type("OneLiar", (Liar,), {"stage": stage, "kind": kind, "lie": change})
    with pytest.raises((RemoteProtocolError, CohortTooSmall)):
        played(committee_round(4), aggregator_type=liar)


class TwoRosters(Aggregator):
    """Shows the first member all uploads, and the others all but the last."""

    def ask_committee(self, stage: Stage, bodies: Any, *, tries: int = 2) -> Any:
        if stage is Stage.PADS:
            first, *others = bodies
            short = wire.encode(without_last(wire.decode(bodies[first], RosterNotice, sender="")))
            bodies = {first: bodies[first]} | dict.fromkeys(others, short)
        return super().ask_committee(stage, bodies, tries=tries)


def test_two_rosters_for_one_round_end_it_before_anything_is_opened() -> None:
    round_ = committee_round(5)
    members = Members(PROTOCOLS["committee"], CLEAR, round_, tables(round_), RNG)
    with pytest.raises(RemoteProtocolError):
        members.play(TwoRosters)
    assert not any(stage in (Stage.MIX, Stage.OPEN) for said in members.said.values() for stage in said)


def test_what_others_signed_is_compared_at_every_stage() -> None:
    """With signatures, one digest that differs is enough, and the refusal names the stage."""
    round_ = committee_round(3)
    protocol = PROTOCOLS["committee"]
    members = Members(protocol, CLEAR, round_, tables(round_), RNG)
    playing = Aggregator(CLEAR, round_, wire.decode(members.setup, PublicSetup, sender=""), RNG).play()
    ask = next(playing)
    signed: dict[tuple[Stage, str], bytes] = {}
    refused = set()
    try:
        while True:
            answers = list(members.replies(ask))
            step = protocol.step(ask.stage)
            if step.cited:
                party, _ = answers[0]
                for cited in [part for stage in step.cited for part in stage.parts[: protocol.parts_of(round_, stage)]]:
                    for author in [name for stage, name in signed if stage is cited]:
                        forged = signed | {(cited, author): bytes(32)}
                        seat = replace(members.seat(party), signed=forged)
                        with pytest.raises(RemoteProtocolError, match=f"{author}.*{cited.value}"):
                            protocol.answer(seat, ask.stage, ask.bodies[party])
                        refused.add(cited)
            signed |= {(ask.stage, party): protocol.digest(ask.stage, data) for party, data in answers}
            ask = playing.send(answers)
    except StopIteration:
        pass
    assert refused == {Stage.OFFER, Stage.SUBMIT, Stage.PADS, Stage.MIX, Stage.OPEN}


def test_public_keys_are_those_that_a_member_told() -> None:
    round_ = committee_round(3)
    members = Members(PROTOCOLS["committee"], CLEAR, round_, tables(round_), RNG)
    first, second, _ = round_.parties
    members.publics[second] = members.publics[first]
    with pytest.raises(RemoteProtocolError, match="public keys"):
        members.play()


def test_what_is_signed_covers_everything() -> None:
    digest = upload_digest("r", "ash", b"n" * 16, [b"a" * 32, b"b" * 32])
    for other in (
        upload_digest("s", "ash", b"n" * 16, [b"a" * 32, b"b" * 32]),
        upload_digest("r", "birch", b"n" * 16, [b"a" * 32, b"b" * 32]),
        upload_digest("r", "ash", b"m" * 16, [b"a" * 32, b"b" * 32]),
        upload_digest("r", "ash", b"n" * 16, [b"b" * 32, b"a" * 32]),
    ):
        assert other != digest
    round_ = committee_round(3)
    members = Members(PROTOCOLS["committee"], CLEAR, round_, tables(round_), RNG)
    members.play()
    body = members.said[round_.parties[0]][Stage.PADS]
    crossing = wire.decode(body, Crossing, sender="")
    assert PROTOCOLS["committee"].digest(Stage.PADS, body) == told_digest(crossing.told)
    upload = members.said[round_.parties[0]][Stage.SUBMIT]
    counts = wire.decode(upload, CommitteeCounts, sender="")
    changed = msgspec.structs.replace(counts, values=(tampered(counts.values[0]), *counts.values[1:]))
    assert PROTOCOLS["committee"].digest(Stage.SUBMIT, upload) != PROTOCOLS["committee"].digest(
        Stage.SUBMIT, wire.encode(changed)
    )


# Restart: the same request gets the same secrets


class Remembering(Members):
    """Keeps what each member was asked."""

    def answer(self, party: str, stage: Stage, body: bytes) -> bytes:
        if not hasattr(self, "asked"):
            self.asked: dict[str, dict[Stage, bytes]] = {name: {} for name in self.round.parties}
        self.asked[party][stage] = body
        return super().answer(party, stage, body)


def test_a_restarted_member_goes_on_with_the_same_numbers() -> None:
    """Everything that others build on is derived: only encryption and masks are fresh."""
    round_ = committee_round(3)
    members = Remembering(PROTOCOLS["committee"], CLEAR, round_, tables(round_), RNG)
    members.play()
    me = round_.parties[0]
    requests = members.asked[me]
    for stage in (Stage.MIX, Stage.OPEN):
        again = PROTOCOLS["committee"].answer(members.seat(me), stage, requests[stage]).body
        before: Any = wire.decode(members.said[me][stage], type(again), sender="")
        if isinstance(again, Mixed):
            assert again == before
        elif isinstance(again, SealedShare):
            assert (again.seen, again.roster, len(again.box)) == (before.seen, before.roster, len(before.box))
    again = PROTOCOLS["committee"].answer(members.seat(me), Stage.PADS, requests[Stage.PADS]).body
    assert isinstance(again, Crossing)
    assert again.told.left == wire.decode(members.said[me][Stage.PADS], Crossing, sender="").told.left


def test_an_offer_is_never_made_twice_with_the_same_numbers() -> None:
    round_ = committee_round(3)
    members = Members(PROTOCOLS["committee"], CLEAR, round_, tables(round_), RNG)
    offers = [PROTOCOLS["committee"].answer(members.seat(round_.parties[0]), Stage.OFFER, b"").body for _ in range(2)]
    first, second = (offer.ciphertexts for offer in offers if isinstance(offer, Offer))
    assert first[0][0] != second[0][0]
