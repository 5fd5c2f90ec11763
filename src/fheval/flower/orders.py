"""What `fheval aggregator evaluate` and the ServerApp tell each other, through files in the state directory.

The run's configuration, which Flower shows to every member, holds nothing but the order's name.
"""

from __future__ import annotations

import msgspec

from fheval.aggregator.round_in_play import EpochKeys
from fheval.consortium.files import replace_public
from fheval.errors import FhevalError, LocalProtocolError
from fheval.flower.state import State


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation: which study of the kit, among whom, and how long to wait for them.

    `timeout` bounds each exchange, `patience` the wait for members that are not connected yet.
    """

    kit: str
    members: tuple[str, ...]
    study: str
    engine: str | None
    timeout: float
    patience: float


class TriedRound(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: its round, its leader, and why it failed, if it did; one that is `void` has cost no release."""

    round: str
    leader: str
    failure: str | None
    void: bool


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What the aggregator knows of an evaluation. The result is not among it."""

    round: str
    protocol: str
    engine: str
    decision_points: int
    precision: float | str
    roster: tuple[str, ...]
    dropouts: tuple[str, ...]
    confirmed: tuple[str, ...]
    leader: str
    attempts: tuple[TriedRound, ...]
    exchanges: int
    seconds: dict[str, float]
    bytes: dict[str, int]
    fheval: str


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


class _KeptKeys(msgspec.Struct, frozen=True, kw_only=True):
    policy: bytes
    keys: EpochKeys


def place_order(state: State, name: str, order: Order) -> None:
    """As `evaluate`: leave an order for the ServerApp."""
    replace_public(state.request(name), msgspec.json.encode(order))


def read_order(state: State, name: str) -> Order:
    """As the ServerApp: read the order that the run names."""
    # The name comes with the run and must not lead out of the directory.
    if not name.isalnum() or not state.request(name).is_file():
        raise LocalProtocolError(f"There is no order {name!r} in {state.directory}. Start rounds with fheval.")
    return msgspec.json.decode(state.request(name).read_bytes(), type=Order)


def write_end(state: State, name: str, end: OrderEnd) -> None:
    """As the ServerApp: say how it went."""
    replace_public(state.outcome(name), msgspec.json.encode(end))


def read_end(state: State, name: str) -> OrderEnd | None:
    """As `evaluate`: how it went; None as long as nobody has said."""
    path = state.outcome(name)
    return msgspec.json.decode(path.read_bytes(), type=OrderEnd) if path.exists() else None


def clear_order(state: State, name: str) -> None:
    """As `evaluate`: leave nothing behind."""
    state.request(name).unlink(missing_ok=True)
    state.outcome(name).unlink(missing_ok=True)


def keep_keys(state: State, keys: EpochKeys, *, policy: bytes) -> None:
    """As the ServerApp: keep what later rounds under the policy of this hash may use again. It opens nothing."""
    replace_public(state.keys, msgspec.msgpack.encode(_KeptKeys(policy=policy, keys=keys)))


def kept_keys(state: State, *, policy: bytes) -> EpochKeys | None:
    """As the ServerApp: what an earlier round has left, if it can still be read and the policy is still the same."""
    try:
        kept = msgspec.msgpack.decode(state.keys.read_bytes(), type=_KeptKeys)
    except (FileNotFoundError, msgspec.DecodeError, ValueError):
        return None
    return kept.keys if kept.policy == policy else None
