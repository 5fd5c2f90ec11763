"""`fheval aggregator up`: the hub as a process, and the socket on which `evaluate` and `status` ask it.

The socket lies in the state directory, for this user alone. A request is a line of JSON; what comes back are lines of
JSON: words on how it goes, then the outcome. One round runs at a time.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket

import msgspec

from fheval.aggregator.orders import Failure, Order, OrderEnd, Post, Summary, carry_out, owed_file
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import AggregatorKit, MemberRecord, load_aggregator_kit
from fheval.consortium.files import check_private_directory
from fheval.consortium.kit import kept_policy
from fheval.direct.front import MOST_CONNECTIONS, allow_files
from fheval.direct.greetings import greet, greeting_of
from fheval.direct.hub import Hub, Stream, listening
from fheval.direct.metrics import Tally, telling
from fheval.direct.signals import until_told
from fheval.errors import ConfigError, FhevalError, LocalProtocolError, TransportError
from fheval.party.messages import Greeting
from fheval.version import __version__

SOCKET = "hub.sock"

_LINE_LIMIT = 1 << 20

# Once everybody has spent a release, whoever is needed for the outcome is waited for so many times longer.
_NEEDED_PATIENCE = 5
# How long a member may take to confirm what it was owed.
_DELIVERY_SECONDS = 60.0
# How soon a new policy holds once it is in the kit.
_LOOK_SECONDS = 2.0

_log = logging.getLogger("fheval.hub")


class StatusRequest(msgspec.Struct, frozen=True, tag="status"):
    """Who is connected, since when?"""


class Evaluate(msgspec.Struct, frozen=True, tag="evaluate"):
    """Run one round, as the order says."""

    order: Order


class Said(msgspec.Struct, frozen=True, tag="said"):
    """How it goes, for the operator's eyes."""

    words: str


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """How many of the members that were asked have answered this stage."""

    stage: str
    done: int
    whole: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """How an order ended."""

    end: OrderEnd


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """One member as the hub sees it; `clock` is by how many seconds its clock is ahead of the hub's.

    `policy` is the version that its vault says it has, None where the vault does not answer.
    """

    member: str
    since: str | None
    peer: str | None
    fheval: str | None
    clock: float | None
    policy: int | None


class Status(msgspec.Struct, frozen=True, kw_only=True, tag="standing"):
    """The hub at this moment; the last round names who took part, and no result."""

    consortium: str
    policy: int
    studies: tuple[str, ...]
    address: str
    fheval: str
    members: tuple[Connected, ...]
    running: bool
    last: Summary | None
    last_at: str | None


# What is asked on the socket, and what is told there.
Asked = StatusRequest | Evaluate
Told = Said | Progress | Ended | Status

# How long a vault has to say who it is: it may be at work for a round.
_GREETING_SECONDS = 30.0
_STATUS_SECONDS = 3.0


