"""Who gets in, who is cut off, and what an exchange does when streams break."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from direct.streams import NAMES, Consortium, make_consortium, now
from fheval.aggregator.orders import owed_file
from fheval.aggregator.owed import Owed
from fheval.consortium.certificates import common_name
from fheval.consortium.member_keys import MemberKeys
from fheval.direct import relay
from fheval.direct.frames import (
    CHANNEL_OPTIONS,
    FRAME_LIMIT,
    METHOD,
    SERVICE,
    Answer,
    Arrival,
    Notice,
    ToHub,
    ToRelay,
    read_frame,
)
from fheval.direct.service import Service
from fheval.errors import ConfigError, TransportError
from fheval.party.messages import Reply
from fheval.protocols.base import Stage
from fheval.wire import encode

pytestmark = pytest.mark.slow

PATH = f"/{SERVICE}/{METHOD}"
ARRIVAL = encode(ToHub(content=Arrival(fheval="test", clock=0.0)))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Consortium]:
    tmp_path.chmod(0o700)
    consortium = make_consortium(tmp_path)
    with ExitStack() as stack:
        for name in NAMES:
            stack.enter_context(consortium.vault(name))
        yield consortium


def asked(answers: dict[str, bytes]) -> list[str]:
    return sorted(answers)


def test_an_exchange_reaches_every_vault(made: Consortium) -> None:
    async def play() -> dict[str, bytes]:
        async with made.hub() as (hub, port), made.relays(port):
            assert await hub.present(frozenset(NAMES), 10) == sorted(NAMES)
            return await hub.exchange(made.exchange(), 10)

    assert asyncio.run(play()) == {name: f"{name}:hello".encode() for name in NAMES}
    assert any("Connected" in line for line in made.said["alder"])


def test_a_member_that_comes_late_is_asked(made: Consortium) -> None:
    async def play() -> dict[str, bytes]:
        async with made.hub() as (hub, port), made.relays(port, NAMES[:2]):
            late = asyncio.create_task(hub.exchange(made.exchange(), 20))
            await asyncio.sleep(0.3)
            assert not late.done()
            async with made.relays(port, NAMES[2:]):
                return await late

    assert asked(asyncio.run(play())) == sorted(NAMES)


def test_a_member_whose_stream_breaks_is_asked_again(tmp_path: Path) -> None:
    """The reply is lost with the stream; the same bytes go out again when the member is back."""
    tmp_path.chmod(0o700)
    made = make_consortium(tmp_path)
    heard: list[bytes] = []
    broken = threading.Event()

    def handle(data: bytes) -> bytes:
        heard.append(data)
        broken.wait(10)
        return b"answer"

    async def play() -> dict[str, bytes]:
        async with made.hub() as (hub, port), made.relays(port, NAMES[:1]):
            await hub.present(frozenset(NAMES[:1]), 10)
            late = asyncio.create_task(hub.exchange(made.exchange(names=NAMES[:1]), 20))
            while not heard:
                await asyncio.sleep(0.01)
            hub.streams["alder"].ended.set()
            broken.set()
            return await late

    with made.vault("alder", handle):
        assert asyncio.run(play()) == {"alder": b"answer"}
    assert heard == [b"hello", b"hello"]


def test_a_vault_that_comes_late_is_asked_again(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    made = make_consortium(tmp_path)

    async def play() -> dict[str, bytes]:
        async with made.hub() as (hub, port), made.relays(port, NAMES[:1]):
            late = asyncio.create_task(hub.exchange(made.exchange(names=NAMES[:1]), 20))
            await asyncio.sleep(0.7)
            with made.vault("alder"):
                return await late

    assert asked(asyncio.run(play())) == ["alder"]
    assert any("No vault answers" in line for line in made.said["alder"])


def test_answers_that_come_all_at_once_are_sent_one_by_one(made: Consortium) -> None:
    """As from a vault that stood still for a while; gRPC breaks a stream on which two are sent at a time."""

    async def play() -> list[bytes | None]:
        async with made.hub() as (hub, port), made.relays(port, NAMES[:1]):
            await hub.present(frozenset(NAMES[:1]), 10)
            asking = (hub.streams["alder"].ask(bytes(size)) for size in range(1 << 20, (1 << 20) + 20))
            return await asyncio.wait_for(asyncio.gather(*asking), 30)

    assert [len(answer or b"") for answer in asyncio.run(play())] == [len(b"alder:") + (1 << 20) + n for n in range(20)]


def test_who_does_not_answer_in_time_is_missing(made: Consortium) -> None:
    async def play() -> tuple[dict[str, bytes], float]:
        async with made.hub() as (hub, port), made.relays(port, NAMES[:2]):
            await hub.present(frozenset(NAMES[:2]), 10)
            began = time.monotonic()
            return await hub.exchange(made.exchange(), 1.0), time.monotonic() - began

    replies, took = asyncio.run(play())
    assert asked(replies) == sorted(NAMES[:2])
    assert took < 5


def test_a_newer_stream_replaces_the_older_and_both_are_told(made: Consortium) -> None:
    async def play() -> dict[str, bytes]:
        async with made.hub() as (hub, port), made.relays(port):
            await hub.present(frozenset(NAMES), 10)
            second = asyncio.create_task(made.relay("alder", port).run())
            while not any("replaced" in line for line in made.said["alder"]):
                await asyncio.sleep(0.05)
            replies = await hub.exchange(made.exchange(), 10)
            second.cancel()
            return replies

    assert asked(asyncio.run(play())) == sorted(NAMES)
    assert any("takes over" in line for line in made.said["alder"])


def test_the_older_relay_stops_instead_of_fighting(made: Consortium) -> None:
    async def play() -> None:
        async with made.hub() as (hub, port):
            first = asyncio.create_task(made.relay("alder", port).run())
            await hub.present(frozenset({"alder"}), 10)
            second = asyncio.create_task(made.relay("alder", port).run())
            with pytest.raises(TransportError, match="takes over"):
                await asyncio.wait_for(first, 10)
            second.cancel()

    asyncio.run(play())


# Who does not get in


def credentials(files: Any, key: bytes | None = None) -> grpc.ChannelCredentials:
    from fheval.consortium.member_keys import read_transport_key_pem

    pem = key or read_transport_key_pem(files.key).reveal()
    return grpc.ssl_channel_credentials(files.authority.read_bytes(), pem, files.certificate.read_bytes())


async def attempt(port: int, chosen: grpc.ChannelCredentials | None) -> grpc.StatusCode | None:
    """Connect and say who we are; how it was turned down, or None where the stream stands."""
    address = f"127.0.0.1:{port}"
    channel = grpc.aio.insecure_channel(address) if chosen is None else grpc.aio.secure_channel(address, chosen)
    async with channel:
        stream = channel.stream_stream(PATH)()
        # Who is turned away at once hears why only while it reads: a write that fails would say less.
        reading = asyncio.ensure_future(stream.read())
        try:
            if not (await asyncio.wait({reading}, timeout=0.3))[0]:
                await asyncio.wait_for(stream.write(ARRIVAL), 5)
            await asyncio.wait_for(reading, 1.5)
        except grpc.aio.AioRpcError as error:
            return error.code()
        except (asyncio.TimeoutError, asyncio.InvalidStateError):
            return None if not stream.done() else await stream.code()
        return await stream.code() if stream.done() else None


def turned_down(made: Consortium, chosen: grpc.ChannelCredentials | None) -> grpc.StatusCode | None:
    async def play() -> grpc.StatusCode | None:
        async with made.hub() as (hub, port), made.relays(port, NAMES[1:]):
            await hub.present(frozenset(NAMES[1:]), 10)
            code = await attempt(port, chosen)
            # The others go on.
            assert asked(await hub.exchange(made.exchange(names=NAMES[1:]), 10)) == sorted(NAMES[1:])
            return code

    return asyncio.run(play())


def test_a_member_gets_in(made: Consortium) -> None:
    assert turned_down(made, credentials(made.files("alder"))) is None


def test_a_stranger_is_turned_down_by_tls(made: Consortium, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    stranger = make_consortium(other)
    files = replace(stranger.files("alder"), authority=made.files("alder").authority)
    assert turned_down(made, credentials(files)) is grpc.StatusCode.UNAVAILABLE


def test_a_client_without_a_certificate_or_tls_is_turned_down(made: Consortium) -> None:
    bare = grpc.ssl_channel_credentials(made.files("alder").authority.read_bytes())
    assert turned_down(made, bare) is grpc.StatusCode.UNAVAILABLE
    assert turned_down(made, None) is grpc.StatusCode.UNAVAILABLE


def told_to_a_stranger(port: int, first: bytes, trusting: ssl.SSLContext | None) -> tuple[bytes, bytes | None]:
    """What comes back for the first bytes that somebody sends, and the certificate that is shown in TLS."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        connection = plain if trusting is None else trusting.wrap_socket(plain)
        with connection:
            shown = connection.getpeercert(binary_form=True) if isinstance(connection, ssl.SSLSocket) else None
            heard = b""
            with suppress(OSError):
                connection.sendall(first)
                while part := connection.recv(1 << 16):
                    heard += part
            return heard, shown


