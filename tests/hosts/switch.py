"""A switch in user space between TAP devices: it delays, loses and cuts, as netem does where a kernel has it."""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import selectors
import struct
import threading
import time
from collections.abc import Mapping
from itertools import count

_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x0002 | 0x1000
_LONGEST_FRAME = 65_536
_BROADCAST = 1


def open_tap(name: str) -> int:
    """Make a TAP device in the network namespace of this thread, and give the end that a switch holds."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", name.encode(), _TAP_WITHOUT_HEADER))
    return descriptor


class Switch:
    """Passes frames between ports, by name. `delay` is one way, in seconds; `loss` a probability for each frame."""

    def __init__(self, ports: Mapping[str, int], seed: int = 16) -> None:
        self._ports = dict(ports)
        self._draw = random.Random(seed)
        self._homes: dict[bytes, str] = {}
        self._queue: list[tuple[float, int, str, str, bytes]] = []
        self._numbers = count()
        self._stopping = threading.Event()
        self.delay = 0.0
        self.loss = 0.0
        self.cut: set[str] = set()
        self.passed = 0
        self._thread = threading.Thread(target=self._serve, name="switch", daemon=True)

    def __enter__(self) -> Switch:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self._thread.join()
        for descriptor in self._ports.values():
            os.close(descriptor)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as waiting:
            for name, descriptor in self._ports.items():
                waiting.register(descriptor, selectors.EVENT_READ, name)
            while not self._stopping.is_set():
                due = self._queue[0][0] - time.monotonic() if self._queue else 0.2
                for key, _ in waiting.select(min(max(due, 0.0), 0.2)):
                    self._take(key.data, key.fd)
                self._deliver()

    def _take(self, source: str, descriptor: int) -> None:
        for _ in range(64):
            try:
                frame = os.read(descriptor, _LONGEST_FRAME)
            except OSError:  # nothing more, or the device is down
                return
            self._homes[frame[6:12]] = source
            for target in self._targets(source, frame):
                if not self.loss or self._draw.random() >= self.loss:
                    when = time.monotonic() + self.delay
                    heapq.heappush(self._queue, (when, next(self._numbers), source, target, frame))

    def _targets(self, source: str, frame: bytes) -> list[str]:
        home = None if frame[0] & _BROADCAST else self._homes.get(frame[:6])
        if home is None or home == source:
            return [name for name in self._ports if name != source]
        return [home]

    def _deliver(self) -> None:
        while self._queue and self._queue[0][0] <= time.monotonic():
            _, _, source, target, frame = heapq.heappop(self._queue)
            # A cut takes what is under way as well.
            if {source, target} & self.cut:
                continue
            try:
                os.write(self._ports[target], frame)
            except OSError:  # the device is down: as lost as any
                continue
            self.passed += 1
