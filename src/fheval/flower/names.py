"""Which SuperNode stands for which member, where nobody has registered them: each vault is asked for its name."""

from __future__ import annotations

from flwr.serverapp import Grid

from fheval.aggregator.orders import Order
from fheval.aggregator.round_in_play import Exchange
from fheval.errors import RemoteProtocolError
from fheval.flower.exchange import FlowerExchange, connected
from fheval.party.context import read_reply
from fheval.party.messages import Hello, request
from fheval.protocols.base import Stage
from fheval.secrets import SystemRandomness

_CHALLENGE_BYTES = 32


def ask_names(grid: Grid, order: Order) -> dict[str, int]:
    """Ask each vault for its name. The name is for sending only: signatures tell who has answered."""
    there = connected(grid, lambda found: len(found) >= len(order.members), order.patience)
    nodes = {str(node): node for node in there}
    hello = request(Stage.HELLO, Hello(challenge=SystemRandomness().draw(_CHALLENGE_BYTES)))
    asked = Exchange(stage=Stage.HELLO, round="names", requests=dict.fromkeys(nodes, hello))
    found: dict[str, int] = {}
    for node, reply in FlowerExchange(grid, nodes, order.timeout)(asked).items():
        try:
            name = read_reply(reply, node).sender
        except RemoteProtocolError:
            continue
        if name in order.members:
            found[name] = nodes[node]
    return found
