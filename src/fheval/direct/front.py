"""The front of a listening address: takes connections, keeps only so many, and hands their bytes to a server inside.

Whoever can reach the address can open connections and say nothing; each costs the process a few files, and a process
without files can do nothing at all. So connections are counted here, before TLS: one that does not speak at once never
reaches the server, only so many may be young, and where they are too many the address that has the most of them loses
its oldest. A member's handshake takes a moment, so that its connection is not among the oldest of a crowd; once the
server has admitted it, it is not young any more. Otherwise members that all come back at once, after a restart, would
push each other out for ever.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from fheval.errors import ConfigError

_log = logging.getLogger("fheval.hub")

# A client of TLS speaks first, and at once.
FIRST_WORD_SECONDS = 5.0
_LAST_WORD_SECONDS = 5.0
_NO_FILES_PAUSE = 0.2
# By then a handshake has ended, or the server inside has hung up.
YOUNG_SECONDS = 12.0
MOST_YOUNG = 128
# So many may stay: enough for a few thousand members, each of which may come anew before its last connection is gone.
MOST_CONNECTIONS = 4096
# Each takes three files: two ends here, and the server's own.
_FILES_EACH = 3
_FILES_FOR_OTHERS = 512

_READ_BYTES = 1 << 16
# The first byte of a handshake in TLS.
_HANDSHAKE = 0x16


@dataclass(eq=False, slots=True)
class _Connection:
    address: str
    socket: socket.socket = field(repr=False)
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    young: bool = True


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection; `admit` says that the server knows it, so that it is young no longer."""

    address: str
    admit: Callable[[], None]


class Front:
    """Passes bytes between those who connect and the server at `inside`.

    At most `most` connections are kept. `on_peer` hears, for each connection to the server, its port there and who is
    at the other end.
    """

    def __init__(
        self,
        inside: tuple[str, int],
        *,
        most: int = MOST_CONNECTIONS,
        on_peer: Callable[[int, Peer | None], None] = lambda _port, _peer: None,
    ) -> None:
        self._inside = inside
        self._most = most
        self._on_peer = on_peer
        self._connections: dict[_Connection, None] = {}

    async def accept(self, outside: socket.socket) -> None:
        """Take connections until cancelled, one by one, so that there are never more than may be."""
        loop = asyncio.get_running_loop()
        outside.setblocking(False)
        while True:
            try:
                taken, address = await loop.sock_accept(outside)
            except OSError as error:
                _log.warning("A connection could not be taken (%s).", error.strerror)
                await asyncio.sleep(_NO_FILES_PAUSE)
                continue
            connection = _Connection(address[0], taken)
            self._connections[connection] = None
            connection.task = asyncio.create_task(self._serve(connection, f"{address[0]}:{address[1]}"))
            self._thin_out()
            # Those who were hung up on go before the next one is taken.
            await asyncio.sleep(0)

    async def _serve(self, connection: _Connection, peer: str) -> None:
        """Serve one connection to its end; whatever goes wrong in it ends it, and nothing else."""
        growing_up = asyncio.get_running_loop().call_later(YOUNG_SECONDS, _grow_up, connection)
        writer = None
        try:
            reader, writer = await asyncio.open_connection(sock=connection.socket)
            first = await asyncio.wait_for(reader.read(_READ_BYTES), FIRST_WORD_SECONDS)
            if first[:1] == bytes([_HANDSHAKE]):
                await self._pass(first, reader, writer, Peer(peer, lambda: _grow_up(connection)))
        except (OSError, asyncio.TimeoutError, asyncio.CancelledError):
            pass
        finally:
            growing_up.cancel()
            self._connections.pop(connection, None)
            if writer is None:
                connection.socket.close()
            else:
                _close(writer)

    async def _pass(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer) -> None:
        inside_reader, inside_writer = await asyncio.open_connection(*self._inside)
        port = inside_writer.get_extra_info("sockname")[1]
        self._on_peer(port, peer)
        try:
            inside_writer.write(first)
            ways = [
                asyncio.ensure_future(_carry(reader, inside_writer)),
                asyncio.ensure_future(_carry(inside_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._on_peer(port, None)
            _close(inside_writer)

    def _thin_out(self) -> None:
        """Where there are too many, hang up on the oldest of whoever has the most; the young go first."""
        young = [each for each in self._connections if each.young]
        crowd = young if len(young) > MOST_YOUNG else list(self._connections)
        if len(young) > MOST_YOUNG or len(self._connections) > self._most:
            ((busiest, _),) = Counter(each.address for each in crowd).most_common(1)
            self._hang_up(next(each for each in crowd if each.address == busiest))

    def _hang_up(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)
        if connection.task is not None:
            connection.task.cancel()

    async def hang_up(self) -> None:
        """End all connections."""
        tasks = [each.task for each in self._connections if each.task is not None]
        for connection in tuple(self._connections):
            self._hang_up(connection)
        await asyncio.gather(*tasks, return_exceptions=True)


def _close(writer: asyncio.StreamWriter) -> None:
    """Send what is left, and do not wait for ever until it is read."""
    writer.close()
    asyncio.get_running_loop().call_later(_LAST_WORD_SECONDS, writer.transport.abort)


def _grow_up(connection: _Connection) -> None:
    connection.young = False


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand bytes on until their sender has no more."""
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()


def reserved(host: str, port: int) -> socket.socket:
    """Take an address to listen on, before anything is started that takes long."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_failure:
            taken = on_failure.enter_context(socket.socket(family, kind, protocol))
            # A port that the last aggregator has just left is not in use.
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
            # From here on whoever else wants the address is refused; it may be bound twice before.
            taken.listen(MOST_YOUNG)
            on_failure.pop_all()
            return taken
    except OSError as error:
        complaint = f"{host}:{port} cannot be listened on ({error.strerror}). Choose another --host or --port."
        raise ConfigError(complaint) from error


def allow_files(connections: int = MOST_CONNECTIONS) -> int:
    """Let this process open files for so many connections; gives for how many the system grants them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_EACH * connections + _FILES_FOR_OTHERS
    granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < granted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
    return min(connections, max(1, (granted - _FILES_FOR_OTHERS) // _FILES_EACH))


@asynccontextmanager
async def standing_before(front: Front, outside: socket.socket) -> AsyncIterator[None]:
    """Take connections on a bound socket while the body of the `async with` runs."""
    accepting = asyncio.create_task(front.accept(outside))
    try:
        yield
    finally:
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        outside.close()
        await front.hang_up()
