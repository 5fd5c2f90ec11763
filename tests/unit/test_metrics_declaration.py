"""Declaring groups: sealed, of one length, from every party once, and nothing but what the rule needs."""

from __future__ import annotations

from collections import Counter

import pytest

from fheval.errors import ConfigError, RemoteProtocolError
from fheval.evaluation import declaration
from fheval.evaluation.declaration import (
    Leader,
    SealedAnswer,
    declare_groups,
    party_complete,
    party_declare,
    party_read,
)
from fheval.metrics.groups import Rule
from fheval.protocols.play import Watch
from fheval.secrets import Secret, SystemRandomness
from fheval.wire import Message, encode

RULE = Rule(minimum_size=3, minimum_parties=2)
SIZES = {"a": Counter(F=5, M=3), "b": Counter(F=9, M=4, X=1), "c": Counter(F=1, M=7)}
SEED = Secret(bytes(range(32)))
RNG = SystemRandomness()


def test_all_roles_come_to_one_decision() -> None:
    decision = declare_groups("s", SEED, "a", SIZES, RULE, RNG, Watch())
    # X is left over: F, which fewer parties declare, goes with it.
    assert decision.published == ("M",)
    assert "left of the total" in decision.suppressed["F"]
    assert "X" not in decision.suppressed


def test_the_aggregator_sees_bytes_of_one_length_and_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def tapped(message: Message) -> bytes:
        seen.append(encode(message))
        return seen[-1]

    monkeypatch.setattr(declaration, "encode", tapped)
    sizes = {name: Counter({"Female": 5} | own) for name, own in SIZES.items()}
    declare_groups("s", SEED, "a", sizes, RULE, RNG, Watch())
    assert len(seen) == 3 + 1 + 3 + 1
    assert len({len(data) for data in seen}) == 1
    assert not any(b"Female" in data for data in seen)


def test_a_party_names_its_large_groups_and_no_other() -> None:
    leader = Leader("s", SEED, "a", ["a", "b", "c"], RULE)
    leader.propose([party_declare("s", SEED, name, own, RULE, RNG) for name, own in SIZES.items()], RNG)
    assert leader.declared == {"a": ("F", "M"), "b": ("F", "M"), "c": ("M",)}


def test_answers_that_are_altered_moved_or_of_another_session_are_refused() -> None:
    leader = Leader("s", SEED, "a", list(SIZES), RULE)
    first = {name: party_declare("s", SEED, name, own, RULE, RNG) for name, own in SIZES.items()}
    proposal = leader.propose(list(first.values()), RNG)
    fields = {name: getattr(first["c"], name) for name in SealedAnswer.__struct_fields__}
    box, nonce = fields["box"], 12
    altered = [
        {**fields, "box": box[:nonce] + bytes([box[nonce] ^ 1]) + box[nonce + 1 :]},
        {**fields, "box": first["b"].box},
        {**fields, "box": first["b"].box[:nonce] + box[nonce:]},
        {**fields, "box": box[:nonce]},
    ]
    for bad in [*(SealedAnswer(**each) for each in altered), party_declare("t", SEED, "c", SIZES["c"], RULE, RNG)]:
        with pytest.raises(RemoteProtocolError, match="declaration of c"):
            leader.propose([first["a"], first["b"], bad], RNG)
    with pytest.raises(RemoteProtocolError, match="another step"):
        party_read("s", SEED, proposal)
    with pytest.raises(RemoteProtocolError):
        party_complete("s", Secret(bytes(32)), "b", SIZES["b"], proposal, RNG)


def test_every_party_answers_once() -> None:
    leader = Leader("s", SEED, "a", list(SIZES), RULE)
    answers = [party_declare("s", SEED, name, own, RULE, RNG) for name, own in SIZES.items()]
    for wrong in (answers[:2], [*answers, answers[0]], [*answers[:2], answers[0]]):
        with pytest.raises(RemoteProtocolError, match="missing or comes from a stranger"):
            leader.propose(wrong, RNG)


def test_more_groups_than_fit_are_refused_before_anything_is_sent() -> None:
    sizes = {f"a group with a long name, number {number}": 5 for number in range(500)}
    with pytest.raises(ConfigError, match="coarser grouping"):
        party_declare("s", SEED, "a", sizes, RULE, RNG)


def test_a_message_prints_no_content() -> None:
    message = party_declare("s", SEED, "a", SIZES["a"], RULE, RNG)
    assert "bytes>" in repr(message)
    assert len(encode(message)) < 4500