def test_all_that_a_stranger_sees_is_the_hubs_certificate(made: Consortium) -> None:
    """It has the hub's names and the consortium's, and no member's."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    trusting = ssl.create_default_context(cafile=made.files("alder").authority)
    trusting.check_hostname = False
    trusting.set_alpn_protocols(["h2"])

    async def play() -> list[tuple[bytes, bytes | None]]:
        async with made.hub() as (_, port):
            asked_in = [(b"GET / HTTP/1.1\r\n\r\n", None), (preface, None), (b"\x16\x03", None), (preface, trusting)]
            return [await asyncio.to_thread(told_to_a_stranger, port, *each) for each in asked_in]

    told = asyncio.run(play())
    assert [heard for heard, _ in told] == [b""] * 4
    shown = x509.load_der_x509_certificate(told[-1][1] or b"")
    assert (common_name(shown), shown.issuer.rfc4514_string()) == ("hub", "CN=Trial")
    assert not any(name.encode() in shown.public_bytes(serialization.Encoding.DER) for name in NAMES)


def test_an_expired_certificate_is_turned_down(made: Consortium) -> None:
    keys = MemberKeys.generate()
    past = now() - timedelta(days=3)
    expired = made.authority.issuer(now=now()).transport(
        "alder", keys.supernode.reveal().public_key(), now=past, days=1
    )
    files = made.files("alder")
    files.certificate.write_bytes(expired.public_bytes(serialization.Encoding.PEM))
    key = keys.supernode.reveal().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    assert turned_down(made, credentials(files, key)) is grpc.StatusCode.UNAVAILABLE


def test_a_removed_member_is_turned_down(made: Consortium, tmp_path: Path) -> None:
    make_fourth(made)
    made.authority.sign_next_policy(_rules(made), now=now(), days=2, remove=["alder"])
    assert turned_down(made, credentials(made.files("alder"))) is grpc.StatusCode.PERMISSION_DENIED


def test_a_certified_key_that_the_policy_does_not_list_is_turned_down(made: Consortium) -> None:
    """A member with another's name: the authority's own issuer gave it out, and still the policy decides."""
    keys = MemberKeys.generate()
    certificate = made.authority.issuer(now=now()).transport(
        "alder", keys.supernode.reveal().public_key(), now=now(), days=1
    )
    files = made.files("alder")
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key = keys.supernode.reveal().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    assert turned_down(made, credentials(files, key)) is grpc.StatusCode.PERMISSION_DENIED


def make_fourth(made: Consortium) -> None:
    from fheval.consortium.enrolment import enrol_with_new_keys

    enrol_with_new_keys(made.authority, "hazel", made.root / "hazel", renew=False, now=now(), days=2)


def _rules(made: Consortium) -> Any:
    policy = made.authority.policy()
    assert policy is not None
    return policy.rules


def test_a_member_that_was_removed_meanwhile_is_dismissed(made: Consortium) -> None:
    make_fourth(made)

    async def play() -> list[str]:
        async with made.hub() as (hub, port), made.relays(port):
            await hub.present(frozenset(NAMES), 10)
            made.authority.sign_next_policy(_rules(made), now=now(), days=2, remove=["alder"])
            await hub.dismiss_strangers()
            await asyncio.sleep(0.3)
            return sorted(hub.streams)

    assert asyncio.run(play()) == sorted(NAMES[1:])


def test_a_connection_with_a_key_that_was_renewed_meanwhile_is_ended(made: Consortium) -> None:
    """Keys are renewed after a theft: the thief's connection must not outlast them."""
    from fheval.consortium.enrolment import enrol_with_new_keys

    async def play() -> list[str]:
        async with made.hub() as (hub, port), made.relays(port):
            await hub.present(frozenset(NAMES), 10)
            enrol_with_new_keys(made.authority, "alder", made.root / "new", renew=True, now=now(), days=2)
            made.authority.sign_next_policy(_rules(made), now=now(), days=2)
            await hub.dismiss_strangers()
            await asyncio.sleep(0.3)
            return sorted(hub.streams)

    assert asyncio.run(play()) == sorted(NAMES[1:])


