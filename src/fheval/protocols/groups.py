"""Groups that a study names: parties count all of them, and nobody opens one that is small.

How large a group is over all parties nobody knows, and nobody may learn it. So the rule rests on what each party can
say of itself without telling a number. With its upload, and under a pad of their own, a party declares a few zeros and
ones: of which groups it holds enough people, the study's minimum or more; of which it holds anyone; and both of whoever
is in none of them. The aggregator adds these up and hands the sum to the leader, who takes the pads off and learns how
many parties hold enough, and how many hold anyone, but not which.

1. A group is a candidate when as many parties hold enough of it as a cohort has at least: then each of them is hidden
   among the others.
2. The total less the published groups is a result about everyone else. So either there is nobody else, or they are as
   many by the same rule; otherwise the candidate that the fewest parties hold enough of is not published either, and
   the difference is about both.
3. Rounds over the same rows add up. A group that was not published before is published only if all groups that ever
   were leave nobody, or as many, by rule 2. So two rounds show no more than one of them could have.

The leader then gives pads for the total and for the published groups alone: of the others nothing is ever computed.
What it chose goes back to it with the answer under a ticket that only it can write, and that is void once another
round was opened: rounds that overlap do not slip past rule 3.

Tags as in `curve` keep an aggregator from adding parties to a small group: a sum that was changed passes with a
probability of 1/(t − 1) for each.

In `committee` all members do this together, see there: the declarations are signed, and need no tags.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest

import numpy as np

from fheval import field
from fheval.engines.parameters import plain_moduli
from fheval.errors import LocalProtocolError, RemoteProtocolError
from fheval.field import Residues
from fheval.protocols import padding
from fheval.protocols.base import Seat
from fheval.protocols.round import AGGREGATOR, Contribution, IntegerVector, PartySecrets, Round
from fheval.secrets import derive, expand, nonzero_residue

(PRIME,) = plain_moduli(1)
# A forged sum passes with 2^-91.
TAGS = 2
PAD = "groups/pad"

SUPPRESSED = "suppressed: too few parties hold enough of it, or it would give such a group away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Of how many parties each group has enough people, and anyone at all; "" is whoever is in no named group."""

    enough: Mapping[str, int]
    any: Mapping[str, int]

    @classmethod
    def read(cls, groups: Sequence[str], counts: Sequence[int]) -> Declared:
        """From the sum of what parties declared."""
        names = (*groups, "")
        return cls(
            enough=dict(zip(names, counts[: len(names)], strict=True)),
            any=dict(zip(names, counts[len(names) :], strict=True)),
        )


def declaration(groups: Sequence[str], sizes: Mapping[str, int], minimum: int) -> IntegerVector:
    """Party: what it declares, from how many people of each group it holds.

    >>> declaration(["F", "M"], {"F": 30, "M": 2, "X": 1}, 20).tolist()
    [1, 0, 0, 1, 1, 1]
    """
    held = [sizes.get(group, 0) for group in groups]
    held.append(sum(sizes.values()) - sum(held))
    return np.array([*(size >= minimum for size in held), *(size > 0 for size in held)], dtype=np.int64)


def untagged_size(round_: Round) -> int:
    """How many numbers a party declares; none where the study names no groups."""
    return 2 * (len(round_.groups) + 1) if round_.undecided else 0


def declared_size(round_: Round) -> int:
    """The same, tags included."""
    return untagged_size(round_) * (1 + TAGS)


def declared_of(round_: Round, own: Contribution) -> Residues:
    """Party: d, what it declares."""
    if own.declared is None or len(own.declared) != untagged_size(round_):
        raise LocalProtocolError("The round has groups and a party declares none. Count again.")
    return field.from_integers(own.declared, PRIME)


def party_declare(round_: Round, secrets: PartySecrets, own: Contribution, nonce: bytes) -> bytes:
    """Party, with its upload: d, α_1·d, … under a pad."""
    if not round_.undecided:
        return b""
    plain = declared_of(round_, own)
    parts = [plain, *(field.multiply(plain, key, PRIME) for key in _tag_keys(round_, secrets))]
    return padding.party_pad(round_, secrets, nonce, [PRIME], [np.concatenate(parts)], PAD)


