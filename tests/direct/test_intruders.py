"""Strangers, impostors and members that misbehave, while a round goes on: it ends with the right result. `make e2e`.

Each of them is tried by itself, without a round, in `test_streams`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography.hazmat.primitives import serialization

from direct.streams import now
from direct.test_streams import ARRIVAL, PATH, attempt, credentials
from fheval.consortium import TransportFiles
from fheval.consortium.authority import create_authority, load_authority
from fheval.consortium.member_keys import TRANSPORT_DIRECTORY, TRANSPORT_KEY, MemberKeys
from fheval.direct.frames import Answer, Request, ToHub, ToRelay, read_frame
from fheval.direct.service import ask_status
from fheval.party.client import ask
from fheval.wire import encode
from flower.loopback import Loopback, consortium, run, summary_of

pytestmark = pytest.mark.slow

HONEST = ("alder", "birch", "cedar")
# Elm is a member whose relay is not ours; hazel was one.
MEMBERS = (*HONEST, "elm", "hazel")
POINTS = 100
STUDY = f'grid = "even"\ndecision_points = {POINTS}\nrounds = 100\n'
# A checker is sent a megabyte of keys. The other study has had rounds without elm, which would be left out of it; that
# one who does not read more than connections hold is cut off is in `test_streams`.
STUDIES = {"watched": STUDY, "checked": STUDY + 'checkers = ["elm"]\n'}
MIB = 1 << 20

Misbehaviour = Callable[[Loopback], Awaitable[object]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    with consortium(tmp_path_factory.mktemp("i"), MEMBERS, STUDIES, transport="direct") as made:
        for name in ("elm", "hazel"):
            made.programs[f"party-{name}"].stop()
        authority = str(made.root / "authority")
        run("consortium", "policy", authority, "--remove", "hazel")
        for name in HONEST:
            made.programs[f"vault-{name}"].stop()
            made.start_vault(name).wait_for("listens on", times=2)
        yield made


def files_of(running: Loopback, name: str) -> TransportFiles:
    folder = running.kit(name) / TRANSPORT_DIRECTORY
    return TransportFiles(
        key=folder / TRANSPORT_KEY, certificate=folder / "certificate.pem", authority=folder / "authority.pem"
    )


def certified(running: Loopback, name: str, *, issuer: Any, since: timedelta = timedelta()) -> grpc.ChannelCredentials:
    """Another key in a member's name, certified for a day from then on; the hub is believed to be the hub."""
    keys = MemberKeys.generate()
    certificate = issuer.transport(name, keys.supernode.reveal().public_key(), now=now() - since, days=1)
    key = keys.supernode.reveal().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM)
    return grpc.ssl_channel_credentials(files_of(running, name).authority.read_bytes(), key, shown)


async def a_stranger(running: Loopback) -> object:
    folder = running.root / "other"
    if not folder.exists():
        create_authority(folder, "Other", now=now() - timedelta(days=1))
    issuer = load_authority(folder).issuer(now=now())
    return await attempt(running.port, certified(running, "alder", issuer=issuer))


async def an_expired_certificate(running: Loopback) -> object:
    issuer = load_authority(running.root / "authority").issuer(now=now())
    return await attempt(running.port, certified(running, "alder", issuer=issuer, since=timedelta(days=3)))


async def anothers_name(running: Loopback) -> object:
    issuer = load_authority(running.root / "authority").issuer(now=now())
    return await attempt(running.port, certified(running, "alder", issuer=issuer))


async def a_removed_member(running: Loopback) -> object:
    return await attempt(running.port, credentials(files_of(running, "hazel")))


async def a_plaintext_client(running: Loopback) -> object:
    return await attempt(running.port, None)


@contextmanager
def quiet() -> Iterator[None]:
    with suppress(grpc.aio.AioRpcError, asyncio.TimeoutError, asyncio.InvalidStateError):
        yield


def channel_of(running: Loopback) -> grpc.aio.Channel:
    """A connection with elm's own key."""
    options = [("grpc.max_send_message_length", -1)]
    chosen = credentials(files_of(running, "elm"))
    return grpc.aio.secure_channel(f"127.0.0.1:{running.port}", chosen, options=options)


async def a_half_open_stream(running: Loopback) -> object:
    async with channel_of(running) as channel:
        stream = channel.stream_stream(PATH)()
        with quiet():
            await asyncio.wait_for(stream.read(), 1)
    return None