def test_a_connection_ends_with_its_certificate(made: Consortium) -> None:
    async def play() -> list[str]:
        async with made.hub() as (hub, port), made.relays(port):
            await hub.present(frozenset(NAMES), 10)
            await hub.dismiss_strangers()
            assert sorted(hub.streams) == sorted(NAMES)
            before = dict(hub.streams)
            before["alder"].expires = time.time() - 1
            await hub.dismiss_strangers()
            while not any("has ended" in line for line in made.said["alder"]):
                await asyncio.sleep(0.05)
            return [name for name, stream in before.items() if stream.ended.is_set()]

    assert asyncio.run(asyncio.wait_for(play(), 30)) == ["alder"]


# Who is cut off


def channel_of(made: Consortium, port: int) -> grpc.aio.Channel:
    """A connection with alder's key, which takes as large messages as a relay's."""
    chosen = credentials(made.files("alder"))
    return grpc.aio.secure_channel(f"127.0.0.1:{port}", chosen, options=CHANNEL_OPTIONS)


def cut_off(made: Consortium, misbehave: Any) -> dict[str, bytes]:
    async def play() -> dict[str, bytes]:
        async with made.hub() as (hub, port), made.relays(port, NAMES[1:]):
            await hub.present(frozenset(NAMES[1:]), 10)
            async with grpc.aio.secure_channel(
                f"127.0.0.1:{port}",
                credentials(made.files("alder")),
                options=[("grpc.max_send_message_length", -1)],
            ) as channel:
                stream = channel.stream_stream(PATH)()
                await misbehave(stream)
                return await hub.exchange(made.exchange(), 1.0)

    return asyncio.run(play())


