"""The aggregator's end: takes the members' streams, and carries exchanges to whoever is there.

TLS has checked a member's certificate before anything here runs; the policy says whether the member is still one, and
with which key. A member has one stream: a newer one takes the place of the older. A request is sent again when a
stream breaks and the member comes back before the exchange's deadline: vaults answer each stage once, with the same
bytes, so that asking again is always safe.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from cryptography import x509

from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import AggregatorKit, MemberRecord
from fheval.consortium.certificates import common_name, is_for
from fheval.direct.frames import (
    CHANNEL_OPTIONS,
    METHOD,
    SERVICE,
    Answer,
    Arrival,
    Notice,
    Request,
    ToHub,
    ToRelay,
    read_frame,
)
from fheval.direct.front import MOST_CONNECTIONS, Front, Peer, reserved, standing_before
from fheval.errors import LocalProtocolError, RemoteProtocolError, TransportError
from fheval.party.log import one_line
from fheval.wire import encode

_log = logging.getLogger("fheval.hub")

# A member whose vault is down is asked again after a pause, until the deadline of the exchange.
_ASK_AGAIN = 0.5
# A relay says who it is at once.
_ARRIVAL_SECONDS = 10.0
_GOODBYE_SECONDS = 1.0
_LOOPBACK = "127.0.0.1"
# Beyond it, signatures that carry dates begin to fail.
MOST_CLOCK_DIFFERENCE = 5.0
# What a member calls its version stands in the hub's log and status.
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,64}")

_SERVER_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", 4),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # A connection is for a stream.
    ("grpc.max_connection_idle_ms", 60_000),
)


@dataclass(eq=False, slots=True)
class Stream:
    """One member's connection, from its arrival to its end."""

    context: Any = field(repr=False)
    since: float
    peer: str
    arrival: Arrival
    clock_difference: float
    record: MemberRecord = field(repr=False)
    expires: float
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    _awaited: dict[int, asyncio.Future[bytes | None]] = field(default_factory=dict, repr=False)
    # Those that nobody waits for any more, and that may still be answered.
    _overdue: set[int] = field(default_factory=set, repr=False)
    _number: int = 0

    async def send(self, content: Request | Notice) -> None:
        """Send one frame; a `TransportError` says that the stream has ended.

        Frames go one after the other. One that is on its way goes on when nobody waits for it any more: gRPC breaks a
        stream on which sending was cut short.
        """
        await self._writing.acquire()
        sending = asyncio.ensure_future(self.context.write(encode(ToRelay(content=content))))
        sending.add_done_callback(self._sent)
        try:
            await asyncio.shield(sending)
        except (grpc.RpcError, grpc.aio.BaseError) as error:
            raise TransportError("The member's stream has ended.") from error

    def _sent(self, sending: asyncio.Future[None]) -> None:
        self._writing.release()
        if not sending.cancelled():
            sending.exception()  # whoever still waits hears of it

    @property
    def is_stuck(self) -> bool:
        """Whether something is on its way that the member does not read."""
        return self._writing.locked()

    async def ask(self, body: bytes) -> bytes | None:
        """Send one request and wait for its answer; None where the stream ended, or the vault gave none."""
        self._number += 1
        number = self._number
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._awaited[number] = answer
        try:
            await self.send(Request(number=number, body=body))
            ended = asyncio.ensure_future(self.ended.wait())
            either: set[asyncio.Future[Any]] = {answer, ended}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
            return answer.result() if answer.done() else None
        except TransportError:
            return None
        finally:
            del self._awaited[number]
            if not answer.done():
                self._overdue.add(number)

    def answered(self, answer: Answer) -> bool:
        """Hand an answer to whoever waits for it; False where nothing of this number was left to be answered."""
        awaited = self._awaited.get(answer.number)
        if awaited is None or awaited.done():
            was_asked = answer.number in self._overdue
            self._overdue.discard(answer.number)
            return was_asked
        awaited.set_result(None if answer.body is None else bytes(answer.body))
        return True

    async def dismiss(self, why: str, *, for_good: bool = False) -> None:
        """Tell the member why, and end the stream."""
        notice = Notice(words=why, then="leave" if for_good else "come again")
        # Whoever does not read what it is sent is cut off all the same.
        with suppress(TransportError, asyncio.TimeoutError):
            await asyncio.wait_for(self.send(notice), _GOODBYE_SECONDS)
        self.ended.set()


