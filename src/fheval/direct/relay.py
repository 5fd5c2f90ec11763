"""A member's end: dials out to the hub, and hands bytes to the vault's socket and its answers back.

It holds the key of its connection and nothing else, and reads nothing of what it carries.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import grpc
import grpc.aio

from fheval.consortium import TransportFiles
from fheval.consortium.files import read_public
from fheval.consortium.member_keys import read_transport_key_pem
from fheval.consortium.records import read_address
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
from fheval.errors import ConfigError, RemoteProtocolError, TransportError
from fheval.party.client import ask
from fheval.party.log import one_line
from fheval.secrets import Randomness, SystemRandomness, integer_below
from fheval.version import __version__
from fheval.wire import encode

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_CONNECT_SECONDS = 15.0
# Each request may be as large as a message may be, and is held here until the vault takes it.
_MOST_WAITING = 8
# A connection that lasted so long was a good one, and the next pause is short again.
_STEADY = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Which hub, with which key, for which vault; `say` tells the operator how it goes."""

    hub: str
    files: TransportFiles
    vault: Path
    say: Callable[[str], None] = field(repr=False)
    rng: Randomness = field(default_factory=SystemRandomness, repr=False)

    def __post_init__(self) -> None:
        proxy_for(self.hub)

    def credentials(self) -> grpc.ChannelCredentials:
        """What TLS needs of this member: its key and certificate, and whom it trusts."""
        if not self.files.certificate.exists():
            raise ConfigError(
                f"{self.files.certificate} is missing: this kit has no certificate for connections. "
                "Ask the authority for one, or use --transport flower."
            )
        key, certificate = read_transport_key_pem(self.files.key), read_public(self.files.certificate)
        return grpc.ssl_channel_credentials(read_public(self.files.authority), key.reveal(), certificate)

    async def run(self) -> None:
        """Stay connected until cancelled; a pause that grows, and differs from member to member, before each try.

        A `TransportError` says that another relay of the same member has taken over.
        """
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                why = await self._connection()
            except (OSError, ConfigError) as error:
                # A file that cannot be read now may be there again: a kit that is renewed, a system out of files.
                why = f"No connection to {self.hub} could be tried. {error}"
            if time.monotonic() - began > _STEADY:
                pause = _FIRST_PAUSE
            wait = pause * (0.5 + integer_below(self.rng, 1024) / 1024)
            self.say(f"{why} The next try is in {wait:.0f} s.")
            await asyncio.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connection(self) -> str:
        """One connection, from its beginning to its end; says why it ended."""
        options = (*CHANNEL_OPTIONS, *_proxy_options(proxy_for(self.hub)))
        async with grpc.aio.secure_channel(self.hub, self.credentials(), options=options) as channel:
            if not await _is_ready(channel):
                return await asyncio.to_thread(self._why_not)
            stream = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
            try:
                with ThreadPoolExecutor(1, thread_name_prefix="vault") as vault:
                    return await self._carry(stream, vault)
            except grpc.aio.AioRpcError as error:
                details = one_line(error.details() or "")
                return f"The connection to {self.hub} ended ({error.code().name.lower()}: {details})."
            except RemoteProtocolError as error:
                return str(error)
            finally:
                stream.cancel()

    async def _carry(self, stream: grpc.aio.StreamStreamCall[bytes, bytes], vault: ThreadPoolExecutor) -> str:
        await stream.write(encode(ToHub(content=Arrival(fheval=__version__, clock=time.time()))))
        self.say(f"Connected to {self.hub}.")
        answering: set[asyncio.Task[None]] = set()
        writing = asyncio.Lock()
        try:
            async for data in stream:
                content = read_frame(data, ToRelay, "the hub").content
                if isinstance(content, Notice):
                    words = one_line(content.words)
                    self.say(f"The hub says: {words}")
                    if content.then == "leave":
                        raise TransportError(f"This relay stops. {words}")
                    if content.then == "come again":
                        return f"{self.hub} ended the connection."
                else:
                    task = asyncio.create_task(self._answer(stream, vault, content, writing))
                    answering.add(task)
                    task.add_done_callback(answering.discard)
                    # The vault answers one by one; what it has not come to waits with the hub.
                    while len(answering) >= _MOST_WAITING:
                        await asyncio.wait(answering, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tuple(answering):
                task.cancel()
        return f"The connection to {self.hub} ended."

    async def _answer(
        self,
        stream: grpc.aio.StreamStreamCall[bytes, bytes],
        vault: ThreadPoolExecutor,
        request: Request,
        writing: asyncio.Lock,
    ) -> None:
        """Ask the vault, and send what it says; gRPC breaks a stream on which two send at a time."""
        loop = asyncio.get_running_loop()
        try:
            body = await loop.run_in_executor(vault, ask, self.vault, bytes(request.body))
        except TransportError as error:
            self.say(str(error))
            body = None
        except RuntimeError:  # Python's own, where the system grants no more threads
            self.say("The vault could not be asked: no thread could be started.")
            body = None
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            async with writing:
                await stream.write(encode(ToHub(content=Answer(number=request.number, body=body))))

    def _why_not(self) -> str:
        """Why no connection came about, in words: gRPC itself says little."""
        host, port = read_address(self.hub)
        proxy = proxy_for(self.hub)
        try:
            with _dialled(host, port) if proxy is None else _tunnelled(proxy, host, port) as plain:
                names = _names_shown(plain, self.files.authority)
        except ssl.SSLError as error:
            return f"{self.hub} showed a certificate that this consortium's authority did not issue ({error.reason})."
        except OSError as error:
            through = "" if proxy is None else f" through the proxy {proxy.hostname}:{proxy.port}"
            return f"{self.hub} cannot be reached{through} ({error.strerror or error})."
        if host.lower() not in names:
            return (
                f"{self.hub} showed a certificate for {', '.join(names)}, and not for {host}. Use a name that it has."
            )
        return f"{self.hub} did not take the connection. Ask its operator whether the policy lists this member."


async def _is_ready(channel: grpc.aio.Channel) -> bool:
    """Wait until a connection stands; gRPC itself would go on trying without a word."""
    deadline = time.monotonic() + _CONNECT_SECONDS
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            return False
        try:
            await asyncio.wait_for(channel.wait_for_state_change(state), deadline - time.monotonic())
        except asyncio.TimeoutError:
            return False
        state = channel.get_state()
    return True


def proxy_for(hub: str) -> SplitResult | None:
    """The proxy that the environment names for connections to the hub, in whichever case it is written.

    gRPC by itself reads `https_proxy` in small letters alone, and ignores one without http:// in silence.
    """
    host, port = read_address(hub)
    named = getproxies_environment().get("https")
    if not named or proxy_bypass(f"{host}:{port}"):
        return None
    with suppress(ValueError):
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        if proxy.scheme == "http" and proxy.hostname and proxy.port:
            return proxy
    raise ConfigError("https_proxy names no proxy that can be used. Write it as http://HOST:PORT.")


def _proxy_options(proxy: SplitResult | None) -> tuple[tuple[str, str | int], ...]:
    return (("grpc.enable_http_proxy", 0),) if proxy is None else (("grpc.http_proxy", proxy.geturl()),)


def _dialled(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=_CONNECT_SECONDS)


def _tunnelled(proxy: SplitResult, host: str, port: int) -> socket.socket:
    """A connection through a proxy; an `OSError` has the proxy's own words where it opens none."""
    headers = {}
    if proxy.username is not None:
        known = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {b64encode(known.encode()).decode()}"
    tunnel = HTTPConnection(proxy.hostname or "", proxy.port, timeout=_CONNECT_SECONDS)
    tunnel.set_tunnel(host, port, headers)
    tunnel.connect()
    return tunnel.sock


def _names_shown(plain: socket.socket, authority: Path) -> list[str]:
    """The host names and addresses in the certificate that the hub shows."""
    trusting = ssl.create_default_context(cafile=authority)
    trusting.check_hostname = False
    with trusting.wrap_socket(plain) as shown:
        certificate = shown.getpeercert() or {}
    shown_names: Any = certificate.get("subjectAltName", ())
    return [name.lower() for _kind, name in shown_names]
