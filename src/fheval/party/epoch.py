"""Key epochs: the leader makes FHE keys and seeds, and seals for each party what the protocol lets it have.

A party's bundle has the common seed and the party's own pad seed. FHE secret keys have most of a megabyte, the same for
all who open answers: they lie in one box under a fresh symmetric key, which only these find in their bundles. The
leader's own bundle has the master. A vault opens an epoch when it is needed and keeps it in memory; on disk are only
the bundle and the box, as the leader sealed them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

import msgspec

from fheval.consortium import BundleContext, Identity, Kit, MemberRecord, open_bundle, seal_bundle
from fheval.consortium.bundle import LIFETIME
from fheval.engines import Engine
from fheval.errors import RemoteProtocolError
from fheval.party.context import RoundContext
from fheval.party.ledger import EpochBytes, EpochRecord, Ledger
from fheval.party.messages import Bundles, KeySetUp
from fheval.protocols.round import AGGREGATOR, ROUND_ID_BYTES, PartySecrets, leader_set_up
from fheval.secrets import Randomness, SealBroken, Secret, seal, unseal
from fheval.wire import decode

_BOX_KEY_BYTES = 32


class _Bundle(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is sealed for one party; `box_key` for those who open answers, `master` for who takes off pads."""

    suits: str
    seed: bytes
    pad_seed: bytes
    box_key: bytes | None
    master: bytes | None
    publics: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return "<secrets of an epoch>"


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
    """What keys must have been made for to suit a round: engine, parameter sets and who may open, as a digest."""
    round_, protocol = context.round, context.protocol
    sets = [(each.fingerprint, each.rotations) for each in protocol.parameter_sets(round_)]
    openers = [party for party in round_.parties if protocol.opens(round_, party)]
    return sha256(msgspec.msgpack.encode((round_.engine, sets, openers))).hexdigest()


def make_keys(
    engine: Engine, context: RoundContext, identity: Identity, policy_hash: bytes, rng: Randomness, *, now: datetime
) -> KeySetUp:
    """Keeper: make the keys for a round, and seal for each of its parties, itself among them, what it may have."""
    round_, protocol, me = context.round, context.protocol, identity.name
    sets = protocol.parameter_sets(round_)
    secrets, public = leader_set_up(engine, round_, sets, rng, me, hashed=protocol.hashed_keys)
    key = Secret(rng.draw(_BOX_KEY_BYTES))
    suits, bound = suitable(context), bundle_context(context, policy_hash)
    bundles = {}
    for name, record in sorted(context.members.items()):
        own = protocol.given(round_, me, secrets, name)
        payload = _bundle(suits, own, key if protocol.holds_keys(round_, me, name) else None)
        bundles[name] = seal_bundle(identity, record, payload, bound, now=now)
    plain = msgspec.msgpack.encode([each.reveal() for each in secrets.keys])
    return KeySetUp(public=public, box=seal(key, "epoch", context.epoch.id, plain=plain, rng=rng), bundles=bundles)


def _bundle(suits: str, own: PartySecrets, box_key: Secret[bytes] | None) -> Secret[bytes]:
    content = _Bundle(
        suits=suits,
        seed=own.seed.reveal(),
        pad_seed=own.pad_seed.reveal(),
        box_key=None if box_key is None else box_key.reveal(),
        master=None if own.master is None else own.master.reveal(),
        publics=own.publics,
    )
    return Secret(msgspec.msgpack.encode(content))


def open_keys(
    identity: Identity,
    context: RoundContext,
    policy_hash: bytes,
    sealed: EpochBytes,
    seen: Container[bytes],
    *,
    now: datetime,
) -> EpochSecrets:
    """Party: open an epoch's keys, or refuse bundles that are not its keepers' for this epoch, roster and policy."""
    keepers = _keeper_records(context)
    bound = bundle_context(context, policy_hash)
    opened: list[EpochSecrets] = []
    for keeper, bundle in zip(keepers, _bundles_of(sealed, len(keepers)), strict=True):
        payload = open_bundle(identity, bundle, bound, keeper, now=now, seen=seen)
        # Of a committee, each member has the keys that it made itself.
        box = sealed.box if len(keepers) == 1 or keeper.name == identity.name else b""
        opened.append(_opened_bundle(payload, context, box, keeper.name))
    if len({each.suits for each in opened}) != 1:
        raise _refused("The members of the committee made keys for different rounds", AGGREGATOR)
    secrets = context.protocol.joined(context.round, [each.secrets for each in opened])
    return EpochSecrets(suits=opened[0].suits, secrets=secrets)


def _bundles_of(sealed: EpochBytes, keepers: int) -> tuple[bytes, ...]:
    """What a party got from each keeper."""
    if keepers == 1:
        return (sealed.bundle,)
    bundles = decode(sealed.bundle, Bundles, sender=AGGREGATOR).bundles
    if len(bundles) != keepers:
        raise _refused(f"There are {len(bundles)} bundles of {keepers} members", AGGREGATOR)
    return bundles


