"""The messages of `committee`, and what of them is hashed and signed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from fheval.errors import RemoteProtocolError
from fheval.protocols.round import AGGREGATOR, Round
from fheval.wire import Blob, Message, encode


class Offer(Message, frozen=True, kw_only=True):
    """Offer, member to the others: ciphertexts under its own key, for every prime and sheet; they depend on no data."""

    round: str
    sender: str
    nonce: bytes
    ciphertexts: tuple[tuple[Blob, ...], ...]


class CommitteeCounts(Message, frozen=True, kw_only=True):
    """Submit, party to members: y_m for every prime, six bytes a value, and the nonce that its pads were made with.

    Where the study has groups, what it declares of them follows under pads of their own, as if for one more prime.
    """

    round: str
    sender: str
    nonce: bytes
    values: tuple[Blob, ...]


class RosterNotice(Message, frozen=True, kw_only=True):
    """Pads, aggregator to members: who arrived, with which nonces and uploads, and what the members offered."""

    round: str
    roster: tuple[str, ...]
    nonces: Blob
    uploads: Blob
    offers: tuple[Blob, ...]


class Told(Message, frozen=True, kw_only=True):
    """Pads, member to all others: D_i for every prime, and digests of what each of them gets besides.

    `uploads` and `offers` are the digests of what this member was shown.
    """

    round: str
    sender: str
    uploads: bytes
    offers: bytes
    left: tuple[Blob, ...]
    returns: tuple[bytes, ...]


class Crossing(Message, frozen=True, kw_only=True):
    """Pads, member to aggregator: what it tells all, and for each other member its ciphertexts, by prime and sheet."""

    told: Told
    returns: tuple[tuple[tuple[Blob, ...], ...], ...]


class MixNotice(Message, frozen=True, kw_only=True):
    """Mix, aggregator to one member: the uploads of some primes, what all told, and what was returned to it.

    `digests` are those of every party's values, prime by prime; `values` has the values of the primes of this part, and
    the first part what was declared.
    """

    round: str
    roster: tuple[str, ...]
    nonces: Blob
    digests: Blob
    values: tuple[Blob, ...]
    told: tuple[Told, ...]
    returns: tuple[tuple[tuple[Blob, ...], ...], ...]


class Mixed(Message, frozen=True, kw_only=True):
    """Mix, member to the others: its shares less u_i, what it keeps for itself under a pad, and A's θ.

    `declared` has its share of what was declared of groups, sealed so that the aggregator cannot read it.
    """

    round: str
    sender: str
    seen: bytes
    values: Blob
    declared: bytes = b""


class DeclaredShare(Message, frozen=True, kw_only=True):
    """In `Mixed.declared`: a member's share of the sum of declarations, and the groups that it knows were published."""

    share: bytes
    before: tuple[str, ...]


class OpenNotice(Message, frozen=True, kw_only=True):
    """Open, aggregator to members: what all of them answered at every part of `mix`."""

    round: str
    mixed: tuple[tuple[Blob, ...], ...]


class SealedShare(Message, frozen=True, kw_only=True):
    """Open, member to all parties: its share of X and Z, sealed so that the aggregator cannot read it.

    They are of everyone and of the `groups` that are published.
    """

    round: str
    sender: str
    roster: tuple[str, ...]
    seen: bytes
    box: bytes
    groups: tuple[str, ...] = ()


class SealedShares(Message, frozen=True, kw_only=True):
    """Broadcast, aggregator to all parties: the shares of all members."""

    round: str
    shares: tuple[Blob, ...]


def upload_digest(round_id: str, sender: str, nonce: bytes, digests: Sequence[bytes]) -> bytes:
    """What a party signs of its upload: it can be checked prime by prime."""
    return digest_of("upload", [round_id, sender, nonce, *digests])


def told_digest(told: Told) -> bytes:
    """What a member signs of its crossing: all see it, and nobody needs what another member gets."""
    return sha256(encode(told)).digest()


def returns_digest(returns: Sequence[Sequence[bytes]]) -> bytes:
    """The digest of what one member returns to another."""
    return digest_of("returns", [[sha256(data).digest() for data in sheets] for sheets in returns])


def digest_of(kind: str, content: object) -> bytes:
    """A hash over typed content, for one kind of it."""
    return sha256(f"fheval/1 committee {kind}\0".encode() + msgspec.msgpack.encode(content)).digest()


def uploads_digest(round_: Round, roster: tuple[str, ...], nonces: bytes, uploads: bytes) -> bytes:
    """Who uploaded what: everything that the pads and the sum depend on, the uploads as digests."""
    return digest_of("uploads", [round_.digest, roster, bytes(nonces), bytes(uploads)])


def cut_evenly(data: bytes, count: int, what: str) -> list[bytes]:
    """So many pieces of the same length."""
    size = len(data) // count
    if len(data) != size * count:
        raise misfit(f"There are not {count} {what}.", AGGREGATOR)
    view = memoryview(data)
    return [bytes(view[start : start + size]) for start in range(0, len(data), size)] if size else []


def misfit(what: str, culprit: str) -> RemoteProtocolError:
    """The error for what does not fit the round."""
    return RemoteProtocolError(f"{what} The round was aborted.", step="committee's messages", culprit=culprit)