def leader_read(
    round_: Round, secrets: PartySecrets, roster: Sequence[str], nonces: bytes, declared: bytes
) -> Declared:
    """Leader: what the roster declared, in all. Learns: how many parties hold enough, and anyone, of each group."""
    total = padding.UploadSum(declared_size(round_))
    total.add(declared, AGGREGATOR)
    (padded,) = total.totals([PRIME])
    (pads,) = padding.leader_pad_sums(round_, secrets, roster, nonces, [PRIME], declared_size(round_), PAD)
    plain, *tagged = np.split(field.subtract(padded, pads, PRIME), 1 + TAGS)
    for key, tag in zip(_tag_keys(round_, secrets), tagged, strict=True):
        if not np.array_equal(field.multiply(plain, key, PRIME), tag):
            raise RemoteProtocolError(
                "What the parties declared of their groups was altered. The round was aborted.",
                step="groups",
                culprit=AGGREGATOR,
            )
    return Declared.read(round_.groups, plain.tolist())


def choose(declared: Declared, least: int, before: Collection[str] = ()) -> tuple[str, ...]:
    """Leader: the groups that are published, where those of `before` ever were.

    >>> few = Declared(enough={"F": 5, "M": 4, "": 0}, any={"F": 5, "M": 5, "": 1})
    >>> choose(few, 3), choose(few, 3, before=["M"])
    (('F',), ('M',))
    """
    large = candidates(declared, least)
    for published in _options(declared, large, before):
        new = not set(published) <= set(before)
        if is_safe(declared, published, least) and not (new and not is_safe(declared, {*published, *before}, least)):
            return published
    return ()


def candidates(declared: Declared, least: int) -> tuple[str, ...]:
    """Rule 1."""
    return tuple(group for group, parties in declared.enough.items() if group and parties >= least)


def is_safe(declared: Declared, published: Collection[str], least: int) -> bool:
    """Rules 1 and 2: whether neither a published group nor what they leave of the total is small."""
    if not published:
        return True
    if not set(published) <= set(candidates(declared, least)):
        return False
    left = [group for group in declared.any if group not in published]
    return not any(declared.any[group] for group in left) or any(declared.enough[group] >= least for group in left)


def _options(declared: Declared, large: tuple[str, ...], before: Collection[str]) -> Iterable[tuple[str, ...]]:
    """What may be published, as much as can be first."""
    again = tuple(group for group in large if group in before)
    for chosen in (large, again):
        yield chosen
        for hidden in sorted(chosen, key=lambda group: (declared.enough[group], group)):
            yield tuple(group for group in chosen if group != hidden)


def ticket(round_: Round, secrets: PartySecrets, published: Sequence[str], before: Collection[str]) -> bytes:
    """Leader: a proof to itself that it chose these groups, and knew of no others than `before`."""
    if secrets.master is None:
        raise LocalProtocolError("A leader chooses the groups. This party has no master.")
    return expand(secrets.master, "groups/ticket", round_.digest, len(published), *published, *sorted(before)).reveal()


def require_ticket(seat: Seat, published: Sequence[str], shown: bytes) -> None:
    """Leader: refuse an answer about other groups, or one that a round which was opened since was not reckoned with."""
    if not compare_digest(ticket(seat.round, seat.secrets, published, seat.published_before), shown):
        raise RemoteProtocolError(
            "The answer is about other groups than were chosen, or others were published since. The round was aborted.",
            step="groups",
            culprit=AGGREGATOR,
        )


def require_groups(round_: Round, published: Sequence[str], sender: str) -> None:
    """Refuse groups that the study does not name, or in another order, and others than all where nothing is chosen."""
    fixed = published if round_.undecided else round_.groups
    if tuple(group for group in round_.groups if group in fixed) != tuple(published):
        raise RemoteProtocolError(
            f"{sender} names groups that the study does not. The round was aborted.", step="groups", culprit=sender
        )


def _tag_keys(round_: Round, secrets: PartySecrets) -> list[int]:
    return [nonzero_residue(derive(secrets.seed, "groups/tag", round_.digest, tag), PRIME) for tag in range(TAGS)]


def added(sums: padding.UploadSum) -> bytes:
    """Aggregator: the sum of declarations as it travels."""
    totals: list[Residues] = sums.totals([PRIME])
    return padding.pack(totals)
