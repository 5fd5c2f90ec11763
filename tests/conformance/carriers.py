"""The three transports behind one face: each carries exchanges to vaults whose `handle` a test gives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from direct.streams import make_consortium
from fheval.aggregator.round_in_play import Exchange
from fheval.direct.hub import Hub
from fheval.errors import TransportError
from in_process import in_process

Handler = Callable[[bytes], bytes]
NAMES = ("alder", "birch", "cedar", "hazel", "maple")


@dataclass
class Carrier:
    """Carries one exchange to the vaults that are up."""

    carry: Callable[[Exchange], Mapping[str, bytes]]
    start: Callable[[str, Handler], None]
    stop: Callable[[str], None]

    def __call__(self, asked: Exchange) -> Mapping[str, bytes]:
        return self.carry(asked)


@contextmanager
def carried_in_process(_folder: Path, _seconds: float) -> Iterator[Carrier]:
    handlers: dict[str, Handler] = {}
    yield Carrier(lambda asked: in_process(handlers)(asked), handlers.__setitem__, handlers.__delitem__)


@contextmanager
def carried_directly(folder: Path, seconds: float) -> Iterator[Carrier]:
    """A hub, relays and sockets, over TLS on loopback; the event loop has a thread of its own."""
    folder.chmod(0o700)
    made = make_consortium(folder, NAMES)
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    ready: Future[Hub] = Future()

    async def play() -> None:
        async with made.hub() as (hub, port), made.relays(port, NAMES):
            await hub.present(frozenset(NAMES), 30)
            ready.set_result(hub)
            await stop.wait()

    def carry(asked: Exchange) -> Mapping[str, bytes]:
        return asyncio.run_coroutine_threadsafe(ready.result(0).exchange(asked, seconds), loop).result()

    vaults: dict[str, ExitStack] = {}

    def start(name: str, handler: Handler) -> None:
        vaults[name] = ExitStack()
        vaults[name].enter_context(made.vault(name, handler))

    thread = threading.Thread(target=lambda: loop.run_until_complete(play()))
    thread.start()
    try:
        ready.result(60)
        yield Carrier(carry, start, lambda name: vaults.pop(name).close())
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
        for each in vaults.values():
            each.close()


@contextmanager
def carried_over_flower(_folder: Path, seconds: float) -> Iterator[Carrier]:
    """Flower's messages and our apps at both ends, on a grid in this process."""
    from fheval.flower.exchange import FlowerExchange
    from fheval.flower.relay import make_app
    from flower.app_grid import AppGrid

    handlers: dict[str, Handler] = {}
    nodes = {name: 11 * (number + 1) for number, name in enumerate(NAMES)}
    names = {node: name for name, node in nodes.items()}

    def door(context: Any, data: bytes) -> bytes:
        if names[context.node_id] not in handlers:
            raise TransportError("This vault is down.")
        return handlers[names[context.node_id]](data)

    grid: Any = AppGrid(make_app(door), {node: {} for node in names}, lost=lambda _node, _group: False)
    yield Carrier(FlowerExchange(grid, nodes, seconds), handlers.__setitem__, handlers.__delitem__)


CARRIERS = {"in-process": carried_in_process, "direct": carried_directly, "flower": carried_over_flower}
