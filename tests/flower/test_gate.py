"""The gate passes SuperNodes' calls on and nothing else, however a request is written."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import pytest

from fheval.direct.front import reserved
from fheval.errors import ConfigError
from fheval.flower import gate
from fheval.flower.gate import opened_gate
from fheval.flower.processes import free_port
from fheval.flower.state import State

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
# The last words of each answer there is.
ENDS = (b"hello", b"calls of SuperNodes.\n", b"does not answer.\n")
CALL = b"POST /v1/fleet/pull-messages HTTP/1.1\r\nhost: hub\r\ncontent-length: 3\r\n\r\nabc"


@dataclass
class Inside:
    """Stands where SuperLink stands: notes what reaches it, and answers everything alike."""

    answer: bytes = ANSWER
    seen: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(3) if b"content-length: 3" in head.lower() else b""
        self.seen.append(head + body)
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@dataclass
class Setting:
    inside: Inside
    port: int
    state: State

    async def ask(self, request: bytes, *, answers: int = 1) -> bytes:
        trusted = ssl.create_default_context(cafile=self.state.inside_authority)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trusted)
        writer.write(request)
        answer = b""
        while sum(map(answer.count, ENDS)) < answers and (data := await asyncio.wait_for(reader.read(1 << 16), 10)):
            answer += data
        writer.close()
        return answer


@asynccontextmanager
async def setting(state: State, inside: Inside, *, listening: bool = True) -> AsyncIterator[Setting]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(state.inside_certificate, state.inside_key)
    inner = free_port()
    server = await asyncio.start_server(inside.serve, "127.0.0.1", inner, ssl=tls) if listening else None
    with reserved("127.0.0.1", 0) as outside:
        async with opened_gate(
            outside,
            certificate=state.inside_certificate,
            key=state.inside_key,
            inside=("127.0.0.1", inner),
            inside_authority=state.inside_authority,
        ):
            yield Setting(inside, outside.getsockname()[1], state)
    if server is not None:
        server.close()


@pytest.fixture
def state(tmp_path: Path) -> State:
    made = State.at(tmp_path / "state")
    made.renew_inside(now=datetime.now(timezone.utc))
    return made


@pytest.fixture
def run(state: State) -> Callable[[Callable[[Setting], Coroutine[None, None, None]]], None]:
    def run_in_setting(
        test: Callable[[Setting], Coroutine[None, None, None]], *, answer: bytes = ANSWER, listening: bool = True
    ) -> None:
        async def body() -> None:
            async with setting(state, Inside(answer), listening=listening) as made:
                await test(made)

        asyncio.run(asyncio.wait_for(body(), 30))

    return run_in_setting


def test_a_call_of_a_supernode_is_passed_whole(run: Callable[..., None]) -> None:
    async def check(here: Setting) -> None:
        answer = await here.ask(CALL)
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"hello")
        (seen,) = here.inside.seen
        assert seen.startswith(b"POST /v1/fleet/pull-messages HTTP/1.1\r\n")
        assert seen.endswith(b"\r\n\r\nabc")

    run(check)


def test_two_calls_on_one_connection(run: Callable[..., None]) -> None:
    async def check(here: Setting) -> None:
        answer = await here.ask(CALL + CALL, answers=2)
        assert answer.count(b"HTTP/1.1 200") == 2
        assert len(here.inside.seen) == 2

    run(check)


def test_an_answer_in_chunks(run: Callable[..., None]) -> None:
    async def check(here: Setting) -> None:
        assert b"hello" in await here.ask(CALL)

    run(check, answer=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "start",
    [
        b"POST /v1/control/start-run HTTP/1.1",
        b"POST /v1/runtime/acquire-task HTTP/1.1",
        b"GET /health HTTP/1.1",
        b"GET /docs HTTP/1.1",
        b"GET /v1/fleet/pull-messages HTTP/1.1",
        b"POST /v1/fleet/../control/start-run HTTP/1.1",
        b"POST /v1/fleet/%2e%2e/control/start-run HTTP/1.1",
        b"POST /v1/fleet/../control/start-run?/v1/fleet/a HTTP/1.1",
        b"POST //v1/fleet/pull-messages HTTP/1.1",
        b"POST /v1/fleet/pull-messages?x=1 HTTP/1.1",
        b"POST /v1/fleet/ HTTP/1.1",
        b"POST https://127.0.0.1/v1/control/start-run HTTP/1.1",
        b"CONNECT 127.0.0.1:22 HTTP/1.1",
        b"POST /V1/CONTROL/start-run HTTP/1.1",
    ],
)
def test_nothing_else_gets_in(run: Callable[..., None], start: bytes) -> None:
    async def check(here: Setting) -> None:
        answer = await here.ask(start + b"\r\nhost: hub\r\ncontent-length: 0\r\n\r\n")
        assert b" 200" not in answer
        assert here.inside.seen == []

    run(check)


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /v1/fleet/get-fab HTTP/1.1\r\nhost: hub\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"POST /v1/fleet/get-fab HTTP/1.1\r\nhost: hub\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/fleet/get-fab HTTP/1.1\r\nhost: hub\r\ntransfer-encoding: identity\r\n\r\n",
        b"POST /v1/fleet/get-fab HTTP/1.1\r\nx: " + b"a" * 40_000 + b"\r\n\r\n",
        b"\x16\x03\x01 not HTTP at all\r\n\r\n",
    ],
    ids=["two lengths", "negative length", "unknown coding", "huge header", "noise"],
)
def test_a_request_that_can_be_read_in_two_ways_ends_the_connection(run: Callable[..., None], request_: bytes) -> None:
    async def check(here: Setting) -> None:
        assert b" 200" not in await here.ask(request_)
        assert here.inside.seen == []

    run(check)


def test_a_second_request_behind_a_passed_one_is_looked_at_as_well(run: Callable[..., None]) -> None:
    async def check(here: Setting) -> None:
        hidden = b"POST /v1/control/start-run HTTP/1.1\r\nhost: hub\r\ncontent-length: 3\r\n\r\nabc"
        answer = await here.ask(CALL + hidden, answers=2)
        assert b"HTTP/1.1 404" in answer
        assert len(here.inside.seen) == 1

    run(check)


def test_a_body_that_is_too_large_is_cut_off(run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_BODY_BYTES", 2)

    async def check(here: Setting) -> None:
        assert b" 200" not in await here.ask(CALL)

    run(check)


def test_a_superlink_that_is_away_is_a_reason_to_try_again(run: Callable[..., None]) -> None:
    async def check(here: Setting) -> None:
        assert (await here.ask(CALL)).startswith(b"HTTP/1.1 503")

    run(check, listening=False)


def test_connections_beyond_the_limit_are_closed(run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_CONNECTIONS", 0)

    async def check(here: Setting) -> None:
        assert await here.ask(CALL) == b""
        assert here.inside.seen == []

    run(check)


def test_a_silent_connection_does_not_stay(run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_STEP_SECONDS", 0.3)

    async def check(here: Setting) -> None:
        assert await here.ask(b"POST /v1/fleet/get-fab HTTP/1.1\r\n") == b""

    run(check)


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "not an address"])
def test_an_address_that_cannot_be_had_is_refused_in_a_sentence(host: str) -> None:
    with reserved("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"{host}:{port} cannot be listened on"), reserved(host, port):
            raise AssertionError
