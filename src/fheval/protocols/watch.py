"""All roles in one process: bytes pass by hand, and every role's time and every message's size is noted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from fheval.wire import Message, encode


class InProcess:
    """The `Post` of a protocol's `run`: measures who worked how long and what was sent.

    `on_work` is called each time a role has finished a piece of work, for progress bars.
    """

    def __init__(self, on_work: Callable[[str], None] | None = None) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.sizes: defaultdict[str, list[int]] = defaultdict(list)
        self._on_work = on_work

    @contextmanager
    def working(self, role: str) -> Iterator[None]:
        """Everything inside is the work of `role`."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[role] += perf_counter() - start
            if self._on_work:
                self._on_work(role)

    def carry(self, kind: str, message: Message) -> bytes:
        """Turn a message into the bytes that travel, and note their size under `kind`."""
        data = encode(message)
        self.sizes[kind].append(len(data))
        return data
