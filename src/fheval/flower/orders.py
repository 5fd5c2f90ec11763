"""What `fheval aggregator evaluate` and the ServerApp tell each other, through files in the state directory.

The run's configuration, which Flower shows to every member, holds nothing but the order's name.
"""

from __future__ import annotations

import msgspec

from fheval.aggregator.orders import Order, OrderEnd
from fheval.consortium.files import replace_public
from fheval.errors import LocalProtocolError
from fheval.flower.state import State


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
