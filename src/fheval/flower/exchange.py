"""One exchange over Flower: requests out, replies back until all have come or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice

from flwr.app import Message
from flwr.serverapp import Grid

from fheval.aggregator.round_in_play import Exchange
from fheval.errors import RemoteProtocolError
from fheval.flower.records import MESSAGE_TYPE, pack, unpack

# Flower takes all messages of a call in one request.
_AT_ONCE = 8
_LOOK_EVERY = 0.2
# A message that expires takes the replies of others with it, so none expires before we have stopped waiting.
_LONGER = 600.0


class FlowerExchange:
    """Carries exchanges to the members' SuperNodes.

    `nodes` says where to send; who has answered, only the signature in the reply tells.
    """

    def __init__(self, grid: Grid, nodes: Mapping[str, int], timeout: float) -> None:
        self._grid = grid
        self._nodes = nodes
        self._timeout = timeout

    def __call__(self, exchange: Exchange) -> dict[str, bytes]:
        """Send an exchange and return the replies that came in time; whoever is missing has dropped out."""
        start = time.monotonic()
        requests = {name: data for name, data in exchange.requests.items() if name in self._nodes}
        waiting = self._push(requests, f"{exchange.round[:8]}-{exchange.stage.value}")
        return self._pull(waiting, start + self._timeout)

    def _push(self, requests: Mapping[str, bytes], group: str) -> dict[str, str]:
        """Send the requests, and return whose reply each message id stands for."""
        waiting: dict[str, str] = {}
        left = iter(requests.items())
        while batch := list(islice(left, _AT_ONCE)):
            messages = [
                Message(
                    pack(data),
                    dst_node_id=self._nodes[name],
                    message_type=MESSAGE_TYPE,
                    ttl=self._timeout + _LONGER,
                    group_id=group,
                )
                for name, data in batch
            ]
            ids = self._grid.push_messages(messages)
            # A message that could not be sent has no id; its member counts as missing.
            waiting |= {id_: name for id_, (name, _) in zip(ids, batch, strict=False) if id_}
        return waiting

    def _pull(self, waiting: dict[str, str], deadline: float) -> dict[str, bytes]:
        replies: dict[str, bytes] = {}
        while waiting and time.monotonic() < deadline:
            for message in self._grid.pull_messages(list(waiting)):
                name = waiting.pop(message.metadata.reply_to_message_id, None)
                if name is not None and message.has_content():
                    # Anything but bytes of ours counts as no reply, as an error does.
                    with suppress(RemoteProtocolError):
                        replies[name] = unpack(message.content, sender=name)
            if waiting:
                time.sleep(_LOOK_EVERY)
        return replies


def online(grid: Grid, wanted: Iterable[int], patience: float) -> frozenset[int]:
    """Those of the wanted SuperNodes that are connected, after waiting up to `patience` seconds for all of them."""
    needed = frozenset(wanted)
    return needed & connected(grid, lambda found: needed <= found, patience)


def connected(grid: Grid, enough: Callable[[frozenset[int]], bool], patience: float) -> frozenset[int]:
    """All SuperNodes that are connected, after waiting up to `patience` seconds until they are enough."""
    deadline = time.monotonic() + patience
    while not enough(found := frozenset(grid.get_node_ids())) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY)
    return found