class Service:
    """One hub: its kit, its streams, and the round that is running."""

    def __init__(self, kit: Path, state: Path) -> None:
        self._directory = kit
        self._state = state
        self._policy = kept_policy(kit)
        self._take(load_aggregator_kit(kit, now=_now()))
        self.hub = Hub(lambda: self._members, self._greet)
        self._owed = owed_file(state)
        self.address = ""
        self.tally = Tally()
        self._last: Summary | None = None
        self._playing = asyncio.Lock()

    def _take(self, kit: AggregatorKit) -> None:
        self.kit = kit
        self._members: Mapping[str, MemberRecord] = {record.name: record for record in kit.policy.members}

    async def _greet(self, name: str, stream: Stream) -> None:
        await greet(name, stream, self.kit.policy.version, _GREETING_SECONDS)
        await self._deliver(name)

    async def _deliver(self, name: str) -> None:
        """Now that a member has come: send those who are there what they are owed of earlier rounds.

        What one signs may be due to others. While a round is running it waits for the next one, which begins with it.
        """
        if name not in self._owed.members():
            return
        for _ in range(2):
            for round_id, stage, requests in self._owed.to(self.hub.streams.keys()):
                # What a round in play would owe if it ended here is no question for now.
                if self._playing.locked():
                    return
                asked = Exchange(stage=stage, round=round_id, requests=requests)
                replies = await self.hub.exchange(asked, _DELIVERY_SECONDS)
                self._owed.settle(round_id, replies)
                told = ", ".join(sorted(replies))
                _log.info("Round %s, stage %s: what was owed went to %s.", round_id, stage.value, told or "nobody")

    async def refresh(self) -> AggregatorKit:
        """Take over what is new in the kit, and dismiss who would not be let in any more."""
        policy = kept_policy(self._directory)
        if policy != self._policy:
            self._take(await asyncio.to_thread(load_aggregator_kit, self._directory, now=_now()))
            self._policy = policy
            _log.info("Policy version %d holds from now on.", self.kit.policy.version)
        await self.hub.dismiss_strangers()
        return self.kit

    async def keep_up(self) -> None:
        """Between rounds: take over a new policy as soon as it is in the kit, and say so to those who lack it."""
        version, said = self.kit.policy.version, ""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._playing.locked():
                continue
            try:
                await self.refresh()
                said = ""
                if self.kit.policy.version != version:
                    version = self.kit.policy.version
                    there = tuple(self.hub.streams.items())
                    await asyncio.gather(*(greet(name, each, version, _GREETING_SECONDS) for name, each in there))
            except (FhevalError, OSError) as error:
                if str(error) != said:
                    said = str(error)
                    _log.warning("The kit was not read again. %s", said)

    async def answer(self, asked: Asked, say: Callable[[Told], None]) -> None:
        if isinstance(asked, StatusRequest):
            say(await self.status())
            return
        if self._playing.locked():
            busy = TransportError("A round is running already. Try again when it has ended.")
            say(Ended(OrderEnd(failure=Failure.of(busy))))
            return
        async with self._playing:
            try:
                self._last = await self._evaluate(asked.order, say)
                self.tally.ended(self._last)
                end = OrderEnd(summary=self._last)
            except FhevalError as error:
                self.tally.failed += 1
                end = OrderEnd(failure=Failure.of(error))
            except (OSError, MemoryError) as error:
                self.tally.failed += 1
                words = "not enough memory" if isinstance(error, MemoryError) else error.strerror or error
                why = TransportError(f"The aggregator's machine could not ({words}). Try again.")
                end = OrderEnd(failure=Failure.of(why))
        say(Ended(end))

    async def _evaluate(self, order: Order, say: Callable[[Told], None]) -> Summary:
        kit = await self.refresh()
        there = await self.hub.present(frozenset(order.members), order.patience)
        missing = [name for name in order.members if name not in there]
        if missing:
            say(Said(f"Not connected: {', '.join(missing)}."))
        loop = asyncio.get_running_loop()
        post = Post(lambda exchange: self._carry(loop, exchange, order.timeout, say))
        return await asyncio.to_thread(carry_out, order, kit, there, post, self._state / "keys", self._owed)

    def _carry(
        self, loop: asyncio.AbstractEventLoop, asked: Exchange, seconds: float, say: Callable[[Told], None]
    ) -> dict[str, bytes]:
        """One exchange, from the thread that plays the aggregator's part."""
        stage = asked.stage.value
        say(Progress(stage, 0, len(asked.requests)))
        patience = seconds * _NEEDED_PATIENCE if asked.needed else seconds
        exchange = self.hub.exchange(asked, patience, lambda done, whole: say(Progress(stage, done, whole)))
        carried = asyncio.run_coroutine_threadsafe(exchange, loop)
        replies = carried.result()
        silent = sorted(set(asked.requests) - set(replies))
        if silent:
            say(Said(f"{stage}: no answer from {', '.join(silent)}"))
        return replies

    async def status(self) -> Status:
        """Who is there; the vaults behind the streams are asked at this moment."""
        streams = dict(self.hub.streams)
        asked = await asyncio.gather(*(greeting_of(name, each, _STATUS_SECONDS) for name, each in streams.items()))
        greetings = dict(zip(streams, asked, strict=True))
        return Status(
            consortium=self.kit.policy.consortium,
            policy=self.kit.policy.version,
            studies=tuple(sorted(self.kit.studies())),
            address=self.address,
            fheval=__version__,
            members=tuple(_connected(name, streams.get(name), greetings.get(name)) for name in sorted(self._members)),
            running=self._playing.locked(),
            last=self._last,
            last_at=None if self.tally.last is None else _moment(self.tally.last),
        )

    def metrics(self) -> str:
        """How the hub stands, as Prometheus reads it; nothing of it depends on anybody's data."""
        differences = [abs(each.clock_difference) for each in self.hub.streams.values()]
        return self.tally.text(
            members=len(self._members),
            connected=len(self.hub.streams),
            arrivals=self.hub.arrivals,
            policy=self.kit.policy.version,
            running=self._playing.locked(),
            clock_difference=max(differences, default=0.0),
        )


