"""What goes into the ledger and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from fheval.party.epoch import EpochBytes
from fheval.party.messages import Epoch, Opening
from fheval.protocols.base import Stage
from fheval.protocols.round import Round, Verdict
from fheval.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """What the ledger knows of a round that goes on: what it is about, and the stages answered, in their order."""

    opening: Opening
    epoch: Epoch
    answered: dict[Stage, bytes]
    roster: tuple[str, ...] | None
    aborted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """What the ledger knows of an epoch; the bundle itself may have been dropped."""

    epoch: Epoch
    bundle_id: bytes
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """That a round takes releases from a data set."""

    data_set: str
    releases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Everything that one answer writes."""

    opening: Opening
    epoch: Epoch
    stage: Stage
    request: bytes = field(repr=False)
    reply: bytes = field(repr=False)
    keys: EpochBytes | None = None
    roster: tuple[str, ...] | None = None
    use: Use | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One round as the operator of the vault sees it."""

    study: Study
    round: Round
    began: datetime
    stages: tuple[Stage, ...]
    use: Use | None
    verdict: Verdict | None
    ended: datetime | None
    aborted: str | None
