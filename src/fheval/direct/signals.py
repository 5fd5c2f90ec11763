"""Processes that run until they are told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

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
