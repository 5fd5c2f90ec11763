"""An aggregator of `committee` that carries a strategy out.

It holds no key and computes nothing: all that it can do is to show members and parties something else than what was
sent, to some of them or to all. What strategies do to slots it does to the uploads that those slots come from.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import ClassVar

import msgspec

from fheval.engines import Engine
from fheval.protocols import committee
from fheval.protocols.base import Ask, Playing, Replies, Stage
from fheval.protocols.committee_messages import (
    CommitteeCounts,
    MixNotice,
    RosterNotice,
    SealedShare,
    SealedShares,
    upload_digest,
)
from fheval.protocols.round import NONCE_BYTES, PublicSetup, Round
from fheval.secrets import Randomness
from fheval.wire import decode, encode
from fheval_lab.attacks.strategy import HONEST, Knowledge, Mail, Strategy


class CommitteeAdversary(committee.Aggregator):
    """Deviates from `committee`: other uploads, other rosters, other shares."""

    plot: ClassVar[type[Strategy]]
    earlier: ClassVar[Sequence[CommitteeCounts]]

    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None:
        super().__init__(engine, round_, setup, rng)
        self.rng = rng
        known = Knowledge(
            parties=len(round_.parties),
            runs=len(self.members),
            slots=round_.forms[0].numerator,
            anchor_slots=1,
            rng=rng,
        )
        self.strategy = self.plot(known)

    def notice(self, offers: dict[str, bytes]) -> RosterNotice:
        """Choose the uploads, and announce somebody else where the strategy does."""
        mail = Mail(inbox=self.uploads, earlier=self.earlier, forge=self.forged)
        chosen = self.strategy.choose_uploads(mail)
        tampered = any(each != HONEST for each in self.strategy.tamper_with_runs())
        self.uploads = [self._changed(chosen[0]), *chosen[1:]] if tampered else chosen
        honest = super().notice(offers)
        announced = set(self.strategy.announce(self.roster))
        kept = [upload for upload in self.uploads if upload.sender in announced]
        if len(announced) == len(self.roster):
            return honest
        digests = [
            upload_digest(each.round, each.sender, each.nonce, [sha256(values).digest() for values in each.values])
            for each in kept
        ]
        return msgspec.structs.replace(
            honest,
            roster=tuple(each.sender for each in kept),
            nonces=b"".join(each.nonce for each in kept),
            uploads=b"".join(digests),
        )

    def mix_notices(self, notice: RosterNotice, crossings: dict[str, bytes]) -> Iterator[dict[str, bytes]]:
        """Speak of the whole roster again."""
        return super().mix_notices(msgspec.structs.replace(notice, roster=tuple(self.roster)), crossings)

    def tell_all(self, body: bytes) -> Playing:
        """Give out other shares than the members'."""
        message = decode(body, SealedShares, sender="")
        # What is a run elsewhere is a member's share here.
        shares = [message.shares[source] for source in self.strategy.sources()] if self.strategy.answers else []
        if self.strategy.constants() is not None:
            read = [decode(share, SealedShare, sender="") for share in shares]
            shares = [encode(msgspec.structs.replace(each, box=self.rng.draw(len(each.box)))) for each in read]
        if self.strategy.garbles:
            shares = [self.strategy.garble(bytes(share)) for share in shares]
        return super().tell_all(encode(SealedShares(round=message.round, shares=tuple(shares))))

    def forged(self) -> CommitteeCounts:
        """An upload out of thin air."""
        first = self.uploads[0]
        values = tuple(self.rng.draw(len(each)) for each in first.values)
        return msgspec.structs.replace(first, nonce=self.rng.draw(NONCE_BYTES), values=values)

    def _changed(self, upload: CommitteeCounts) -> CommitteeCounts:
        first, *others = upload.values
        return msgspec.structs.replace(upload, values=(bytes([first[0] ^ 1]) + bytes(first[1:]), *others))


class WrongSum(CommitteeAdversary):
    """Shows changed uploads with matching digests: to the first member alone, or to all; the strategy is honest."""

    plot = Strategy
    earlier = ()
    to_all: ClassVar[bool] = True

    def ask_committee(
        self, stage: Stage, bodies: Mapping[str, bytes], *, tries: int = 2
    ) -> Generator[Ask, Replies, dict[str, bytes]]:
        if stage is Stage.MIX:
            chosen = list(bodies) if self.to_all else list(bodies)[:1]
            bodies = {name: self._wrong(body) if name in chosen else body for name, body in bodies.items()}
        return super().ask_committee(stage, bodies, tries=tries)

    def _wrong(self, body: bytes) -> bytes:
        notice = decode(body, MixNotice, sender="")
        size = len(notice.values[0]) // len(notice.roster)
        first = bytes([notice.values[0][0] ^ 1]) + bytes(notice.values[0][1:])
        digests = sha256(first[:size]).digest() + bytes(notice.digests[32:])
        return encode(msgspec.structs.replace(notice, values=(first, *notice.values[1:]), digests=digests))


class TwoRosters(CommitteeAdversary):
    """Gives the first member all uploads, and the others all but the last."""

    plot = Strategy
    earlier = ()

    def ask_committee(
        self, stage: Stage, bodies: Mapping[str, bytes], *, tries: int = 2
    ) -> Generator[Ask, Replies, dict[str, bytes]]:
        if stage is Stage.PADS:
            first, *others = bodies
            bodies = {first: bodies[first]} | {name: self._short(bodies[name]) for name in others}
        return super().ask_committee(stage, bodies, tries=tries)

    def _short(self, body: bytes) -> bytes:
        notice = decode(body, RosterNotice, sender="")
        return encode(
            msgspec.structs.replace(
                notice,
                roster=notice.roster[:-1],
                nonces=bytes(notice.nonces[:-NONCE_BYTES]),
                uploads=bytes(notice.uploads[:-32]),
            )
        )
