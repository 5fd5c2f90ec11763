"""Which SuperNode to send a member's messages to. Who has answered, only the signature in the reply tells."""

from __future__ import annotations

from collections.abc import Sequence

from flwr.serverapp import Grid

from fheval.aggregator.round_in_play import Exchange
from fheval.errors import RemoteProtocolError
from fheval.flower.exchange import FlowerExchange, connected, online
from fheval.flower.state import Registry
from fheval.party.context import read_reply
from fheval.party.messages import Hello, request
from fheval.protocols.base import Stage
from fheval.secrets import SystemRandomness

_CHALLENGE_BYTES = 32


def addresses(
    grid: Grid, registry: Registry, members: Sequence[str], *, patience: float, timeout: float
) -> dict[str, int]:
    """The SuperNodes of the members that are connected."""
    if not registry.members:
        return _ask_names(grid, members, patience=patience, timeout=timeout)
    known = {name: entry.node for name, entry in registry.members.items() if name in members}
    there = online(grid, known.values(), patience)
    return {name: node for name, node in known.items() if node in there}


def _ask_names(grid: Grid, members: Sequence[str], *, patience: float, timeout: float) -> dict[str, int]:
    """Ask each vault for its name: nobody has registered the SuperNodes of a simulation."""
    nodes = {str(node): node for node in connected(grid, len(members), patience)}
    hello = request(Stage.HELLO, Hello(challenge=SystemRandomness().draw(_CHALLENGE_BYTES)))
    asked = Exchange(stage=Stage.HELLO, round="names", requests=dict.fromkeys(nodes, hello))
    found: dict[str, int] = {}
    for node, reply in FlowerExchange(grid, nodes, timeout)(asked).items():
        try:
            name = read_reply(reply, node).sender
        except RemoteProtocolError:
            continue
        if name in members:
            found[name] = nodes[node]
    return found