async def end_of(stream: Any) -> grpc.StatusCode:
    """How the hub ends a stream; what it says before is read."""
    with suppress(grpc.aio.AioRpcError):
        while await asyncio.wait_for(stream.read(), 20) is not grpc.aio.EOF:
            pass
    code: grpc.StatusCode = await asyncio.wait_for(stream.code(), 20)
    return code


def test_a_half_open_stream_holds_nobody_up(made: Consortium) -> None:
    async def say_nothing(stream: Any) -> None:
        await asyncio.sleep(0.1)

    assert asked(cut_off(made, say_nothing)) == sorted(NAMES[1:])


def test_a_message_beyond_the_limit_cuts_its_sender_off(made: Consortium) -> None:
    async def too_large(stream: Any) -> None:
        await stream.write(ARRIVAL)
        with suppress(grpc.aio.AioRpcError):
            await asyncio.wait_for(stream.write(bytes(FRAME_LIMIT + 1)), 20)
        assert await end_of(stream) is grpc.StatusCode.RESOURCE_EXHAUSTED

    assert asked(cut_off(made, too_large)) == sorted(NAMES[1:])


def arrival(fheval: str = "test", clock: float = 0.0) -> bytes:
    return encode(ToHub(content=Arrival(fheval=fheval, clock=clock)))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x00", ARRIVAL + b"\x00", encode(ToHub(content=Answer(number=7, body=b"x")))),
        # They would stand in the hub's log and status.
        *(arrival("1.0\n2026-11-18 INFO birch has left."), arrival("\x1b[2J"), arrival("1" * 65), arrival("")),
        *(arrival(clock=float("nan")), arrival(clock=float("inf"))),
    ],
)
def test_nonsense_cuts_its_sender_off(made: Consortium, data: bytes) -> None:
    async def nonsense(stream: Any) -> None:
        await stream.write(data)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    assert asked(cut_off(made, nonsense)) == sorted(NAMES[1:])


