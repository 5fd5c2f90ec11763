"""Declaring groups: sealed, of one length, from every party once, and nothing but what the rule needs."""

from __future__ import annotations

from collections import Counter

import pytest
from fheval.protocols.watch import InProcess

from fheval.errors import ConfigError, RemoteProtocolError
from fheval.metrics.groups import Rule
from fheval.protocols import declaration
from fheval.protocols.declaration import Leader, SealedAnswer, party_complete, party_declare, party_read
from fheval.secrets import Secret, SystemRandomness
from fheval.wire import Message, encode

RULE = Rule(minimum_size=3, minimum_parties=2)
SIZES = {"a": Counter(F=5, M=3), "b": Counter(F=9, M=4, X=1), "c": Counter(F=1, M=7)}
SEED = Secret(bytes(range(32)))
RNG = SystemRandomness()


class Tapped(InProcess):
    """An aggregator's view: all bytes that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bytes] = []

    def carry(self, kind: str, message: Message) -> bytes:
        data = super().carry(kind, message)
        self.seen.append(data)
        return data


def test_all_roles_come_to_one_decision() -> None:
    decision = declaration.run("s", SEED, "a", SIZES, RULE, RNG, InProcess())
    # X is left over: F, which fewer parties declare, goes with it.
    assert decision.published == ("M",)
    assert "left of the total" in decision.suppressed["F"]
    assert "X" not in decision.suppressed


def test_the_aggregator_sees_bytes_of_one_length_and_no_name() -> None:
    post = Tapped()
    declaration.run(
        "s", SEED, "a", {name: Counter({"Female": 5} | own) for name, own in SIZES.items()}, RULE, RNG, post
    )
    assert len(post.seen) == 3 + 1 + 3 + 1
    assert len({len(data) for data in post.seen}) == 1
    assert not any(b"Female" in data for data in post.seen)


def test_a_party_names_its_large_groups_and_no_other() -> None:
    leader = Leader("s", SEED, "a", ["a", "b", "c"], RULE)
    leader.propose([party_declare("s", SEED, name, own, RULE, RNG) for name, own in SIZES.items()], RNG)
    assert leader.declared == {"a": ("F", "M"), "b": ("F", "M"), "c": ("M",)}


def test_answers_that_are_altered_moved_or_of_another_session_are_refused() -> None:
    leader = Leader("s", SEED, "a", list(SIZES), RULE)
    first = {name: party_declare("s", SEED, name, own, RULE, RNG) for name, own in SIZES.items()}
    proposal = leader.propose(list(first.values()), RNG)
    fields = {name: getattr(first["c"], name) for name in SealedAnswer.__struct_fields__}
    altered = [
        {**fields, "sealed": bytes([fields["sealed"][0] ^ 1]) + fields["sealed"][1:]},
        {**fields, "sealed": first["b"].sealed},
        {**fields, "nonce": first["b"].nonce},
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
