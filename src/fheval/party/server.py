"""The vault as a process: takes connections on a Unix socket, and gives every request to the core.

Whatever happens inside, the other end gets a reply or `REFUSAL`, and the log gets at most the kind of an unexpected
error: a traceback could show what the vault keeps.
"""

from __future__ import annotations

import logging
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType, TracebackType

from fheval.errors import TransportError
from fheval.party.client import FRAME_LIMIT, FrameTooLarge, receive_frame, send_frame
from fheval.party.messages import REFUSAL

# One shim asks at a time; a few more may wait with their requests in memory.
MOST_CONNECTIONS = 4
IDLE_SECONDS = 30.0
_STOP_SECONDS = 60.0
_NO_FILES_PAUSE = 0.2
_LOOK_EVERY = 0.1
# The largest request is sent in a fraction of it. Whoever takes longer makes room when others wait.
UNHEARD_SECONDS = 2.0

_log = logging.getLogger("fheval.vault")


class VaultServer:
    """Serves one listening socket until it is told to stop."""

    def __init__(
        self,
        handle: Callable[[bytes], bytes],
        listener: socket.socket,
        *,
        limit: int = FRAME_LIMIT,
        seconds: float = IDLE_SECONDS,
    ) -> None:
        self._handle = handle
        self._listener = listener
        self._limit = limit
        self._seconds = seconds
        self._places = threading.Semaphore(MOST_CONNECTIONS)
        self._stopping = threading.Event()
        self._connections: set[socket.socket] = set()
        self._taken: SimpleQueue[socket.socket | None] = SimpleQueue()
        # Since when those have had a place who have not sent a whole request, the longest first.
        self._unheard: dict[socket.socket, float] = {}
        self._wake, self._woken = socket.socketpair()
        for end in (self._wake, self._woken):
            end.setblocking(False)

    def __enter__(self) -> VaultServer:
        return self

    def __exit__(self, *_error: object) -> None:
        self._wake.close()
        self._woken.close()

    @property
    def wake_descriptor(self) -> int:
        """Bytes written here make `serve` look up: for signals, which the kernel may hand to any thread."""
        return self._wake.fileno()

    def stop(self) -> None:
        """Take no more requests; those at work are finished. May be called from a signal handler."""
        if not self._stopping.is_set():
            self._stopping.set()
            with suppress(BlockingIOError):  # it is awake already
                self._wake.send(b"\0")

    def serve(self) -> None:
        """Answer requests until told to stop."""
        workers = [threading.Thread(target=self._work, name="vault connection") for _ in range(MOST_CONNECTIONS)]
        for worker in workers:
            worker.start()
        try:
            self._take_connections()
        finally:
            for _ in workers:
                self._taken.put(None)

    def _take_connections(self) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._listener, selectors.EVENT_READ)
            waiting.register(self._woken, selectors.EVENT_READ)
            while not self._stopping.is_set():
                ready = [key.fileobj for key, _ in waiting.select()]
                if self._woken in ready:
                    self._woken.recv(1024)
                if self._listener in ready and not self._stopping.is_set():
                    self._accept()
            self._finish()

    def _accept(self) -> None:
        """Take one connection; whatever goes wrong with it, the next one may come."""
        self._listener.setblocking(False)
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except (OSError, MemoryError) as error:
            # Without files to open, or memory, there may be some in a moment.
            _log.error("A connection could not be taken (%s).", getattr(error, "strerror", "no memory"))
            self._stopping.wait(_NO_FILES_PAUSE)
            return
        if not self._take_place():
            connection.close()
            return
        self._connections.add(connection)
        self._unheard[connection] = time.monotonic()
        self._taken.put(connection)

    def _take_place(self) -> bool:
        """Wait for a place; whoever has one and sends no whole request for a while gives it up."""
        deadline = time.monotonic() + self._seconds
        while not self._places.acquire(timeout=_LOOK_EVERY):
            now = time.monotonic()
            if now > deadline or self._stopping.is_set():
                return False
            silent, since = next(iter(tuple(self._unheard.items())), (None, now))
            if silent is not None and now > since + UNHEARD_SECONDS:
                _log.warning("A connection that sent no request was closed for the next one.")
                self._unheard.pop(silent, None)
                with suppress(OSError):  # closed by its own thread
                    silent.shutdown(socket.SHUT_RDWR)
        return True

    def _leave(self, connection: socket.socket) -> None:
        self._unheard.pop(connection, None)
        self._connections.discard(connection)
        self._places.release()

    def _finish(self) -> None:
        """Hear no more requests, and wait for those that are at work: a reply in the ledger should also be sent."""
        for connection in tuple(self._connections):
            with suppress(OSError):  # closed by its own thread
                connection.shutdown(socket.SHUT_RD)
        for _ in range(MOST_CONNECTIONS):
            self._places.acquire(timeout=_STOP_SECONDS)

    def _work(self) -> None:
        """One of the threads that are there from the beginning: a system without memory gives none later."""
        while (connection := self._taken.get()) is not None:
            try:
                self._serve_one(connection)
            except BaseException as error:
                # The next connection is served, whatever became of this one.
                with suppress(MemoryError):
                    _log_kind(type(error), error.__traceback__)

    def _serve_one(self, connection: socket.socket) -> None:
        try:
            with connection:
                while not self._stopping.is_set() and self._answer(connection):
                    pass
        except TransportError as error:
            _log.warning("A connection ended. %s", error)
        finally:
            self._leave(connection)

    def _answer(self, connection: socket.socket) -> bool:
        """Answer one request; whether another may follow."""
        try:
            data = receive_frame(connection, seconds=self._seconds, limit=self._limit)
        except FrameTooLarge:
            send_frame(connection, REFUSAL, seconds=self._seconds)
            raise
        if data is None:
            return False
        self._unheard.pop(connection, None)
        reply = REFUSAL
        try:
            reply = self._handle(data)
        finally:
            send_frame(connection, reply, seconds=self._seconds)
            self._unheard[connection] = time.monotonic()
        return True


@contextmanager
def stopped_by_signals(server: VaultServer, reload: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT stop the server cleanly, SIGHUP reads the kit again.

    A process that was told to stop is about to end, and must not end differently because it was told twice: from then
    on both are ignored.
    """
    told: set[int] = set()

    def on_stop(number: int, _frame: FrameType | None) -> None:
        told.add(number)
        server.stop()

    def on_reload(_number: int, _frame: FrameType | None) -> None:
        # A handler must not wait for the lock that the interrupted code may hold.
        threading.Thread(target=reload, name="vault reload").start()

    # Python runs a handler when its main thread goes on, which waits in `select` and must hear of a signal that
    # another thread was given.
    descriptor = signal.set_wakeup_fd(server.wake_descriptor, warn_on_full_buffer=False)
    before = {
        number: signal.signal(number, handler)
        for number, handler in ((signal.SIGTERM, on_stop), (signal.SIGINT, on_stop), (signal.SIGHUP, on_reload))
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if told and number != signal.SIGHUP else handler)
        signal.set_wakeup_fd(descriptor)


def log_kinds_only() -> None:
    """Let an unexpected error of a thread be logged by its kind and place, without what it says."""
    threading.excepthook = lambda error: _log_kind(error.exc_type, error.exc_traceback)


def _log_kind(kind: type[BaseException], trace: TracebackType | None) -> None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "an unknown place"
    _log.error("An unexpected %s at %s. Report it, with these words.", kind.__name__, place)