@pytest.mark.parametrize("data", [ARRIVAL, encode(ToHub(content=Answer(number=7, body=bytes(1 << 20))))])
def test_who_says_what_nobody_asked_is_cut_off(made: Consortium, data: bytes) -> None:
    """One answer to a request: a member cannot keep the hub busy reading."""

    async def chatter(stream: Any) -> None:
        await stream.write(ARRIVAL)
        await stream.write(data)
        assert await end_of(stream) is grpc.StatusCode.INVALID_ARGUMENT

    assert asked(cut_off(made, chatter)) == sorted(NAMES[1:])


def test_an_answer_that_comes_late_is_taken_once(made: Consortium) -> None:
    async def play() -> grpc.StatusCode:
        async with made.hub() as (hub, port), channel_of(made, port) as channel:
            stream = channel.stream_stream(PATH)()
            await stream.write(ARRIVAL)
            await hub.present(frozenset({"alder"}), 10)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(hub.streams["alder"].ask(b"first"), 0.2)
            late = encode(ToHub(content=Answer(number=1, body=b"late")))
            await stream.write(late)
            second = asyncio.create_task(hub.streams["alder"].ask(b"second"))
            await asyncio.sleep(0.2)
            await stream.write(encode(ToHub(content=Answer(number=2, body=b"in time"))))
            assert await asyncio.wait_for(second, 10) == b"in time"
            await stream.write(late)
            return await end_of(stream)

    assert asyncio.run(play()) is grpc.StatusCode.INVALID_ARGUMENT


def test_what_the_hub_says_stays_on_one_line_of_the_members_log(made: Consortium) -> None:
    async def play() -> None:
        async with made.hub() as (hub, port), made.relays(port, ("alder",)):
            await hub.present(frozenset({"alder"}), 10)
            await hub.streams["alder"].send(Notice(words="\x1b[2Jlook\n2026-11-18 12:00:00 Connected." + "!" * 1000))
            while not any("look" in line for line in made.said["alder"]):
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(play(), 30))
    (line,) = (line for line in made.said["alder"] if "look" in line)
    assert line.startswith("The hub says: ?[2Jlook?2026")
    assert line.isprintable()
    assert len(line) < 500


