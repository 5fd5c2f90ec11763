"""What the hub tells: operators at once when something is wrong, `status`, and Prometheus."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from direct.streams import NAMES, Consortium, make_consortium, now
from fheval.consortium import install_policy, transport_files
from fheval.consortium.enrolment import enrol_with_new_keys
from fheval.direct import service
from fheval.direct.service import Status, ask_status, serve
from fheval.errors import ConfigError
from fheval.flower.processes import free_port
from fheval.party.messages import Greeting, Reply, Request
from fheval.protocols.base import Stage
from fheval.wire import decode, encode


def greets(name: str, policy: int) -> Callable[[bytes], bytes]:
    """A vault that says under which policy it is, and nothing else."""

    def handle(data: bytes) -> bytes:
        assert decode(data, Request, sender="hub").stage is Stage.HELLO
        body = encode(Greeting(member=name, consortium="Trial", policy_version=policy, engines=()))
        return encode(Reply(stage=Stage.HELLO, round="", sender=name, body=body, signature=b""))

    return handle


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Consortium]:
    """The hub and alder have policy version 2, birch has version 1, and cedar's vault is down."""
    tmp_path.chmod(0o700)
    consortium = make_consortium(tmp_path)
    consortium.sign()
    signed = consortium.authority.policy_bytes()
    assert signed is not None
    install_policy(tmp_path / "hub", signed, now=now())
    with ExitStack() as stack:
        stack.enter_context(consortium.vault("alder", greets("alder", 2)))
        stack.enter_context(consortium.vault("birch", greets("birch", 1)))
        yield consortium


@asynccontextmanager
async def serving(made: Consortium, metrics: int | None = None) -> AsyncIterator[tuple[Path, int]]:
    state, port, ready = made.root / "state", free_port(), asyncio.Event()
    state.mkdir(mode=0o700)
    task = asyncio.create_task(serve(made.root / "hub", state, "127.0.0.1", port, metrics=metrics, on_ready=ready.set))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({task, waiting}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield state, port
    finally:
        task.cancel()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def told(made: Consortium, name: str, words: str) -> bool:
    return any(words in line for line in made.said.get(name, ()))


def test_a_member_is_told_at_once_what_will_not_work(made: Consortium) -> None:
    async def play() -> Status:
        async with serving(made) as (state, port), made.relays(port):
            await until(lambda: told(made, "birch", "policy version 1, and the hub has 2"))
            await until(lambda: told(made, "cedar", "does not answer"))
            return await asyncio.to_thread(ask_status, state)

    found = asyncio.run(play())
    assert {each.member: each.policy for each in found.members} == {"alder": 2, "birch": 1, "cedar": None}
    assert all(each.since is not None and each.clock is not None for each in found.members)
    assert not told(made, "alder", "The hub says")


def test_a_new_policy_holds_as_soon_as_it_is_in_the_hubs_kit(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for a round: who was removed is out, who has new keys is in, who lacks the policy hears of it."""
    monkeypatch.setattr(service, "_LOOK_SECONDS", 0.1)
    for name in ("hazel", "birch"):
        enrol_with_new_keys(made.authority, name, made.root / f"new-{name}", renew=name == "birch", now=now(), days=2)
    renewed = transport_files(made.root / "new-birch" / "transport")

    def connected(state: Path) -> set[str]:
        return {each.member for each in ask_status(state).members if each.since is not None}

    async def play() -> int:
        async with serving(made) as (state, port), made.relays(port, ("alder", "cedar")):
            relay = asyncio.create_task(made.relay("birch", port, files=renewed).run())
            await until(lambda: any("no member with this key" in line for line in made.said["birch"]))
            made.sign(remove=["cedar"])
            signed = made.authority.policy_bytes()
            assert signed is not None
            install_policy(made.root / "hub", signed, now=now())
            while await asyncio.to_thread(connected, state) != {"alder", "birch"}:
                await asyncio.sleep(0.1)
            await until(lambda: told(made, "alder", "policy version 2, and the hub has 3"))
            relay.cancel()
            return (await asyncio.to_thread(ask_status, state)).policy

    assert asyncio.run(asyncio.wait_for(play(), 60)) == 3
    assert told(made, "cedar", "does not list this member")


def test_a_kit_that_was_damaged_leaves_the_hub_as_it_was(
    made: Consortium, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "_LOOK_SECONDS", 0.05)

    async def play() -> int:
        async with serving(made) as (state, port), made.relays(port, ("alder",)):
            (made.root / "hub" / "policy.fhev").write_bytes(b"nonsense")
            await until(lambda: "The kit was not read again" in caplog.text)
            await asyncio.sleep(0.5)
            return (await asyncio.to_thread(ask_status, state)).policy

    assert asyncio.run(play()) == 2
    assert caplog.text.count("The kit was not read again") == 1


def test_a_vault_that_says_nonsense_is_one_that_does_not_answer(made: Consortium) -> None:
    async def play() -> Status:
        async with serving(made) as (state, port), made.relays(port, ("cedar",)):
            await until(lambda: bool(made.said.get("cedar")))
            return await asyncio.to_thread(ask_status, state)

    with made.vault("cedar", lambda _: b"nonsense"):
        found = asyncio.run(play())
    assert {each.member: each.policy for each in found.members}["cedar"] is None


def test_status_does_not_wait_for_a_vault_that_hangs(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_STATUS_SECONDS", 0.3)

    def hang(_: bytes) -> bytes:
        time.sleep(2)
        return b""

    async def play() -> float:
        async with serving(made) as (state, port), made.relays(port, ("cedar",)):
            await until(lambda: bool(made.said.get("cedar")))
            began = time.monotonic()
            await asyncio.to_thread(ask_status, state)
            return time.monotonic() - began

    with made.vault("cedar", hang):
        assert asyncio.run(play()) < 1.9


def fetched(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_prometheus_reads_the_figures(made: Consortium) -> None:
    async def play() -> str:
        metrics = free_port()
        async with serving(made, metrics) as (_, port), made.relays(port, NAMES[:2]):
            await until(lambda: all(made.said.get(name) for name in NAMES[:2]))
            return await asyncio.to_thread(fetched, metrics)

    lines = asyncio.run(play()).splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert (values["fheval_members"], values["fheval_members_connected"]) == ("3", "2")
    assert (values["fheval_policy_version"], values["fheval_rounds_completed_total"]) == ("2", "0")
    assert len(lines) == 3 * len(values)
    for name in values:
        assert f"# TYPE {name} " in "\n".join(lines)


def test_a_taken_port_for_metrics_is_named(made: Consortium) -> None:
    async def play(metrics: int) -> None:
        async with serving(made, metrics):
            (made.root / "state").rename(made.root / "first")
            async with serving(made, metrics):
                pass

    with pytest.raises(ConfigError, match="cannot be listened on for metrics"):
        asyncio.run(play(free_port()))


def test_fewer_connections_than_members_are_refused_at_once(made: Consortium) -> None:
    with pytest.raises(ConfigError, match="--connections 2 has no room for the policy's 3 members"):
        asyncio.run(serve(made.root / "hub", made.root / "state", "127.0.0.1", 0, connections=2, on_ready=lambda: None))


def test_a_system_that_grants_too_few_files_for_the_members_is_told_of(
    made: Consortium, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "allow_files", lambda _: 2)

    async def play() -> None:
        async with serving(made):
            pass

    asyncio.run(play())
    assert "files for 2 connections, and the policy lists 3 members" in caplog.text
