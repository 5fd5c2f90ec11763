"""Key set-up: the leader seals FHE keys and pad seed for each member, and the aggregator relays the bytes.

A bundle is sealed under HPKE with the recipient's certified key and signed by the leader. Seal and
signature both cover the header: epoch, roster, policy, sender, recipient and expiry. The aggregator, who
has neither key, can withhold a bundle and do nothing else with it; another member, who could sign, cannot
pass a bundle off as its own, because the sender stands in what the seal is bound to.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from cryptography.exceptions import InvalidSignature, InvalidTag

from fheval.consortium import sealing
from fheval.consortium.certificates import to_the_minute
from fheval.consortium.identity import Identity
from fheval.consortium.records import MemberRecord, Timestamp, digest, domain
from fheval.errors import RemoteProtocolError
from fheval.secrets import Secret
from fheval.wire import Message, decode, encode

# Long enough for a member whose machine is down overnight, short enough to forget seen bundles some day.
LIFETIME = timedelta(days=1)

_SEALED = "bundle seal"
_SIGNED = "bundle signature"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleContext:
    """What leader and members must agree on before keys change hands."""

    epoch: str
    roster_hash: bytes
    policy_hash: bytes


class BundleHeader(Message, frozen=True, kw_only=True):
    """What seal and signature cover beside the payload; the aggregator may read it."""

    epoch: str
    roster_hash: bytes
    policy_hash: bytes
    sender: str
    sender_certificate: bytes
    recipient: str
    recipient_certificate: bytes
    not_after: Timestamp


class SealedBundle(Message, frozen=True, kw_only=True):
    """Leader to one member, through the aggregator."""

    header: BundleHeader
    sealed: bytes
    signature: bytes


def seal_bundle(
    leader: Identity, recipient: MemberRecord, payload: Secret[bytes], context: BundleContext, *, now: datetime
) -> bytes:
    """Leader: seal the payload for one member, whose certificate must be valid now."""
    leader.anchor.check_member(recipient, now=now)
    header = BundleHeader(
        epoch=context.epoch,
        roster_hash=context.roster_hash,
        policy_hash=context.policy_hash,
        sender=leader.name,
        sender_certificate=leader.record.fingerprint(),
        recipient=recipient.name,
        recipient_certificate=recipient.fingerprint(),
        not_after=int((now + LIFETIME).timestamp()),
    )
    sealed = sealing.seal(recipient.sealing_key, payload, domain(_SEALED) + encode(header))
    signature = leader.signing_key.reveal().sign(_signed_bytes(header, sealed))
    return encode(SealedBundle(header=header, sealed=sealed, signature=signature))


def open_bundle(
    me: Identity, data: bytes, context: BundleContext, leader: MemberRecord, *, now: datetime, seen: Container[bytes]
) -> Secret[bytes]:
    """Member: open a bundle of this leader, or say why it is refused.

    `seen` holds the `bundle_id` of every bundle opened before; the caller stores this one's before it uses
    the payload.
    """
    bundle = decode(data, SealedBundle, sender=leader.name)
    me.anchor.check_member(leader, now=now)
    _check_signature(bundle, leader)
    _check_header(bundle.header, me, context, leader, now)
    if _id(bundle) in seen:
        raise _refused("was opened before: it is replayed", leader)
    try:
        return me.opening_key.open(bundle.sealed, domain(_SEALED) + encode(bundle.header))
    except InvalidTag:
        raise _refused("cannot be opened: its seal does not fit", leader) from None


def bundle_id(data: bytes, *, sender: str) -> bytes:
    """The id by which a bundle is recognised when it is replayed."""
    return _id(decode(data, SealedBundle, sender=sender))


def _check_signature(bundle: SealedBundle, leader: MemberRecord) -> None:
    if (bundle.header.sender, bundle.header.sender_certificate) != (leader.name, leader.fingerprint()):
        raise _refused("names another sender than the leader", leader)
    try:
        leader.signing_key().verify(bundle.signature, _signed_bytes(bundle.header, bundle.sealed))
    except InvalidSignature:
        raise _refused("was altered, or the leader did not sign it", leader) from None


def _check_header(
    header: BundleHeader, identity: Identity, context: BundleContext, leader: MemberRecord, now: datetime
) -> None:
    own_certificate = identity.record.fingerprint()
    for found, expected, why in (
        (header.recipient, identity.name, f"is for another recipient ({header.recipient})"),
        (
            header.recipient_certificate,
            own_certificate,
            "is for another recipient (another certificate of this member)",
        ),
        (header.roster_hash, context.roster_hash, "is for another roster"),
        (header.policy_hash, context.policy_hash, "was made under another policy"),
        (header.epoch, context.epoch, f"is of another epoch ({header.epoch!r})"),
    ):
        if found != expected:
            raise _refused(why, leader)
    if now.timestamp() > header.not_after:
        raise _refused(f"expired on {to_the_minute(header.not_after)}", leader)


def _signed_bytes(header: BundleHeader, sealed: bytes) -> bytes:
    return domain(_SIGNED) + encode(header) + sha256(sealed).digest()


def _id(bundle: SealedBundle) -> bytes:
    return digest("bundle id", _signed_bytes(bundle.header, bundle.sealed))


def _refused(why: str, leader: MemberRecord) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"The key bundle from {leader.name} {why}. It was refused; start a new round with fresh keys.",
        step="bundle",
        culprit=leader.name,
    )
