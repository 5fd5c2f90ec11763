"""Child processes that end when they are told to, with all of their own children."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_STANDARD_ERROR = 2
_LOOK_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class Process:
    """A process by id and start time, because ids are given out again."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Look a process up; None where there is none, or one that has ended and only waits to be read."""
        try:
            # The second field is the program's name in brackets and may hold anything, brackets included.
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else cls(pid, fields[19])

    def lives(self) -> bool:
        return Process.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.lives():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def descendants(pid: int) -> Iterator[Process]:
    """Children of a process, their children, and so on. Linux has them in /proc; elsewhere there are none to see.

    A process that has no files left to open sees none either, and looks again the next time.
    """
    try:
        threads = sorted(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for listing in (each / "children" for each in threads):
        try:
            children = listing.read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in map(int, children):
            found = Process.of(child)
            if found is not None:
                yield found
            yield from descendants(child)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """In a child, before its program starts: be told to stop when the parent is killed, who cannot say so any more.

    What was left behind would hold the member's place, or the aggregator's, against the next start.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Child:
    """A program that runs until it ends or is stopped; what it prints goes to `output`, or our standard error."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: int = _STANDARD_ERROR) -> None:
        # A session of its own: a Ctrl-C in the terminal reaches us alone, and we end it in order.
        self._process = subprocess.Popen(  # noqa: S603 (the program is one of Flower's own, found by its full path)
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self._family: list[Process] = []
        self.pid = self._process.pid

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def status(self) -> int | None:
        """Its exit status; None while it runs. Ask now and then, so that its children are known when it ends."""
        self._family = [one for one in self._family if one.lives()]
        self._family += [one for one in descendants(self.pid) if one not in self._family]
        return self._process.poll()

    def stop(self, *, grace: float = 10.0) -> None:
        """End it and all that it started: ask first, and kill what is left when `grace` seconds have passed."""
        if self.status() is None:
            self._process.terminate()
        deadline = time.monotonic() + grace
        while (self.status() is None or self._family) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        for one in self._family:
            one.send(signal.SIGKILL)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


@contextmanager
def told_to_stop() -> Iterator[threading.Event]:
    """Set an event on SIGINT and SIGTERM instead of ending at once, so that children can be ended first.

    A process that was told is about to end, and must not end differently because it was told twice: from then on both
    are ignored.
    """
    told = threading.Event()
    before = {number: signal.signal(number, lambda *_: told.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if told.is_set() else handler)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end what runs here as Ctrl-C does, so that it can clean up."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
