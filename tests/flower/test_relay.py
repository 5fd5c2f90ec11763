"""The party's app hands bytes over, tells failures in one way, and holds nothing."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from fheval.errors import ConfigError, TransportError
from fheval.flower.records import MESSAGE_TYPE, pack, unpack
from fheval.flower.relay import make_app
from fheval.flower.shim import app, to_socket
from fheval.party.client import receive_frame, send_frame

pytestmark = pytest.mark.usefixtures("_as_an_app")


def context(**config: str) -> Context:
    return Context(run_id=1, node_id=5, node_config=dict(config), state=RecordDict(), run_config={})


def message(content: RecordDict) -> Message:
    made = Message(content, dst_node_id=5, message_type=MESSAGE_TYPE)
    made.metadata.__dict__["_message_id"] = "m"
    return made


def test_bytes_go_through_the_door_and_back() -> None:
    relay = make_app(lambda _, data: data[::-1])
    assert unpack(relay(message(pack(b"abc")), context()).content, sender="") == b"cba"


@pytest.mark.parametrize(
    "error",
    [TransportError("/home/someone/secret-place"), OSError(13, "Permission denied"), ValueError("0.8317"), KeyError(1)],
)
def test_a_failure_says_nothing_to_the_aggregator_and_the_reason_at_home(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def door(context: Context, data: bytes) -> bytes:
        raise error

    with caplog.at_level(logging.ERROR):
        reply = make_app(door)(message(pack(b"abc")), context())
    assert reply.content == RecordDict({"failed": ConfigRecord()})
    assert not reply.has_error()
    assert str(error) in caplog.text


def test_a_message_without_our_bytes_never_reaches_the_vault() -> None:
    reached: list[bytes] = []

    def door(context: Context, data: bytes) -> bytes:
        reached.append(data)
        return b""

    reply = make_app(door)(message(RecordDict({"anything": ConfigRecord({"run": "code"})})), context())
    assert reply.content == RecordDict({"failed": ConfigRecord()})
    assert reached == []


def test_an_interrupt_is_not_swallowed() -> None:
    def door(context: Context, data: bytes) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_app(door)(message(pack(b"abc")), context())


def test_the_shim_asks_the_socket_of_its_node(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                data = receive_frame(connection, seconds=10)
                send_frame(connection, b"to " + (data or b""), seconds=10)

        thread = threading.Thread(target=answer)
        thread.start()
        reply = app(message(pack(b"abc")), context(vault=str(path)))
        thread.join(10)
    assert unpack(reply.content, sender="") == b"to abc"


def test_a_node_that_does_not_know_its_vault_says_how_to_tell_it() -> None:
    with pytest.raises(ConfigError, match="--node-config"):
        to_socket(context(), b"abc")


def test_no_vault_at_the_socket_is_a_failure_like_any_other(tmp_path: Path) -> None:
    reply = app(message(pack(b"abc")), context(vault=os.fspath(tmp_path / "none.sock")))
    assert reply.content == RecordDict({"failed": ConfigRecord()})


def test_the_shim_loads_nothing_that_knows_keys_or_data() -> None:
    # A process of its own: this one has loaded all of fheval long ago.
    program = "import sys, fheval.flower.shim; print(*(name for name in sys.modules if name.startswith('fheval')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {
        *("fheval", "fheval.errors", "fheval.version", "fheval.wire"),
        *("fheval.party", "fheval.party.client", "fheval.party.client"),
        *("fheval.flower", "fheval.flower.records", "fheval.flower.relay", "fheval.flower.shim"),
    }
