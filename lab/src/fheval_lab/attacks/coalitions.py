"""The aggregator, all members of a committee but one, and any parties: what do they see of the others' counts?

Their joint view is every message, less all that they can work out themselves: their own pads, keys, masks and shares.
In a field of a hundred elements its distribution can be compared whole: for victims that counted nothing and for
victims that counted much, number by number and in pairs, whose sums and differences would show what one hides by
another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from fheval import field, wire
from fheval.errors import LocalProtocolError
from fheval.protocols.base import Stage
from fheval.protocols.committee import Aggregator, Committee
from fheval.protocols.committee_messages import CommitteeCounts, Crossing, Mixed, SealedShare
from fheval.protocols.committee_numbers import Layout
from fheval.protocols.padding import UploadSum, leader_pad_sums, pad, reduced
from fheval.protocols.play import Members
from fheval.protocols.round import Contribution, PublicSetup, Round
from fheval.secrets import unseal
from fheval.study import Study
from fheval_lab.attacks.chance import same_distribution
from fheval_lab.attacks.consortium import fresh_stream
from fheval_lab.attacks.views import Likeness
from fheval_lab.clear import ClearEngine

PRIMES = (101,)
ROUNDS = 6
PARTIES = ("ash", "birch", "cedar", "elm")
THRESHOLDS = range(5, 100, 5)
FINAL = "final"

View = dict[str, npt.NDArray[np.uint64]]


class SmallCommittee(Committee):
    """`committee` in one small field, where nothing can be read at the end and everything can be compared."""

    def __init__(self, prime: int) -> None:
        self.prime = prime

    def lay_out(self, round_: Round) -> Layout:
        return replace(super().lay_out(round_), primes=(self.prime,), parts=(slice(0, 1),))


def compare_coalitions(prime: int, rounded: bool, rounds: int = ROUNDS) -> list[Likeness]:
    """For each member as the honest one: the coalition's view of nothing and of much.

    Of all pairs there is one line: the least likely one, and how likely it is that any of so many is as unlikely.
    """
    found = []
    for honest in range(3):
        few, many = (_views(prime, rounded, honest, count, rounds) for count in (0, prime // 2))
        prefix = f"member-{honest + 1}-honest-{'rounded' if rounded else 'exact'}-mod-{prime}"
        single, pairs = (
            [(same_distribution(few[name], many[name]), name) for name in few if (" " in name) is paired]
            for paired in (False, True)
        )
        found += [Likeness(name=f"{prefix}-{name}", numbers=len(few[name]), chance=chance) for chance, name in single]
        least, name = min(pairs)
        found.append(
            Likeness(
                name=f"{prefix}-{name}, of {len(pairs)} pairs",
                numbers=len(few[name]),
                chance=min(1.0, len(pairs) * least),
            )
        )
    return found


def _views(prime: int, rounded: bool, honest: int, count: int, rounds: int) -> View:
    collected: dict[str, list[Any]] = {}
    for _ in range(rounds):
        for name, values in coalition_view(SmallCommittee(prime), prime, rounded, honest, count).items():
            collected.setdefault(name, []).append(values)
    return {name: np.concatenate(parts) for name, parts in collected.items()}


def coalition_view(protocol: Committee, prime: int, rounded: bool, honest: int, count: int) -> View:
    """One round: what the coalition is left with when it has taken off all that it knows, number by number."""
    members = played_members(protocol, rounded=rounded, count=count)
    # The last party is no member: a victim that nobody of the coalition is.
    found = dict(_taken_off(members, protocol, protocol.keepers(members.round)[honest], PARTIES[-1], prime))
    return _with_pairs(found, prime)


def played_members(protocol: Committee, *, rounded: bool, count: int) -> Members:
    """A round of several recalls up to its shares, among parties that all have counted so many everywhere."""
    engine, rng = ClearEngine(), fresh_stream()
    study = Study.of(
        protocol=protocol.name,
        metrics=[f"recall@0.{threshold:02}" for threshold in THRESHOLDS],
        precision=1e-4 if rounded else "exact",
    )
    round_ = study.round(study.call(rng, engine=engine.name, parties=PARTIES, leader=PARTIES[0]))
    if round_.batch is None:
        raise LocalProtocolError("A round of ratios has a batch.")
    counts = Contribution(np.full((1, round_.batch.size), count, dtype=np.int64))
    members = Members(protocol, engine, round_, dict.fromkeys(PARTIES, counts), rng)
    _play(members, protocol)
    return members


def _play(members: Members, protocol: Committee) -> None:
    """Play all stages up to the shares; in so small a field nothing can be read from them."""
    kind = type("SmallAggregator", (Aggregator,), {"lay_out": staticmethod(protocol.lay_out)})
    setup = wire.decode(members.setup, PublicSetup, sender="")
    playing = kind(members.engine, members.round, setup, members.rng).play()
    ask = next(playing)
    while ask.stage is not Stage.BROADCAST:
        ask = playing.send(list(members.replies(ask)))


def _taken_off(
    members: Members, protocol: Committee, me: str, victim: str, prime: int
) -> Iterator[tuple[str, npt.NDArray[np.uint64]]]:
    """The honest member's messages, and a victim's upload, less what the others know of them."""
    round_, layout = members.round, protocol.lay_out(members.round)
    keepers = protocol.keepers(round_)
    said = members.said[me]
    upload = wire.decode(members.said[victim][Stage.SUBMIT], CommitteeCounts, sender="")
    # The victim's upload, less the pads that all other members can derive.
    values = _residues(upload.values[0], layout.batch.size, prime)
    for keeper in keepers:
        if keeper != me:
            seed = members.made[keeper].pad_seed_of(victim)
            limbs = pad(seed, round_, upload.nonce, layout.batch.size).astype(np.uint64)
            values = field.subtract(values, reduced(limbs, 32, [prime])[0], prime)
    yield "upload", values
    crossing = wire.decode(said[Stage.PADS], Crossing, sender="")
    left = _residues(crossing.told.left[0], layout.batch.size, prime)
    yield "difference", left
    # The sum of all uploads, less the others' pads, and what the honest member told of its own: δ less the others' ρ.
    yield "sum", field.add(_sum_without(members, layout, me, prime), left, prime)
    for number, keeper in enumerate(keepers):
        if keeper == me:
            continue
        holder = members.engine.key_holder(layout.parameters[0], members.made[keeper].keys[0])
        slots = np.concatenate([holder.decrypt(data) for data in crossing.returns[number][0]])
        yield f"returned-{number}", np.asarray(slots[: layout.plan.factors + layout.plan.groups], dtype=np.uint64)
        yield f"groups-{number}", layout.plan.sums(np.asarray(slots, dtype=np.uint64), prime)
    mixed = wire.decode(said[Stage.MIX], Mixed, sender="")
    index = keepers.index(me)
    kinds = 3 if layout.rounded is not None and index == 0 else 2
    rows = _residues(mixed.values, kinds * 2 * layout.plan.forms, prime).reshape(kinds, -1)
    yield from zip(("shares", "kept", "theta"), rows, strict=False)
    # Each final share by itself; all of them add up to what is released, and are compared by those who may learn it.
    share = wire.decode(said[Stage.OPEN], SealedShare, sender="")
    box = unseal(members.secrets_of(me).seed, "share", round_.digest, share.seen, me, box=share.box)
    yield FINAL, _residues(box, 2 * layout.plan.forms, prime)


def _sum_without(members: Members, layout: Layout, me: str, prime: int) -> npt.NDArray[np.uint64]:
    """Y less the pads of all members but one."""
    round_ = members.round
    uploads = [wire.decode(members.said[party][Stage.SUBMIT], CommitteeCounts, sender="") for party in round_.parties]
    total = UploadSum(layout.batch.size)
    for upload in uploads:
        total.add(bytes(upload.values[0]), upload.sender)
    (summed,) = total.totals([prime])
    nonces = b"".join(upload.nonce for upload in uploads)
    for keeper, own in members.made.items():
        if keeper != me:
            (pads,) = leader_pad_sums(round_, own, round_.parties, nonces, [prime], layout.batch.size)
            summed = field.subtract(summed, pads, prime)
    return summed


def _residues(blob: bytes, count: int, prime: int) -> npt.NDArray[np.uint64]:
    total = UploadSum(count)
    total.add(blob, "")
    (values,) = total.totals([prime])
    return values


def _with_pairs(view: View, prime: int) -> View:
    """All numbers, and of every two kinds the sums and differences of their first ones."""
    pairs = {}
    for one, other in combinations([name for name in view if name != FINAL], 2):
        length = min(len(view[one]), len(view[other]))
        first, second = view[one][:length], view[other][:length]
        pairs[f"{one} + {other}"] = field.add(first, second, prime)
        pairs[f"{one} - {other}"] = field.subtract(first, second, prime)
    return view | pairs