async def _no_greeting(_name: str, _stream: Stream) -> None:
    """What a hub without a policy of its own does when a member has come."""


class Hub:
    """The streams of all members, and exchanges over them. Lives in one event loop."""

    def __init__(
        self,
        members: Callable[[], Mapping[str, MemberRecord]],
        on_arrival: Callable[[str, Stream], Awaitable[None]] = _no_greeting,
    ) -> None:
        self._members = members
        self._on_arrival = on_arrival
        self.arrivals = 0
        self.streams: dict[str, Stream] = {}
        self._came = asyncio.Condition()
        self._peers: dict[str, Peer] = {}

    def name_peer(self, port: int, peer: Peer | None) -> None:
        """Note who is at the other end of a connection that came through the front; None when it has ended."""
        here = f"ipv4:{_LOOPBACK}:{port}"
        if peer is None:
            self._peers.pop(here, None)
        else:
            self._peers[here] = peer

    # Streams

    async def connect(self, frames: AsyncIterator[bytes], context: Any) -> None:
        """Serve one member's stream until it ends."""
        record, expires = await self._admitted(context)
        name = record.name
        try:
            await self._serve(record, expires, await _arrival(name, frames), frames, context)
        except TransportError:
            _log.info("%s left while it was spoken to.", name)
        except RemoteProtocolError as error:
            _log.warning("The stream of %s was cut off. %s", name, error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "This stream does not follow the protocol.")

    async def _serve(
        self, record: MemberRecord, expires: float, arrival: Arrival, frames: AsyncIterator[bytes], context: Any
    ) -> None:
        name, now, peer = record.name, time.time(), self._peers.get(context.peer())
        if peer is not None:
            peer.admit()
        stream = Stream(
            context=context,
            since=now,
            peer=context.peer() if peer is None else peer.address,
            arrival=arrival,
            clock_difference=arrival.clock - now,
            record=record,
            expires=expires,
        )
        older = self.streams.get(name)
        self.streams[name] = stream
        self.arrivals += 1
        _log.info("%s has connected from %s, fheval %s.", name, stream.peer, arrival.fheval)
        reading = asyncio.ensure_future(_read_answers(name, frames, stream))
        ended = asyncio.ensure_future(stream.ended.wait())
        greeting: asyncio.Future[None] | None = None
        try:
            async with self._came:
                self._came.notify_all()
            await self._welcome(name, stream, older)
            greeting = asyncio.ensure_future(self._on_arrival(name, stream))
            await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        finally:
            reading.cancel()
            ended.cancel()
            if greeting is not None:
                greeting.cancel()
            stream.ended.set()
            if self.streams.get(name) is stream:
                del self.streams[name]
                _log.info("%s has left.", name)

    async def _welcome(self, name: str, stream: Stream, older: Stream | None) -> None:
        if abs(stream.clock_difference) > MOST_CLOCK_DIFFERENCE:
            words = f"This clock and the hub's differ by {stream.clock_difference:.0f} s. Set them right."
            _log.warning("%s: %s", name, words)
            await stream.send(Notice(words=words))
        if older is not None:
            _log.warning("%s has connected a second time; the newer stream takes over.", name)
            await stream.send(Notice(words="An older connection of this member was replaced by this one."))
            await older.dismiss("A newer connection of this member takes over.", for_good=True)

    async def _admitted(self, context: Any) -> tuple[MemberRecord, float]:
        """The member that TLS has shown to be there, and until when its certificate lasts.

        Whoever is none under the current policy is turned away.
        """
        (pem,) = context.auth_context()["x509_pem_cert"]
        certificate = x509.load_pem_x509_certificate(pem)
        name = common_name(certificate)
        record = self._members().get(name)
        if record is not None and is_for(certificate, record.transport_key()):
            return record, certificate.not_valid_after_utc.timestamp()
        _log.warning("%s was turned away: the policy does not list it with this key.", one_line(name))
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "The current policy has no member with this key.")
        raise LocalProtocolError("A stream went on after it was aborted.")

    async def present(self, names: frozenset[str], patience: float) -> list[str]:
        """Those of the members that are connected, after waiting so long for all of them."""
        with suppress(asyncio.TimeoutError):
            async with self._came:
                await asyncio.wait_for(self._came.wait_for(lambda: names <= self.streams.keys()), patience)
        return sorted(names & self.streams.keys())

    async def dismiss_strangers(self) -> None:
        """End the streams of those who would not be let in any more.

        After a new policy these are members that it does not list, or lists with another key; at any time, those whose
        certificate has ended since they came.
        """
        members, now = self._members(), time.time()
        for name, stream in tuple(self.streams.items()):
            record = members.get(name)
            if record is None or record.supernode_key != stream.record.supernode_key:
                await stream.dismiss("The current policy does not list this member with this key.")
            elif stream.expires < now:
                await stream.dismiss("The certificate of this connection has ended.")

    # Exchanges

    async def exchange(
        self, asked: Exchange, seconds: float, on_answer: Callable[[int, int], None] | None = None
    ) -> dict[str, bytes]:
        """Send one stage to its members and give the answers that came in time."""
        deadline = asyncio.get_running_loop().time() + seconds
        replies: dict[str, bytes] = {}

        async def one(name: str, body: bytes) -> None:
            left = deadline - asyncio.get_running_loop().time()
            try:
                replies[name] = await asyncio.wait_for(self._answer_of(name, body), left)
            except asyncio.TimeoutError:
                self._cut_off_if_stuck(name)
            else:
                if on_answer is not None:
                    on_answer(len(replies), len(asked.requests))

        await asyncio.gather(*(one(name, body) for name, body in asked.requests.items()))
        return replies

    def _cut_off_if_stuck(self, name: str) -> None:
        """End the stream of a member that does not read what it is sent; it may come again."""
        stream = self.streams.get(name)
        if stream is not None and stream.is_stuck:
            _log.warning("%s does not read what it is sent, and was cut off.", name)
            stream.ended.set()

    async def _answer_of(self, name: str, body: bytes) -> bytes:
        """Ask until there is an answer: over the stream that is there, or the next one."""
        while True:
            stream = self.streams.get(name)
            if stream is None:
                async with self._came:
                    await self._came.wait_for(lambda: name in self.streams)
                continue
            reply = await stream.ask(body)
            if reply is not None:
                return reply
            await asyncio.sleep(_ASK_AGAIN)


