"""Processes that run until they are told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import IO, Any

_STOPS = (signal.SIGTERM, signal.SIGINT)


async def until_told(work: Coroutine[Any, Any, None]) -> None:
    """Run until SIGTERM or SIGINT cancels it.

    A process that was told to stop is about to end, and must not end differently because it was told twice: from then
    on both are ignored.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number in _STOPS:
        loop.add_signal_handler(number, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await task
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN if task.cancelled() else handler)


async def while_open(file: IO[str], work: Coroutine[Any, Any, None]) -> None:
    """Run until the other end of a pipe is closed, as it is when the process that holds it ends in whatever way."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    task, closed = asyncio.ensure_future(work), asyncio.ensure_future(reader.read())
    try:
        await asyncio.wait({task, closed}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        task.cancel()
        closed.cancel()
        await asyncio.gather(task, closed, return_exceptions=True)