def _connected(name: str, stream: Stream | None, greeting: Greeting | None) -> Connected:
    return Connected(
        member=name,
        since=None if stream is None else _moment(stream.since),
        peer=None if stream is None else stream.peer,
        fheval=None if stream is None else stream.arrival.fheval,
        clock=None if stream is None else round(stream.clock_difference, 3),
        policy=None if greeting is None else greeting.policy_version,
    )


async def serve(
    kit: Path,
    state: Path,
    host: str,
    port: int,
    *,
    metrics: int | None = None,
    connections: int = MOST_CONNECTIONS,
    on_ready: Callable[[], None],
) -> None:
    """Run a hub until it is cancelled; with `metrics`, tell them on that port of this machine."""
    service = Service(kit, state)
    kept = _connections_kept(connections, len(service.kit.policy.members))
    async with (
        listening(service.hub, service.kit, kit / "authority.pem", host, port, connections=kept) as bound,
        _answering(state / SOCKET, service),
        telling(service.metrics, metrics),
    ):
        service.address = f"{host}:{bound}"
        on_ready()
        await service.keep_up()


def _connections_kept(wanted: int, members: int) -> int:
    """How many connections there will be files for; says so where they are fewer than the policy's members."""
    if wanted < members:
        raise ConfigError(f"--connections {wanted} has no room for the policy's {members} members. Allow more.")
    kept = allow_files(wanted)
    if kept < members:
        _log.warning(
            "This process may have files for %d connections, and the policy lists %d members. Raise its limit of open "
            "files (LimitNOFILE in the unit, or ulimit -n), then start it again.",
            kept,
            members,
        )
    return kept


@asynccontextmanager
async def _answering(path: Path, service: Service) -> AsyncIterator[None]:
    """Answer `evaluate` and `status` on a socket that only this user can open."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()

        def say(told: Told) -> None:
            # Also from the thread that plays the aggregator's part.
            loop.call_soon_threadsafe(writer.write, msgspec.json.encode(told) + b"\n")

        with suppress(ConnectionError, ValueError, msgspec.DecodeError, asyncio.IncompleteReadError):
            asked = msgspec.json.decode(await reader.readline(), type=Asked)
            await service.answer(asked, say)
            await asyncio.sleep(0)  # what was said last is written then
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(one, path, limit=_LINE_LIMIT)
    finally:
        os.umask(before)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


def run_hub(
    kit: Path,
    state: Path,
    host: str,
    port: int,
    *,
    metrics: int | None = None,
    connections: int = MOST_CONNECTIONS,
    on_ready: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT."""
    state.mkdir(parents=True, mode=0o700, exist_ok=True)
    check_private_directory(state)
    with _alone(state):
        serving = serve(kit, state, host, port, metrics=metrics, connections=connections, on_ready=on_ready)
        asyncio.run(until_told(serving))


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Refuse to run two hubs in one directory."""
    descriptor = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            f"An aggregator is already up in {state}. Stop it, or name another --state directory."
        ) from None
    else:
        yield
    finally:
        os.close(descriptor)


def ask_status(state: Path) -> Status:
    """As `status`: how the hub in a state directory stands."""
    told = _ask(state, StatusRequest(), lambda _: None)
    if not isinstance(told, Status):
        raise LocalProtocolError("The hub answered something else than it was asked. Use one version of fheval.")
    return told


def ask_round(state: Path, order: Order, on_said: Callable[[Said | Progress], None]) -> Summary:
    """As `evaluate`: have the hub in a state directory carry out an order, and hear how it goes."""
    told = _ask(state, Evaluate(order), on_said)
    if not isinstance(told, Ended):
        raise LocalProtocolError("The hub answered something else than it was asked. Use one version of fheval.")
    return told.end.result()


def _ask(state: Path, asked: Asked, on_said: Callable[[Said | Progress], None]) -> Ended | Status:
    with socket(AF_UNIX, SOCK_STREAM) as connection:
        try:
            connection.connect(str(state / SOCKET))
        except OSError:
            raise ConfigError(
                f"No aggregator is up in {state}. Start one: fheval aggregator up --state {state} …"
            ) from None
        connection.sendall(msgspec.json.encode(asked) + b"\n")
        with connection.makefile("rb") as lines:
            for line in lines:
                told: Told = msgspec.json.decode(line, type=Told)
                if not isinstance(told, (Said, Progress)):
                    return told
                on_said(told)
    raise TransportError("The aggregator stopped before the round ended. Start it and try again.")


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
