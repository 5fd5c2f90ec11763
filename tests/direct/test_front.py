"""Idle connections before TLS cost the hub nothing that members need."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from direct.streams import NAMES, Consortium, make_consortium
from fheval.direct import front
from fheval.direct.front import Front, reserved, standing_before
from fheval.errors import ConfigError


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Consortium]:
    tmp_path.chmod(0o700)
    consortium = make_consortium(tmp_path)
    with ExitStack() as stack:
        for name in NAMES:
            stack.enter_context(consortium.vault(name))
        yield consortium


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """Holds sockets until the end of a test."""
    with ExitStack() as stack:
        yield stack


async def crowd(held: ExitStack, port: int, count: int, words: bytes = b"") -> list[socket.socket]:
    """So many connections that say this, and then nothing."""
    loop, made = asyncio.get_running_loop(), []
    for _ in range(count):
        idle = held.enter_context(socket.socket())
        idle.setblocking(False)
        await loop.sock_connect(idle, ("127.0.0.1", port))
        await loop.sock_sendall(idle, words)
        made.append(idle)
    return made


@pytest.mark.parametrize("words", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_members_come_through_a_crowd(
    made: Consortium, monkeypatch: pytest.MonkeyPatch, held: ExitStack, words: bytes
) -> None:
    monkeypatch.setattr(front, "MOST_YOUNG", 20)

    async def play() -> dict[str, bytes]:
        async with made.hub() as (hub, port):
            await crowd(held, port, 100, words)
            async with made.relays(port):
                assert await hub.present(frozenset(NAMES), 30) == sorted(NAMES)
                assert all(stream.peer.startswith("127.0.0.1:") for stream in hub.streams.values())
                return await hub.exchange(made.exchange(), 10)

    assert sorted(asyncio.run(play())) == sorted(NAMES)


async def alive(connections: list[socket.socket]) -> int:
    """How many have not been hung up on."""
    await asyncio.sleep(0.3)
    found = 0
    for each in connections:
        try:
            each.recv(1)
        except BlockingIOError:
            found += 1
        except OSError:
            pass
    return found


def test_only_so_many_are_kept_and_none_for_long(monkeypatch: pytest.MonkeyPatch, held: ExitStack) -> None:
    monkeypatch.setattr(front, "MOST_YOUNG", 20)
    monkeypatch.setattr(front, "FIRST_WORD_SECONDS", 1.5)

    async def play() -> tuple[int, int]:
        outside = reserved("127.0.0.1", 0)
        async with standing_before(Front(("127.0.0.1", 1)), outside):
            idle = await crowd(held, outside.getsockname()[1], 60)
            at_once = await alive(idle)
            await asyncio.sleep(2.0)
            return at_once, await alive(idle)

    assert asyncio.run(play()) == (20, 0)


def test_who_has_most_loses_first(monkeypatch: pytest.MonkeyPatch, held: ExitStack) -> None:
    """A member's single connection is not hung up on because somebody else has many."""
    monkeypatch.setattr(front, "MOST_YOUNG", 20)

    async def play() -> tuple[int, int]:
        outside = reserved("127.0.0.1", 0)
        async with standing_before(Front(("127.0.0.1", 1)), outside):
            port = outside.getsockname()[1]
            member = held.enter_context(socket.socket())
            member.bind(("127.0.0.2", 0))
            member.setblocking(False)
            await asyncio.get_running_loop().sock_connect(member, ("127.0.0.1", port))
            idle = await crowd(held, port, 60)
            return await alive([member]), await alive(idle)

    assert asyncio.run(play()) == (1, 19)


def test_who_was_admitted_long_ago_goes_when_there_are_too_many(held: ExitStack) -> None:
    """However old they are: no more than so many are kept."""

    async def play() -> int:
        outside = reserved("127.0.0.1", 0)
        async with standing_before(Front(("127.0.0.1", 1), most=30), outside):
            return await alive(await crowd(held, outside.getsockname()[1], 60))

    assert asyncio.run(play()) == 30


@pytest.mark.parametrize(("hard", "connections"), [(1112, 200), (500, 1), (1_000, 162), (20_000, 200)])
def test_files_for_as_many_connections_as_the_system_grants(
    monkeypatch: pytest.MonkeyPatch, hard: int, connections: int
) -> None:
    """200 take 600 files, and 512 are for all else."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, hard))
    monkeypatch.setattr("resource.setrlimit", lambda _, limits: given.append(limits))
    assert front.allow_files(200) == connections
    assert given == [(min(hard, 1112), hard)]


def test_a_system_without_files_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> bytes:
        inside = await asyncio.start_server(echo, "127.0.0.1", 0)
        loop, outside = asyncio.get_running_loop(), reserved("127.0.0.1", 0)
        take, failures = loop.sock_accept, [3]

        async def sometimes(listener: socket.socket) -> tuple[socket.socket, object]:
            if failures[0]:
                failures[0] -= 1
                raise OSError(24, "Too many open files")
            return await take(listener)

        monkeypatch.setattr(loop, "sock_accept", sometimes)
        async with standing_before(Front(inside.sockets[0].getsockname()), outside):
            reader, writer = await asyncio.open_connection(*outside.getsockname())
            writer.write(b"\x16 hello")
            found = await asyncio.wait_for(reader.readexactly(7), 20)
            writer.close()
        inside.close()
        return found

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    assert asyncio.run(play()) == b"\x16 hello"


def test_an_address_that_is_taken() -> None:
    with reserved("127.0.0.1", 0) as taken:
        host, port = taken.getsockname()
        with pytest.raises(ConfigError, match=f"{host}:{port} cannot be listened on"):
            reserved(host, port)


@pytest.mark.parametrize("admitting", [True, False])
def test_members_that_were_admitted_do_not_push_each_other_out(
    made: Consortium, monkeypatch: pytest.MonkeyPatch, held: ExitStack, admitting: bool
) -> None:
    """As when all come back after a restart: a crowd that comes later does not cost them their places."""
    monkeypatch.setattr(front, "MOST_YOUNG", 4)
    if not admitting:
        # The guard taken out: connections stay young for their first seconds, whoever they are from.
        monkeypatch.setattr(front, "_grow_up", lambda _connection: None)

    async def play() -> int:
        async with made.hub() as (hub, port), made.relays(port):
            assert await hub.present(frozenset(NAMES), 30) == sorted(NAMES)
            before = hub.arrivals
            await crowd(held, port, 40)
            await asyncio.sleep(1.0)
            return hub.arrivals - before + len(NAMES) - len(hub.streams)

    assert (asyncio.run(play()) == 0) == admitting
