"""The aggregator's ServerApp: drives one round among the members' vaults. It sees bytes that it cannot open.

The registry says where to send a member's messages. Who has answered, only the signature in the reply tells.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fheval.aggregator.orders import Failure, Order, OrderEnd, Post, Summary, carry_out
from fheval.consortium import load_aggregator_kit
from fheval.errors import ConfigError, FhevalError
from fheval.flower import orders
from fheval.flower.exchange import FlowerExchange, online
from fheval.flower.names import ask_names
from fheval.flower.state import STATE_VARIABLE, Registry, State

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out the order that the run names; a failure fails the run as well."""
    if STATE_VARIABLE not in os.environ:
        raise ConfigError("This SuperLink was not started by fheval. Start it with: fheval aggregator up")
    state = State.at(Path(os.environ[STATE_VARIABLE]))
    name = str(context.run_config["order"])
    order = orders.read_order(state, name)
    try:
        summary = play(grid, state, order)
    except FhevalError as error:
        orders.write_end(state, name, OrderEnd(failure=Failure.of(error)))
        raise
    orders.write_end(state, name, OrderEnd(summary=summary))


def play(grid: Grid, state: State, order: Order) -> Summary:
    """One evaluation among the members that are connected, and what the operator is told of it."""
    kit = load_aggregator_kit(Path(order.kit), now=datetime.now(timezone.utc))
    nodes = _addresses(grid, state.read_registry(), order)
    post = Post(FlowerExchange(grid, nodes, order.timeout))
    return carry_out(order, kit, sorted(nodes), post, state.keys)


def _addresses(grid: Grid, registry: Registry, order: Order) -> dict[str, int]:
    """The SuperNodes of the members that are connected."""
    if not registry.members:
        return ask_names(grid, order)
    known = {name: entry.node for name, entry in registry.members.items() if name in order.members}
    there = online(grid, known.values(), order.patience)
    return {name: node for name, node in known.items() if node in there}