def test_a_relay_holds_only_so_many_requests_for_its_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that goes on sending must wait, so that the member's memory does not fill; in the end all are answered.

    Two wait, and the library's own buffers hold a few more: measured, about four of 8 MiB.
    """
    tmp_path.chmod(0o700)
    made, go = make_consortium(tmp_path), threading.Event()
    monkeypatch.setattr(relay, "_MOST_WAITING", 2)

    def hang(data: bytes) -> bytes:
        go.wait(30)
        return b"%d" % len(data)

    async def play() -> tuple[bool, list[bytes | None]]:
        async with made.hub() as (hub, port), made.relays(port, ("alder",)):
            await hub.present(frozenset({"alder"}), 10)
            asking = [asyncio.create_task(hub.streams["alder"].ask(bytes(8 << 20))) for _ in range(14)]
            await asyncio.sleep(2.0)
            waits = hub.streams["alder"].is_stuck
            go.set()
            return waits, await asyncio.wait_for(asyncio.gather(*asking), 60)

    with made.vault("alder", hang):
        assert asyncio.run(play()) == (True, [b"%d" % (8 << 20)] * 14)


def test_a_slow_reader_is_cut_off_and_may_come_again(made: Consortium, caplog: pytest.LogCaptureFixture) -> None:
    """It arrives and then reads nothing: a request of 8 MiB waits in vain."""

    async def play() -> tuple[dict[str, bytes], dict[str, bytes]]:
        async with made.hub() as (hub, port), made.relays(port, NAMES[1:]):
            await hub.present(frozenset(NAMES[1:]), 10)
            async with channel_of(made, port) as channel:
                stream = channel.stream_stream(PATH)()
                await stream.write(ARRIVAL)
                await hub.present(frozenset(NAMES), 10)
                without = await hub.exchange(made.exchange(bytes(8 << 20)), 5.0)
                async with made.relays(port, NAMES[:1]):
                    return without, await hub.exchange(made.exchange(bytes(8 << 20)), 20.0)

    without, later = asyncio.run(play())
    assert (asked(without), asked(later)) == (sorted(NAMES[1:]), sorted(NAMES))
    assert "alder does not read what it is sent" in caplog.text


def test_a_question_that_nobody_waits_for_any_more_does_not_break_the_stream(made: Consortium) -> None:
    """As `status` asks a member that is busy reading: what is on its way goes on, and the next one is answered."""

    async def play() -> bytes | None:
        async with made.hub() as (hub, port), channel_of(made, port) as channel:
            stream = channel.stream_stream(PATH)()
            await stream.write(ARRIVAL)
            await hub.present(frozenset({"alder"}), 10)
            there = hub.streams["alder"]
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(there.ask(bytes(8 << 20)), 0.3)
            last = asyncio.create_task(there.ask(b"last"))
            heard: Any = None
            while getattr(heard, "body", None) != b"last":
                heard = read_frame(await asyncio.wait_for(stream.read(), 10), ToRelay, "hub").content
            await stream.write(encode(ToHub(content=Answer(number=heard.number, body=b"heard"))))
            return await asyncio.wait_for(last, 10)

    assert asyncio.run(play()) == b"heard"


def test_who_comes_and_vanishes_leaves_nothing_behind(made: Consortium) -> None:
    async def play() -> int:
        async with made.hub() as (hub, port):
            for _ in range(30):
                async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials(made.files("alder"))) as channel:
                    await channel.stream_stream(PATH)().write(ARRIVAL)
            await asyncio.sleep(0.5)
            assert not hub.streams
            return len(asyncio.all_tasks())

    assert asyncio.run(play()) < 15


# What a member is told


def why_not(made: Consortium, host: str, port: int) -> str:
    return made.relay("alder", port, host=host)._why_not()


def test_the_words_name_what_is_wrong(made: Consortium, tmp_path: Path) -> None:
    async def play() -> tuple[str, str]:
        async with made.hub() as (_, port):
            wrong_name = await asyncio.to_thread(why_not, made, "localhost", port)
            other = tmp_path / "other"
            other.mkdir(mode=0o700)
            foreign = replace(made.files("alder"), authority=make_consortium(other).files("alder").authority)
            stranger = made.relay("alder", port, files=foreign)
            return wrong_name, await asyncio.to_thread(stranger._why_not)

    wrong_name, foreign = asyncio.run(play())
    assert "certificate for 127.0.0.1, and not for localhost" in wrong_name
    assert "did not issue" in foreign
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens there
        assert "cannot be reached" in why_not(made, "127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ConfigError, match="no address"):
        made.relay("alder", 0, host="not an address")


def test_a_kit_without_a_certificate_for_connections_says_so(made: Consortium) -> None:
    made.files("alder").certificate.unlink()
    with pytest.raises(ConfigError, match="no certificate for connections"):
        made.relay("alder", 9092).credentials()


def test_a_taken_port_is_said(made: Consortium) -> None:
    async def play() -> None:
        async with made.hub() as (_, port), made.hub(port):
            pass

    with pytest.raises(ConfigError, match="cannot be listened on"):
        asyncio.run(play())


def test_who_comes_back_is_sent_what_it_is_owed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    made, state = make_consortium(tmp_path), tmp_path / "state"
    state.mkdir(mode=0o700)
    owed, reply = owed_file(state), Reply(stage=Stage.BROADCAST, round="r", sender="", body=b"", signature=b"")
    owed.keep(Owed(round="r", stage=Stage.BROADCAST, requests=dict.fromkeys(NAMES, b"outcome"), since=time.time()))

    async def play() -> set[str]:
        service = Service(tmp_path / "hub", state)
        async with made.listening(service.hub) as port, made.relays(port, NAMES[:2]):
            deadline = time.monotonic() + 30
            while owed_file(state).members() != {"cedar"} and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            return owed_file(state).members()

    with ExitStack() as stack:
        for name in NAMES:
            stack.enter_context(made.vault(name, lambda _data: encode(reply)))
        assert asyncio.run(play()) == {"cedar"}
