"""Signing a message as a member, and checking another member's signature.

A signature covers the round, the stage, the roster, the signer's certificate and the payload, so that a
message means something in one place only: it cannot be replayed into another round, moved to another stage,
counted for another roster or claimed by another member.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fheval.consortium.records import MemberRecord, TrustAnchor, domain
from fheval.consortium.sealing import OpeningKey
from fheval.errors import RemoteProtocolError
from fheval.secrets import Secret
from fheval.wire import Message, encode

_USAGE = "message"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Identity:
    """A member with its private keys: what a vault acts as."""

    record: MemberRecord
    anchor: TrustAnchor
    signing_key: Secret[Ed25519PrivateKey]
    opening_key: OpeningKey

    @property
    def name(self) -> str:
        return self.record.name


class SignedContent(Message, frozen=True, kw_only=True):
    """What a signature covers."""

    round: str
    stage: str
    roster_hash: bytes
    signer: str
    certificate: bytes
    payload_hash: bytes


def sign(identity: Identity, *, round_id: str, stage: str, roster_hash: bytes, payload: bytes) -> bytes:
    """Sign a payload for one stage of one round with one roster."""
    return identity.signing_key.reveal().sign(_content(identity.record, round_id, stage, roster_hash, payload))


def verify(
    record: MemberRecord, signature: bytes, *, round_id: str, stage: str, roster_hash: bytes, payload: bytes
) -> None:
    """Refuse a payload that this member did not sign for this stage, round and roster.

    `record` must come from a roster that was checked (`Kit.roster`): the signature says nothing about dates.
    """
    try:
        record.signing_key().verify(signature, _content(record, round_id, stage, roster_hash, payload))
    except InvalidSignature:
        raise RemoteProtocolError(
            f"A message at stage {stage!r} is not signed by {record.name} for this round and roster. "
            "It was refused; if it happens again, find out who altered or replayed it.",
            step=stage,
            culprit=record.name,
        ) from None


def _content(record: MemberRecord, round_id: str, stage: str, roster_hash: bytes, payload: bytes) -> bytes:
    content = SignedContent(
        round=round_id,
        stage=stage,
        roster_hash=roster_hash,
        signer=record.name,
        certificate=record.fingerprint(),
        payload_hash=sha256(payload).digest(),
    )
    return domain(_USAGE) + encode(content)
