"""One evaluation, from the order to the summary that the operator reads, whatever carries the bytes."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from fheval import errors
from fheval.aggregator.conductor import conduct, drive
from fheval.aggregator.owed import OwedFile
from fheval.aggregator.round_in_play import EpochKeys, Exchange, Told
from fheval.consortium import AggregatorKit
from fheval.consortium.files import replace_public
from fheval.engines import load_engine
from fheval.errors import FhevalError, TransportError
from fheval.protocols import PROTOCOLS
from fheval.secrets import SystemRandomness
from fheval.version import __version__

_log = logging.getLogger("fheval.hub")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation: which study of the kit, among whom, and how long to wait for them.

    `timeout` bounds each exchange, `patience` the wait for members that are not connected yet. With `begin_anew`
    earlier rosters are forgotten, as members have done that reset their budgets.
    """

    kit: str
    members: tuple[str, ...]
    study: str
    engine: str | None
    timeout: float
    patience: float
    begin_anew: bool = False


class TriedRound(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: its round, its leader, and why it failed, if it did; one that is `void` has cost no release."""

    round: str
    leader: str
    failure: str | None
    void: bool


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What the aggregator knows of an evaluation; `told` is there where the study lets it learn the result.

    A `committee` begins with the `leader`.
    """

    round: str
    protocol: str
    engine: str
    decision_points: int
    precision: float | str
    roster: tuple[str, ...]
    dropouts: tuple[str, ...]
    confirmed: tuple[str, ...]
    unconfirmed: tuple[str, ...]
    leader: str
    attempts: tuple[TriedRound, ...]
    exchanges: int
    seconds: dict[str, float]
    bytes: dict[str, int]
    fheval: str
    committee: tuple[str, ...] = ()
    told: Told | None = None


_KINDS: dict[str, type[FhevalError]] = {
    kind.__name__: kind
    for kind in (
        errors.CohortTooSmall,
        errors.ConfigError,
        errors.EngineError,
        errors.InputError,
        errors.LocalProtocolError,
    )
}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why there was no round: the sentence, and the kind of error it was."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: FhevalError) -> Failure:
        return cls(kind=type(error).__name__, message=str(error))


class OrderEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an order ended: one of the two."""

    summary: Summary | None = None
    failure: Failure | None = None

    def result(self) -> Summary:
        """The summary; where there is none, the error that there was instead is raised."""
        if self.summary is None:
            failure = self.failure or Failure(kind="", message="The round ended without an outcome. Try again.")
            raise _KINDS.get(failure.kind, TransportError)(failure.message)
        return self.summary


class Post:
    """Carries exchanges with `carry`, and notes how long each took and how much was sent."""

    def __init__(self, carry: Callable[[Exchange], dict[str, bytes]]) -> None:
        self._carry = carry
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.sent = 0
        self.received = 0
        self.exchanges = 0

    def __call__(self, exchange: Exchange) -> dict[str, bytes]:
        start = time.monotonic()
        replies = self._carry(exchange)
        self.exchanges += 1
        self.sent += sum(map(len, exchange.requests.values()))
        self.received += sum(map(len, replies.values()))
        self.seconds[exchange.stage.value] += time.monotonic() - start
        return replies


def carry_out(
    order: Order,
    kit: AggregatorKit,
    members: Sequence[str],
    post: Post,
    keys: Path,
    owed: OwedFile | None = None,
) -> Summary:
    """One evaluation among the members that are there, and what the operator is told of it.

    `keys` is the file in which the epoch's public keys wait for the next round; beside it are the rosters so far, and
    what members are `owed`.
    """
    start = time.monotonic()
    policy, study, engine = kit.policy, kit.study(order.study), load_engine(order.engine)
    kept = kept_keys(keys, policy=policy.hash())
    rosters = keys.with_name("rosters.json")
    if order.begin_anew:
        forget_rosters(rosters, study.hash())
    earlier = kept_rosters(rosters, study.hash())
    owed = owed or owed_file(keys.parent)
    deliver(owed, members, post)
    conducting = conduct(
        study,
        sorted(members),
        policy,
        engine,
        SystemRandomness(),
        keys=kept,
        earlier=earlier,
        owed=owed,
        opening=lambda roster: _for_next_round(keep_roster, rosters, study.hash(), roster),
    )
    report = drive(conducting, post)
    _for_next_round(keep_keys, keys, report.keys, policy=policy.hash())
    keepers = PROTOCOLS[study.protocol].of_round(report.round).keepers(report.round)
    return Summary(
        round=report.round.id,
        protocol=report.round.protocol,
        engine=report.round.engine,
        decision_points=len(study.grid),
        precision="exact" if report.round.precision is None or report.round.sums else report.round.precision,
        roster=report.roster,
        # Those who were not even connected count as well.
        dropouts=tuple(name for name in order.members if name not in report.roster),
        confirmed=report.confirmed,
        unconfirmed=tuple(name for name in report.roster if name not in report.confirmed),
        leader=report.round.leader,
        attempts=msgspec.convert(report.attempts, tuple[TriedRound, ...], from_attributes=True),
        exchanges=post.exchanges,
        seconds={"total": time.monotonic() - start, **post.seconds},
        bytes={"sent": post.sent, "received": post.received},
        fheval=__version__,
        committee=keepers if len(keepers) > 1 else (),
        told=report.told,
    )


def _for_next_round(keep: Callable[..., None], *what: object, **terms: object) -> None:
    """Keep what a next round could use; where there is no room, members get their outcome all the same."""
    try:
        keep(*what, **terms)
    except OSError as error:
        _log.error("What the next round could use was not written (%s).", error.strerror)


def owed_file(state: Path) -> OwedFile:
    """What members are owed, in the aggregator's state directory."""
    return OwedFile(state / "owed")


def deliver(owed: OwedFile, members: Collection[str], post: Callable[[Exchange], Mapping[str, bytes]]) -> None:
    """Send these members what they are owed of earlier rounds."""
    # What was signed may be due to others right after.
    for _ in range(2):
        for round_id, stage, requests in owed.to(members):
            owed.settle(round_id, post(Exchange(stage=stage, round=round_id, requests=requests)))


class _KeptKeys(msgspec.Struct, frozen=True, kw_only=True):
    policy: bytes
    keys: EpochKeys


def keep_keys(path: Path, keys: EpochKeys, *, policy: bytes) -> None:
    """Keep what later rounds under the policy of this hash may use again. It opens nothing."""
    replace_public(path, msgspec.msgpack.encode(_KeptKeys(policy=policy, keys=keys)))


def kept_keys(path: Path, *, policy: bytes) -> EpochKeys | None:
    """What an earlier round has left, if it can still be read and the policy is still the same."""
    try:
        kept = msgspec.msgpack.decode(path.read_bytes(), type=_KeptKeys)
    except (FileNotFoundError, msgspec.DecodeError, ValueError):
        return None
    return kept.keys if kept.policy == policy else None


def keep_roster(path: Path, study: bytes, roster: tuple[str, ...]) -> None:
    """Note who took part in a round of the study of this hash. Vaults compare rosters."""
    rosters = _all_rosters(path)
    of_study = rosters.setdefault(study.hex(), [])
    if roster not in of_study:
        of_study.append(roster)
        replace_public(path, msgspec.json.encode(rosters))


def forget_rosters(path: Path, study: bytes) -> None:
    """Begin anew with a study, as its members do when they reset what they have spent."""
    rosters = _all_rosters(path)
    if rosters.pop(study.hex(), None) is not None:
        replace_public(path, msgspec.json.encode(rosters))


def kept_rosters(path: Path, study: bytes) -> list[tuple[str, ...]]:
    """Who took part in the rounds of the study of this hash so far."""
    return _all_rosters(path).get(study.hex(), [])


def _all_rosters(path: Path) -> dict[str, list[tuple[str, ...]]]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, list[tuple[str, ...]]])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}