async def a_message_of_65_mib(running: Loopback) -> object:
    async with channel_of(running) as channel:
        stream = channel.stream_stream(PATH)()
        with quiet():
            await stream.write(ARRIVAL)
            await asyncio.wait_for(stream.write(bytes(65 * MIB)), 30)
            while await asyncio.wait_for(stream.read(), 30) is not grpc.aio.EOF:
                pass
        return await asyncio.wait_for(stream.code(), 30)


TURNED_DOWN = [
    (a_stranger, grpc.StatusCode.UNAVAILABLE),
    (an_expired_certificate, grpc.StatusCode.UNAVAILABLE),
    (anothers_name, grpc.StatusCode.PERMISSION_DENIED),
    (a_removed_member, grpc.StatusCode.PERMISSION_DENIED),
    (a_plaintext_client, grpc.StatusCode.UNAVAILABLE),
    (a_half_open_stream, None),
    (a_message_of_65_mib, grpc.StatusCode.RESOURCE_EXHAUSTED),
]


class Intruder:
    """Misbehaves again and again in a thread, until told to stop, and notes how it was turned down."""

    def __init__(self, running: Loopback, misbehave: Misbehaviour) -> None:
        self.found: list[object] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._go_on(running, misbehave),))
        self._thread.start()

    async def _go_on(self, running: Loopback, misbehave: Misbehaviour) -> None:
        while not self._done.is_set():
            self.found.append(await misbehave(running))

    def stop(self) -> None:
        self._done.set()
        self._thread.join()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def require_right(running: Loopback, summary: dict[str, Any], before: int) -> None:
    assert sorted(summary["roster"]) == sorted(summary["confirmed"]) == sorted(HONEST)
    truth = running.pooled(HONEST, decision_points=POINTS)
    for name in HONEST:
        rounds = running.rounds(name)
        assert len(rounds) == before + 1
        assert rounds[-1]["round"] == summary["round"]
        assert rounds[-1]["auc"] == pytest.approx(truth, abs=1e-4)


@pytest.mark.parametrize(("misbehave", "status"), TURNED_DOWN, ids=lambda each: getattr(each, "__name__", ""))
def test_the_round_goes_on(running: Loopback, misbehave: Misbehaviour, status: grpc.StatusCode | None) -> None:
    """A vault stands still, so that the round waits for it, until the intruder was turned down; then it goes on."""
    before, vault = len(running.rounds("alder")), running.programs["vault-cedar"]
    vault.pause()
    try:
        members = [word for name in HONEST for word in ("--member", name)]
        asked = running.ask("--study", "watched", *members)
        until(lambda: ask_status(running.root / "state").running)
        intruder = Intruder(running, misbehave)
        try:
            until(lambda: len(intruder.found) >= 2)
            assert ask_status(running.root / "state").running
            vault.resume()
            summary = summary_of(asked)
        finally:
            intruder.stop()
    finally:
        vault.resume()
    require_right(running, summary, before)
    assert set(intruder.found) == {status}


async def read_until_keys_come(running: Loopback, stopped: threading.Event) -> None:
    """Elm's relay, which answers who is there, on arrival and in the round, and reads nothing afterwards."""
    vault = running.kit("elm") / "vault" / "vault.sock"
    async with channel_of(running) as channel:
        stream = channel.stream_stream(PATH)()
        await stream.write(ARRIVAL)
        answered = 0
        while answered < 2:
            frame = read_frame(await stream.read(), ToRelay, "hub").content
            if isinstance(frame, Request):
                body = ask(vault, bytes(frame.body))
                await stream.write(encode(ToHub(content=Answer(number=frame.number, body=body))))
                answered += 1
        stopped.set()
        await asyncio.sleep(3600)


def test_a_slow_reader_is_left_behind(running: Loopback) -> None:
    before, stopped, ended = len(running.rounds("alder")), threading.Event(), threading.Event()

    async def read_slowly() -> None:
        reading = asyncio.create_task(read_until_keys_come(running, stopped))
        await asyncio.to_thread(ended.wait)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading

    thread = threading.Thread(target=asyncio.run, args=(read_slowly(),))
    thread.start()
    try:
        everybody = [word for name in (*HONEST, "elm") for word in ("--member", name)]
        summary = running.evaluate("--study", "checked", *everybody, "--timeout", "6", "--patience", "30")
    finally:
        ended.set()
        thread.join()
    assert stopped.is_set()
    assert summary["dropouts"] == ["elm"]
    require_right(running, summary, before)
