"""A thousand members on one hub: a round in bounded memory, fifty in a row without growth, and who vanishes is gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from direct.crowd import STUDY, found, names_of, relay_of
from direct.test_streams import ARRIVAL, PATH
from fheval.aggregator.orders import Order, Summary
from fheval.direct.service import ask_round
from fheval.flower.processes import free_port
from flower.loopback import FHEVAL

pytestmark = pytest.mark.slow

MEMBERS = int(os.environ.get("FHEVAL_CROWD", "1000"))
SHARES = 4
ROUNDS = 50
# FHEVAL_FEW=1000 has all of them take part in every one of the fifty rounds, which takes a quarter of an hour.
FEW = int(os.environ.get("FHEVAL_FEW", "20"))
# A hub holds a round's uploads while it adds them. Measured below 400 MB with a thousand members.
MOST_MEMORY = 1 << 30
# Allocators keep what they once had. Beyond this it would be a leak.
MOST_GROWTH = 32 << 20
MEMORY = Path("/dev/shm")  # noqa: S108 (a random name is made in it)
TESTS = Path(__file__).parents[1]


class Crowd:
    """A hub as a process, and everybody connected to it."""

    def __init__(self, root: Path, hub: subprocess.Popen[bytes], port: int) -> None:
        self.root = root
        self.hub = hub
        self.port = port

    def memory(self, field: str = "VmRSS") -> int:
        for line in Path(f"/proc/{self.hub.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) << 10
        raise AssertionError(field)

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.hub.pid}/fd"))

    def figure(self, name: str) -> float:
        """One of the hub's own figures."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 1}/metrics", timeout=60) as asked:
            lines = asked.read().decode().splitlines()
        return float(dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))[f"fheval_{name}"])

    def connected(self) -> int:
        return int(self.figure("members_connected"))

    def round(self, members: Sequence[str] | None = None, *, begin_anew: bool = False) -> Summary:
        """A round among these, or all; asked as `fheval aggregator evaluate` asks for it."""
        order = Order(
            kit=str(self.root / "hub"),
            members=tuple(members or names_of(MEMBERS)),
            study=STUDY,
            engine=None,
            timeout=300.0,
            patience=20.0,
            begin_anew=begin_anew,
        )
        return ask_round(self.root / "state", order, lambda _: None)


def until(holds: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)


@contextmanager
def process(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is told to end, by its standard input and a signal, when it is needed no more."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)}
    with log.open("wb") as output:
        started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment)
    try:
        yield started
    finally:
        assert started.stdin is not None
        started.stdin.close()
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    """Ledgers are in memory: a thousand on one disk would measure the disk."""
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="fheval-", dir=MEMORY if MEMORY.is_dir() else None)
        root = Path(stack.enter_context(made))
        found(root, MEMBERS)
        port = free_port()
        place = ("--kit", str(root / "hub"), "--state", str(root / "state"), "--port", str(port))
        command = (FHEVAL, "aggregator", "up", *place, "--metrics", str(port + 1))
        hub = stack.enter_context(process(root / "hub.log", *command))
        for share in range(SHARES):
            words = (str(root), f"127.0.0.1:{port}", str(MEMBERS), str(share), str(SHARES))
            stack.enter_context(process(root / f"{share}.log", sys.executable, "-m", "direct.crowd", *words))
        until(lambda: b"Ready for" in (root / "hub.log").read_bytes(), 120)
        made_crowd = Crowd(root, hub, port)
        until(lambda: made_crowd.connected() == MEMBERS, 600)
        yield made_crowd


def show(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with capsys.disabled():
        print(f"\n{words}")


def test_a_round_of_a_thousand_in_bounded_memory(crowd: Crowd, capsys: pytest.CaptureFixture[str]) -> None:
    idle = crowd.memory()
    summary = crowd.round()
    assert len(summary.roster) == MEMBERS
    took, most = summary.seconds["total"], crowd.memory("VmHWM")
    show(
        capsys,
        f"{MEMBERS} members: {took:.1f} s, {1000 * took / MEMBERS:.1f} ms a member, all vaults on this machine; "
        f"the hub has {idle >> 20} MB with all connected, {most >> 20} MB at most",
    )
    assert most < MOST_MEMORY


def test_fifty_rounds_leave_the_hub_as_it_was(crowd: Crowd, capsys: pytest.CaptureFixture[str]) -> None:
    """Among a few, while all stay connected; the first rounds fill caches."""
    few = names_of(MEMBERS)[:FEW]
    for _ in range(5):
        crowd.round(few, begin_anew=True)
    before, files = crowd.memory(), crowd.files()
    for _ in range(ROUNDS):
        crowd.round(few)
    grown = crowd.memory() - before
    show(capsys, f"{ROUNDS} rounds among {FEW} of {MEMBERS}: the hub grew by {grown >> 10} kB")
    assert grown < MOST_GROWTH
    assert crowd.files() <= files + 8
    assert crowd.connected() == MEMBERS


def test_who_comes_and_vanishes_a_thousand_times_leaves_nothing(
    crowd: Crowd, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a goodbye, each time; the member's own relay is the one that stands in the end."""
    name = names_of(MEMBERS)[-1]
    credentials = relay_of(crowd.root, name, f"127.0.0.1:{crowd.port}").credentials()

    async def come_and_go(times: int) -> None:
        for _ in range(times):
            async with grpc.aio.secure_channel(f"127.0.0.1:{crowd.port}", credentials) as channel:
                stream = channel.stream_stream(PATH)()
                await stream.write(ARRIVAL)

    asyncio.run(come_and_go(100))
    time.sleep(2)
    before, files = crowd.memory(), crowd.files()
    asyncio.run(come_and_go(MEMBERS))
    until(lambda: crowd.files() <= files + 8, 60)
    grown = crowd.memory() - before
    show(capsys, f"{MEMBERS} connections that vanished: the hub grew by {grown >> 10} kB")
    assert grown < MOST_GROWTH
    assert crowd.connected() >= MEMBERS - 1
