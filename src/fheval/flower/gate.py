"""The door of the aggregator's SuperLink: members reach the calls meant for SuperNodes, and no others.

A SuperLink serves all of its calls at one address, and asks only SuperNodes to prove who they are. Whoever else reached
it could start apps on the aggregator's machine and at every member. So it listens on loopback alone, and this gate
stands before it: it ends the members' TLS, passes `POST /v1/fleet/…` on and answers everything else with 404.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import h11

from fheval.direct.front import MOST_YOUNG, YOUNG_SECONDS, Front, standing_before

# Nothing that a server might read in two ways: no dots, no escapes, no query.
_PASSED = re.compile(rb"/v1/fleet/[a-z-]+")

_READ_BYTES = 1 << 16
_HEAD_BYTES = 1 << 14
# Flower sends arrays in pieces of 5 MiB.
_BODY_BYTES = 32 << 20
_CONNECTIONS = 1024
# For each step of a conversation. SuperLink answers at once, and a SuperNode's idle connection may as well be closed.
_STEP_SECONDS = 60.0


class _Line:
    """One end of a conversation in HTTP/1.1: bytes on one side, h11's events on the other."""

    def __init__(
        self, role: type[h11.CLIENT] | type[h11.SERVER], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=_HEAD_BYTES)
        self._reader = reader
        self._writer = writer

    async def receive(self) -> h11.Event | None:
        """The next event; None where the other side has to wait for our own answer first."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await asyncio.wait_for(self._reader.read(_READ_BYTES), _STEP_SECONDS))
        return event if isinstance(event, h11.Event) else None

    async def send(self, event: h11.Event) -> None:
        data = self.http.send(event)
        if data:
            self._writer.write(data)
            await asyncio.wait_for(self._writer.drain(), _STEP_SECONDS)


class Gate:
    """Passes members' requests on to the SuperLink at `inside`."""

    def __init__(self, inside: tuple[str, int], trusted: ssl.SSLContext) -> None:
        self._inside = inside
        self._trusted = trusted
        self._members: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end; whatever goes wrong in it ends it, and nothing else."""
        self._members.add(writer)
        try:
            if len(self._members) <= _CONNECTIONS:
                await self._converse(_Line(h11.SERVER, reader, writer))
        except (h11.ProtocolError, OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            return
        finally:
            self._members.discard(writer)
            writer.close()

    def hang_up(self) -> None:
        for writer in tuple(self._members):
            writer.transport.abort()

    async def _converse(self, member: _Line) -> None:
        while isinstance(request := await member.receive(), h11.Request):
            if not is_passed(request):
                await _answer(member, 404, b"There is nothing here but the calls of SuperNodes.\n")
                return
            await self._pass(request, member)
            if member.http.our_state is not h11.DONE or member.http.their_state is not h11.DONE:
                return
            member.http.start_next_cycle()

    async def _pass(self, request: h11.Request, member: _Line) -> None:
        try:
            # A connection for each request: one kept open might be closed by SuperLink just when it is used again.
            connecting = asyncio.open_connection(*self._inside, ssl=self._trusted)
            reader, writer = await asyncio.wait_for(connecting, _STEP_SECONDS)
            with closing(writer):
                superlink = _Line(h11.CLIENT, reader, writer)
                await superlink.send(_for_one_exchange(request))
                await _relay_body(member, superlink)
                await _relay_answer(superlink, member)
        except OSError:
            # SuperLink starts, stops or is gone: a SuperNode tries again.
            if member.http.our_state is h11.SEND_RESPONSE:
                await _answer(member, 503, b"The SuperLink does not answer.\n")


def is_passed(request: h11.Request) -> bool:
    """Whether a request is one of a SuperNode's calls."""
    return request.method == b"POST" and _PASSED.fullmatch(request.target) is not None


def _for_one_exchange(request: h11.Request) -> h11.Request:
    kept = [(name, value) for name, value in request.headers if name not in (b"connection", b"expect")]
    return h11.Request(method=request.method, target=request.target, headers=[*kept, (b"connection", b"close")])


async def _relay_body(source: _Line, target: _Line) -> None:
    left = _BODY_BYTES
    while True:
        event = await source.receive()
        if isinstance(event, h11.Data):
            left -= len(event.data)
            if left < 0:
                raise h11.RemoteProtocolError("The body is too large.", error_status_hint=413)
            await target.send(h11.Data(data=event.data))
        elif isinstance(event, h11.EndOfMessage):
            await target.send(h11.EndOfMessage())
            return
        else:
            raise h11.RemoteProtocolError("The connection ended in the middle of a message.")


async def _relay_answer(superlink: _Line, member: _Line) -> None:
    response = await superlink.receive()
    while isinstance(response, h11.InformationalResponse):
        response = await superlink.receive()
    if not isinstance(response, h11.Response):
        raise ConnectionResetError
    kept = [(name, value) for name, value in response.headers if name != b"connection"]
    await member.send(h11.Response(status_code=response.status_code, headers=kept, reason=response.reason))
    await _relay_body(superlink, member)


async def _answer(member: _Line, status: int, text: bytes) -> None:
    headers = [(b"content-length", str(len(text)).encode()), (b"connection", b"close")]
    await member.send(h11.Response(status_code=status, headers=headers))
    await member.send(h11.Data(data=text))
    await member.send(h11.EndOfMessage())


@asynccontextmanager
async def opened_gate(
    outside: socket.socket, *, certificate: Path, key: Path, inside: tuple[str, int], inside_authority: Path
) -> AsyncIterator[None]:
    """Listen for members while the body of the `async with` runs."""
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.minimum_version = ssl.TLSVersion.TLSv1_3
    shown.load_cert_chain(certificate, key)
    gate = Gate(inside, ssl.create_default_context(cafile=inside_authority))
    server = await asyncio.start_server(
        gate.serve, "127.0.0.1", 0, ssl=shown, ssl_handshake_timeout=YOUNG_SECONDS, backlog=MOST_YOUNG
    )
    front = Front(server.sockets[0].getsockname())
    try:
        async with standing_before(front, outside):
            yield
    finally:
        server.close()
        gate.hang_up()
