"""Before a round by groups: the parties tell the leader which groups they hold enough of, and no one else.

| step | from | to | what |
|---|---|---|---|
| 1 | party | leader | the groups of which it holds enough |
| 2 | leader | parties | the candidates |
| 3 | party | leader | whether it holds anyone outside of them |
| 4 | leader | parties | what is published, what is not, and why |

All of it passes through the aggregator, sealed under keys that come from the parties' seed and filled up to one
length, so that the aggregator learns nothing; what is published it reads in the round's question. See
`fheval.metrics.groups` for the rule and the argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fheval.errors import ConfigError, RemoteProtocolError
from fheval.metrics.groups import Decision, Rule, candidates, decide, has_others, large_groups
from fheval.protocols.play import Watch
from fheval.secrets import Randomness, SealBroken, Secret, seal, unseal
from fheval.wire import Message, decode, encode

# Room for some two hundred groups with names of twenty letters.
SEALED_BYTES = 4096


class SealedAnswer(Message, frozen=True, kw_only=True):
    """One step of one sender, readable by the parties alone."""

    session: str
    sender: str
    step: int
    box: bytes


# What is said at each step: groups; candidates; whether anyone is outside; what is published, and why the rest is not.
_Groups = tuple[str, ...]
_Decided = tuple[_Groups, dict[str, str]]


def _seal(session: str, seed: Secret[bytes], sender: str, step: int, content: object, rng: Randomness) -> SealedAnswer:
    plain = msgspec.msgpack.encode(content)
    if len(plain) > SEALED_BYTES:
        raise ConfigError("There are more groups than a declaration holds. Use a coarser grouping.")
    box = seal(seed, "declaration", session, sender, step, plain=plain, rng=rng, room=SEALED_BYTES)
    return SealedAnswer(session=session, sender=sender, step=step, box=box)


def _open(session: str, seed: Secret[bytes], message: SealedAnswer, step: int, expected: Any) -> Any:
    try:
        plain = unseal(seed, "declaration", session, message.sender, step, box=message.box)
        return msgspec.msgpack.decode(plain, type=expected)
    except (SealBroken, msgspec.DecodeError, ValueError) as error:
        raise RemoteProtocolError(
            f"A declaration of {message.sender} was altered or belongs to another step. Declare the groups again.",
            step="SealedAnswer",
            culprit=message.sender,
        ) from error


def party_declare(
    session: str, seed: Secret[bytes], me: str, sizes: Mapping[str, int], rule: Rule, rng: Randomness
) -> SealedAnswer:
    """Step 1, party: name the groups of which it holds enough."""
    return _seal(session, seed, me, 1, tuple(sorted(large_groups(sizes, rule))), rng)


def party_complete(
    session: str, seed: Secret[bytes], me: str, sizes: Mapping[str, int], proposal: SealedAnswer, rng: Randomness
) -> SealedAnswer:
    """Step 3, party: say whether it holds anyone outside of the candidates."""
    proposed = _open(session, seed, proposal, 2, _Groups)
    return _seal(session, seed, me, 3, has_others(sizes, proposed), rng)


def party_read(session: str, seed: Secret[bytes], message: SealedAnswer) -> Decision:
    """Step 4, party: learn what is published, and why the rest is not."""
    return Decision(*_open(session, seed, message, 4, _Decided))


class Leader:
    """Steps 2 and 4. Learns: which parties hold enough of which group, and which hold anyone outside."""

    def __init__(self, session: str, seed: Secret[bytes], me: str, parties: Sequence[str], rule: Rule) -> None:
        self.session = session
        self.me = me
        self.rule = rule
        self._seed = seed
        self._parties = frozenset(parties)
        self.declared: dict[str, tuple[str, ...]] = {}
        self.others: dict[str, bool] = {}

    def propose(self, answers: Sequence[SealedAnswer], rng: Randomness) -> SealedAnswer:
        """Step 2: the candidates, from one declaration of every party."""
        self.declared = {
            answer.sender: _open(self.session, self._seed, answer, 1, _Groups) for answer in self._all(answers)
        }
        proposed = candidates(self.declared, self.rule)
        return _seal(self.session, self._seed, self.me, 2, proposed, rng)

    def conclude(self, answers: Sequence[SealedAnswer], rng: Randomness) -> SealedAnswer:
        """Step 4: what is published."""
        self.others = {answer.sender: _open(self.session, self._seed, answer, 3, bool) for answer in self._all(answers)}
        decision = decide(self.declared, self.others, self.rule)
        decided = decision.published, dict(decision.suppressed)
        return _seal(self.session, self._seed, self.me, 4, decided, rng)

    def _all(self, answers: Sequence[SealedAnswer]) -> Sequence[SealedAnswer]:
        senders = [answer.sender for answer in answers]
        if len(senders) != len(self._parties) or set(senders) != self._parties:
            raise RemoteProtocolError(
                "A declaration is missing or comes from a stranger. Declare the groups again, with all parties.",
                step="SealedAnswer",
                culprit=next(iter(set(senders) ^ self._parties), self.me),
            )
        return answers


def declare_groups(
    session: str,
    seed: Secret[bytes],
    leader: str,
    sizes: Mapping[str, Mapping[str, int]],
    rule: Rule,
    rng: Randomness,
    watch: Watch,
) -> Decision:
    """Play all roles; only bytes pass between them. `sizes` has each party's own counts of its groups."""

    def sent(message: SealedAnswer) -> SealedAnswer:
        return decode(encode(message), SealedAnswer, sender=message.sender)

    speaker = Leader(session, seed, leader, tuple(sizes), rule)
    with watch.working("party"):
        first = [sent(party_declare(session, seed, party, own, rule, rng)) for party, own in sizes.items()]
    with watch.working("leader"):
        proposal = sent(speaker.propose(first, rng))
    with watch.working("party"):
        second = [sent(party_complete(session, seed, party, own, proposal, rng)) for party, own in sizes.items()]
    with watch.working("leader"):
        decided = sent(speaker.conclude(second, rng))
    with watch.working("party"):
        return party_read(session, seed, decided)
