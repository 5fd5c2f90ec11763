"""Vaults in one process, for the tests of whatever conducts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from fheval.aggregator.round_in_play import Exchange, Replies
from fheval.errors import TransportError


def in_process(handlers: Mapping[str, Callable[[bytes], bytes]]) -> Callable[[Exchange], Replies]:
    """An exchange among vaults in this very process, for trials: `handlers` has each vault's `handle`.

    A member without a handler, or whose handler raises a `TransportError`, does not answer.
    """

    def exchange(asked: Exchange) -> Replies:
        replies = {}
        for name, data in asked.requests.items():
            if name in handlers:
                with suppress(TransportError):
                    replies[name] = handlers[name](data)
        return replies

    return exchange
