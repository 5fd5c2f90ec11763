"""The secrets of the epochs that this vault takes part in: opened when needed, kept in memory, never written.

On disk are only the bundle and the box, as the leader sealed them; after a restart they are opened again.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime

from fheval.consortium import Kit
from fheval.consortium.bundle import LIFETIME
from fheval.errors import RemoteProtocolError
from fheval.party.context import RoundContext
from fheval.party.epoch import EpochBytes, EpochSecrets, open_keys
from fheval.party.ledger import Ledger
from fheval.party.ledger_records import EpochRecord
from fheval.protocols.round import AGGREGATOR, ROUND_ID_BYTES, PartySecrets

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