async def _read_answers(name: str, frames: AsyncIterator[bytes], stream: Stream) -> None:
    async for data in frames:
        frame = read_frame(data, ToHub, name).content
        if not (isinstance(frame, Answer) and stream.answered(frame)):
            raise RemoteProtocolError(f"{name} answered what it was not asked.", step="stream", culprit=name)


async def _arrival(name: str, frames: AsyncIterator[bytes]) -> Arrival:
    """The first frame of a stream; one that does not come at once is not waited for."""

    async def first() -> bytes | None:
        async for data in frames:
            return data
        return None

    try:
        data = await asyncio.wait_for(first(), _ARRIVAL_SECONDS)
    except asyncio.TimeoutError:
        data = None
    arrival = read_frame(data, ToHub, name).content
    if not isinstance(arrival, Arrival) or not isfinite(arrival.clock) or not _VERSION.fullmatch(arrival.fheval):
        raise RemoteProtocolError(f"{name} did not say who it is.", step="arrival", culprit=name)
    return arrival


@asynccontextmanager
async def listening(
    hub: Hub, kit: AggregatorKit, authority: Path, host: str, port: int, *, connections: int = MOST_CONNECTIONS
) -> AsyncIterator[int]:
    """Listen for members, with so many connections at most, while the `async with` runs; gives the port."""
    outside = reserved(host, port)
    server = grpc.aio.server(options=_SERVER_OPTIONS)
    handler = grpc.stream_stream_rpc_method_handler(hub.connect)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
    credentials = grpc.ssl_server_credentials(
        [(kit.key.read_bytes(), kit.certificate.read_bytes())], authority.read_bytes(), require_client_auth=True
    )
    inside = server.add_secure_port(f"{_LOOPBACK}:0", credentials)
    front = Front((_LOOPBACK, inside), most=connections, on_peer=hub.name_peer)
    await server.start()
    try:
        async with standing_before(front, outside):
            yield outside.getsockname()[1]
    finally:
        await asyncio.gather(*(stream.dismiss("The hub stops.") for stream in hub.streams.values()))
        await server.stop(grace=1.0)
