"""Key epochs: the leader makes FHE keys and seed, boxes them up, and seals the box's key for each party.

FHE secret keys have most of a megabyte, the same for everybody. So they lie in one box under a fresh symmetric key, and
only that key is sealed for each party: a hundred parties cost the leader little more than five.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

import msgspec

from fheval.consortium import BundleContext, Identity, MemberRecord, bundle_id, open_bundle, seal_bundle
from fheval.engines import Engine
from fheval.errors import RemoteProtocolError
from fheval.party.context import RoundContext
from fheval.party.messages import KeySetUp
from fheval.protocols.round import AGGREGATOR, PartySecrets, leader_set_up
from fheval.secrets import Randomness, SealBroken, Secret, seal, unseal

_BOX_KEY_BYTES = 32


class _BoxContent(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    suits: str
    keys: tuple[bytes, ...]
    seed: bytes

    def __repr__(self) -> str:
        return "<secrets of an epoch>"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBytes:
    """What one party got of an epoch, as it came: only the party's own opening key opens it."""

    bundle: bytes = field(repr=False)
    box: bytes = field(repr=False)

    def id(self, leader: str) -> bytes:
        """Give the id by which the bundle is recognised when it comes again."""
        return bundle_id(self.bundle, sender=leader)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSecrets:
    """The secrets of an epoch, opened, and what rounds they suit."""

    suits: str
    secrets: PartySecrets

    def require_suited(self, context: RoundContext) -> None:
        if self.suits != suitable(context):
            raise RemoteProtocolError(
                "The keys of the epoch were made for another engine or other parameters. Start a new round.",
                step="submit",
                culprit=context.epoch.leader,
            )


def suitable(context: RoundContext) -> str:
    """What keys must have been made for to suit a round: engine and parameter sets, as a digest."""
    sets = [(each.fingerprint, each.rotations) for each in context.protocol.parameter_sets(context.round)]
    return sha256(msgspec.msgpack.encode((context.round.engine, sets))).hexdigest()


def make_keys(
    engine: Engine, context: RoundContext, identity: Identity, policy_hash: bytes, rng: Randomness, *, now: datetime
) -> KeySetUp:
    """Leader: make the keys for a round, and seal them for each of its parties, itself among them."""
    sets = context.protocol.parameter_sets(context.round)
    secrets, public = leader_set_up(engine, context.round, sets, rng)
    key = Secret(rng.draw(_BOX_KEY_BYTES))
    bound = bundle_context(context, policy_hash)
    bundles = {
        name: seal_bundle(identity, record, key, bound, now=now) for name, record in sorted(context.members.items())
    }
    content = _BoxContent(suitable(context), tuple(each.reveal() for each in secrets.keys), secrets.seed.reveal())
    box = seal(key, "epoch", context.epoch.id, plain=msgspec.msgpack.encode(content), rng=rng)
    return KeySetUp(public=public, box=box, bundles=bundles)


def open_keys(
    identity: Identity,
    context: RoundContext,
    policy_hash: bytes,
    sealed: EpochBytes,
    seen: Container[bytes],
    *,
    now: datetime,
) -> EpochSecrets:
    """Party: open an epoch's keys, or refuse a bundle that is not this leader's for this epoch, roster and policy."""
    leader = _leader_record(context)
    bound = bundle_context(context, policy_hash)
    key = open_bundle(identity, sealed.bundle, bound, leader, now=now, seen=seen)
    try:
        plain = unseal(key, "epoch", context.epoch.id, box=sealed.box)
        content = msgspec.msgpack.decode(plain, type=_BoxContent)
    except (SealBroken, msgspec.DecodeError, ValueError):
        raise RemoteProtocolError(
            f"The box of keys from {leader.name} was altered. Start a new round with fresh keys.",
            step="bundle",
            culprit=leader.name,
        ) from None
    secrets = PartySecrets(keys=tuple(Secret(each) for each in content.keys), seed=Secret(content.seed))
    return EpochSecrets(suits=content.suits, secrets=secrets)


def bundle_context(context: RoundContext, policy_hash: bytes) -> BundleContext:
    """What bundles of this epoch are bound to."""
    return BundleContext(epoch=context.epoch.id, roster_hash=context.roster_hash, policy_hash=policy_hash)


def _leader_record(context: RoundContext) -> MemberRecord:
    leader = context.epoch.leader
    if leader not in context.members:
        raise RemoteProtocolError(
            f"The keys are said to come from {leader!r}, who is no party of the round. The round was refused.",
            step="bundle",
            culprit=AGGREGATOR,
        )
    return context.members[leader]