def _opened_bundle(payload: Secret[bytes], context: RoundContext, box: bytes, keeper: str) -> EpochSecrets:
    try:
        content = msgspec.msgpack.decode(payload.reveal(), type=_Bundle)
        keys = _unboxed(content.box_key, context, box)
    except (SealBroken, msgspec.DecodeError, ValueError):
        raise RemoteProtocolError(
            f"The keys from {keeper} were altered. Start a new round with fresh ones.", step="bundle", culprit=keeper
        ) from None
    secrets = PartySecrets(
        seed=Secret(content.seed),
        pad_seed=Secret(content.pad_seed),
        keys=keys,
        master=None if content.master is None else Secret(content.master),
        publics=content.publics,
    )
    return EpochSecrets(suits=content.suits, secrets=secrets)


def _unboxed(box_key: bytes | None, context: RoundContext, box: bytes) -> tuple[Secret[bytes], ...]:
    if box_key is None:
        if box:
            raise ValueError("a box for somebody who has no key to it")
        return ()
    plain = unseal(Secret(box_key), "epoch", context.epoch.id, box=box)
    return tuple(Secret(each) for each in msgspec.msgpack.decode(plain, type=tuple[bytes, ...]))


def bundle_context(context: RoundContext, policy_hash: bytes) -> BundleContext:
    """What bundles of this epoch are bound to."""
    return BundleContext(epoch=context.epoch.id, roster_hash=context.roster_hash, policy_hash=policy_hash)


def _keeper_records(context: RoundContext) -> list[MemberRecord]:
    """Whoever made the keys leads every round under them, or is in its committee: nobody else has the master."""
    leader = context.epoch.leader
    if leader != context.round.leader:
        raise _refused(f"The keys are said to come from {leader!r}, who does not lead the round", AGGREGATOR)
    return [context.members[keeper] for keeper in context.protocol.keepers(context.round)]


_EPOCH_ID = re.compile(rf"[0-9a-f]{{{2 * ROUND_ID_BYTES}}}")

# The round that runs, and the one that replaces it.
_IN_MEMORY = 2


@dataclass(frozen=True, slots=True)
class _Seen:
    """The bundles that were opened before, as the ledger knows them."""

    ledger: Ledger

    def __contains__(self, bundle_id: object) -> bool:
        return isinstance(bundle_id, bytes) and self.ledger.seen_bundle(bundle_id)


class Keyring:
    """Opens epochs with one kit, and remembers the last few. A kit with another policy needs a keyring of its own."""

    def __init__(self, kit: Kit, ledger: Ledger) -> None:
        self._kit = kit
        self._ledger = ledger
        self._opened: OrderedDict[str, EpochSecrets] = OrderedDict()

    def admit(self, context: RoundContext, sealed: EpochBytes, *, now: datetime) -> PartySecrets:
        """Open what came with `submit`.

        A bundle that was opened before opens again for its own epoch alone, while it lives.
        """
        if not _EPOCH_ID.fullmatch(context.epoch.id):
            raise _refused(f"An epoch's id has {2 * ROUND_ID_BYTES} hexadecimal digits", AGGREGATOR)
        _keeper_records(context)
        known = self._ledger.epoch(context.epoch.id)
        if known is None:
            return self._open(context, sealed, _Seen(self._ledger), now=now)
        if known.epoch != context.epoch or sealed.id(context.epoch.leader) != known.bundle_id:
            raise _refused("Other keys than before came for the same epoch", AGGREGATOR)
        self._require_current(known, now)
        return self._kept(context) if context.epoch.id in self._opened else self._open(context, sealed, (), now=now)

    def secrets(self, context: RoundContext, *, now: datetime) -> PartySecrets:
        """The secrets of an epoch that was admitted, or made here, before."""
        epoch = context.epoch
        known = self._ledger.epoch(epoch.id)
        if known is None:
            raise _refused("The keys of this round never came", AGGREGATOR)
        self._require_current(known, now)
        if epoch.id not in self._opened:
            sealed = self._ledger.epoch_bytes(epoch.id)
            if sealed is None:
                raise _refused("The keys of this round are gone, after several others", AGGREGATOR)
            self._open(context, sealed, (), now=now)
        return self._kept(context)

    def _open(
        self, context: RoundContext, sealed: EpochBytes, seen: Container[bytes], *, now: datetime
    ) -> PartySecrets:
        opened = open_keys(self._kit.identity, context, self._kit.policy.hash(), sealed, seen, now=now)
        self._opened[context.epoch.id] = opened
        while len(self._opened) > _IN_MEMORY:
            self._opened.popitem(last=False)
        return self._kept(context)

    def _kept(self, context: RoundContext) -> PartySecrets:
        opened = self._opened[context.epoch.id]
        opened.require_suited(context)
        return opened.secrets

    @staticmethod
    def _require_current(known: EpochRecord, now: datetime) -> None:
        if now > known.since + LIFETIME:
            raise _refused(f"The keys of the epoch are older than {LIFETIME.days} day", AGGREGATOR)


def _refused(why: str, culprit: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{why}. Start a new round with fresh keys.", step="bundle", culprit=culprit)
