"""The vault's socket: modes, one vault on it, frames of any size, and an end that is clean."""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fheval.errors import ConfigError, TransportError
from fheval.party import server
from fheval.party.client import FRAME_LIMIT, ask, receive_frame, send_frame
from fheval.party.listening import answers, listening, passed_socket
from fheval.party.messages import REFUSAL
from fheval.party.server import MOST_CONNECTIONS, VaultServer, log_kinds_only

# Seconds after which a test gives up, on a machine that others use too.
PATIENCE = 60


@pytest.fixture
def path(folder: Path) -> Path:
    state = folder / "state"
    state.mkdir(mode=0o700)
    return state / "vault.sock"


@contextmanager
def serving(path: Path, handle: Callable[[bytes], bytes] = bytes.upper, **options: float) -> Iterator[VaultServer]:
    """A server in a thread of this process."""
    with listening(path) as listener, VaultServer(handle, listener, **options) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        yield connection


def test_request_and_reply(path: Path) -> None:
    with serving(path):
        assert ask(path, b"hello") == b"HELLO"
        assert ask(path, b"") == b""
        large = b"x" * 5_000_000
        assert ask(path, large) == large.upper()


def test_several_requests_on_one_connection(path: Path) -> None:
    with serving(path), connected(path) as connection:
        for word in (b"one", b"two"):
            send_frame(connection, word, seconds=5)
            assert receive_frame(connection, seconds=5) == word.upper()


def test_requests_at_once(path: Path) -> None:
    found: list[bytes] = []

    def slowly(data: bytes) -> bytes:
        time.sleep(0.05)
        return data.upper()

    with serving(path, slowly):
        threads = [
            threading.Thread(target=lambda: found.append(ask(path, b"hello"))) for _ in range(3 * MOST_CONNECTIONS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert found == [b"HELLO"] * len(threads)


def test_nobody_there(path: Path) -> None:
    with pytest.raises(TransportError, match="No vault answers"):
        ask(path, b"hello")


# Modes


def test_only_this_user_may_connect(path: Path) -> None:
    with serving(path):
        assert path.stat().st_mode & 0o777 == 0o600
        assert all(file.stat().st_mode & 0o777 == 0o600 for file in path.parent.iterdir())
    assert not path.exists()


def test_an_open_directory_is_refused(path: Path) -> None:
    path.parent.chmod(0o750)
    with pytest.raises(ConfigError, match="chmod 700"), listening(path):
        pass


# One vault on a socket


def test_a_second_vault_is_refused_and_the_first_goes_on(path: Path) -> None:
    with serving(path):
        with pytest.raises(ConfigError, match="Another vault"), listening(path):
            pass
        assert ask(path, b"hello") == b"HELLO"


def test_what_a_killed_vault_left_is_removed(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    assert path.is_socket()
    assert not answers(path)
    with serving(path):
        assert answers(path)
        assert ask(path, b"hello") == b"HELLO"


def test_a_socket_that_another_program_listens_on_stays(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ConfigError, match="Another program listens"), listening(path):
            pass
        assert path.is_socket()


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_stays(path: Path, kind: str) -> None:
    if kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="in the way"), listening(path):
        pass
    assert os.path.lexists(path)


def test_a_name_that_is_too_long(path: Path) -> None:
    with pytest.raises(ConfigError, match="Name a shorter one"), listening(path.parent / ("x" * 120)):
        pass


# Frames


def test_an_oversized_frame_is_refused_unread(path: Path) -> None:
    with serving(path), connected(path) as connection:
        connection.sendall(struct.pack(">I", FRAME_LIMIT + 1))
        assert receive_frame(connection, seconds=5) == REFUSAL
        assert receive_frame(connection, seconds=5) is None


@pytest.mark.parametrize("sent", [b"", b"\0", b"\0\0\0\x09", b"\0\0\0\x09abc"])
def test_a_frame_that_breaks_off(path: Path, sent: bytes) -> None:
    handled: list[bytes] = []

    def handle(data: bytes) -> bytes:
        handled.append(data)
        return data

    with serving(path, handle):
        with connected(path) as connection:
            connection.sendall(sent)
        assert ask(path, b"next") == b"next"
    assert handled == [b"next"]


def test_whoever_is_slow_is_not_waited_for(path: Path) -> None:
    with serving(path, seconds=0.3), connected(path) as slow:
        slow.sendall(b"\0\0\0\x09abc")
        # Were the server to wait, this end would be the one to give up, and raise.
        assert receive_frame(slow, seconds=PATIENCE) is None
        assert ask(path, b"hello") == b"HELLO"


def test_idle_connections_do_not_keep_others_out(path: Path) -> None:
    with serving(path, seconds=0.3):
        idle = []
        for _ in range(MOST_CONNECTIONS + 2):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(str(path))
            idle.append(connection)
        assert ask(path, b"hello", seconds=20) == b"HELLO"
        for connection in idle:
            connection.close()


# Errors


def test_an_unexpected_error_is_a_refusal_and_its_words_are_not_logged(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handle(data: bytes) -> bytes:
        raise KeyError(f"a secret, such as {data!r}")

    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    log_kinds_only()
    with serving(path, handle):
        assert ask(path, b"hunter2") == REFUSAL
    # The thread's last words come after its reply.
    deadline = time.monotonic() + 10
    while not caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "An unexpected KeyError at" in caplog.text
    assert "hunter2" not in caplog.text
    assert "secret" not in caplog.text


def test_stopping_lets_a_request_finish(path: Path) -> None:
    started, replies = threading.Event(), []

    def slowly(data: bytes) -> bytes:
        started.set()
        time.sleep(0.3)
        return data.upper()

    with serving(path, slowly) as server:
        thread = threading.Thread(target=lambda: replies.append(ask(path, b"hello")))
        thread.start()
        started.wait(PATIENCE)
        server.stop()
        thread.join(PATIENCE)
    assert replies == [b"HELLO"]


def test_idle_connections_do_not_delay_the_end(path: Path) -> None:
    """The server would wait for hours for another request; only its end can end the connection so soon."""
    with serving(path, seconds=10_000) as server, connected(path) as idle:
        send_frame(idle, b"hello", seconds=PATIENCE)
        assert receive_frame(idle, seconds=PATIENCE) == b"HELLO"
        server.stop()
        assert receive_frame(idle, seconds=PATIENCE) is None


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_that_another_thread_was_given(path: Path, name: str) -> None:
    """The kernel hands a signal to any thread; the main one waits in `select` and must hear of it."""
    program = (
        "import signal, sys, threading\n"
        "from pathlib import Path\n"
        "from fheval.party.listening import listening\n"
        "from fheval.party.server import VaultServer, stopped_by_signals\n"
        "def signalled():\n"
        "    signal.pthread_kill(threading.get_ident(), getattr(signal, sys.argv[2]))\n"
        "with listening(Path(sys.argv[1])) as listener, VaultServer(bytes.upper, listener) as server:\n"
        "    with stopped_by_signals(server, lambda: None):\n"
        "        threading.Timer(0.3, signalled).start()\n"
        "        server.serve()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path), name], timeout=20, check=True)
    assert not path.exists()


def test_a_second_signal_does_not_change_the_end(path: Path) -> None:
    program = (
        "import os, signal, sys, threading\n"
        "from pathlib import Path\n"
        "from fheval.party.listening import listening\n"
        "from fheval.party.server import VaultServer, stopped_by_signals\n"
        "with listening(Path(sys.argv[1])) as listener, VaultServer(bytes.upper, listener) as server:\n"
        "    with stopped_by_signals(server, lambda: None):\n"
        "        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
        "        server.serve()\n"
        "    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):\n"
        "        os.kill(os.getpid(), number)\n"
        "print('ended')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=20, check=True, capture_output=True)
    assert done.stdout == b"ended\n"


# systemd


def test_a_socket_that_systemd_passes_on(path: Path) -> None:
    """As systemd does it: the socket is descriptor 3, and two variables say so."""
    program = (
        "import os, sys\n"
        "os.dup2(int(sys.argv[1]), 3)\n"
        "os.environ['LISTEN_PID'] = str(os.getpid())\n"
        "from fheval.party.listening import passed_socket\n"
        "from fheval.party.server import VaultServer\n"
        "def answer_and_stop(data):\n"
        "    server.stop()\n"
        "    return data.upper()\n"
        "server = VaultServer(answer_and_stop, passed_socket(os.environ))\n"
        "assert 'LISTEN_FDS' not in os.environ and not os.get_inheritable(3)\n"
        "server.serve()\n"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(listener.fileno())],
            pass_fds=[listener.fileno()],
            env={**os.environ, "LISTEN_FDS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert ask(path, b"hello", seconds=60) == b"HELLO"
        assert child.wait(60) == 0
    assert path.is_socket(), "whoever made the socket removes it"


def test_variables_for_another_process_are_ignored() -> None:
    environment = {"LISTEN_FDS": "1", "LISTEN_PID": "1", "HOME": "/"}
    assert passed_socket(environment) is None
    assert environment == {"HOME": "/"}


def test_more_sockets_than_a_vault_has() -> None:
    with pytest.raises(ConfigError, match="systemd passed 2 sockets"):
        passed_socket({"LISTEN_FDS": "2", "LISTEN_PID": str(os.getpid())})


# Exhaustion


def test_silent_connections_do_not_keep_others_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They give up their places, long before they would be closed."""
    monkeypatch.setattr(server, "UNHEARD_SECONDS", 0.2)
    with serving(path), ExitStack() as silent:
        for half_open in range(MOST_CONNECTIONS + 3):
            connection = silent.enter_context(connected(path))
            if half_open % 2:
                connection.sendall(struct.pack(">I", 1000) + b"a part")
        began = time.monotonic()
        assert ask(path, b"hello") == b"HELLO"
        assert time.monotonic() - began < server.IDLE_SECONDS / 2


def test_a_system_without_files_memory_or_threads_does_not_end_the_vault(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Exhausted:
        """A listener whose first connections cannot be taken."""

        def __init__(self, listener: socket.socket) -> None:
            self._listener = listener
            self.errors = [OSError(errno.EMFILE, "Too many open files"), MemoryError(), OSError(errno.ENOMEM, "None")]

        def __getattr__(self, name: str) -> object:
            return getattr(self._listener, name)

        def accept(self) -> tuple[socket.socket, object]:
            if self.errors:
                raise self.errors.pop()
            return self._listener.accept()

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def handle(data: bytes) -> bytes:
        if data == b"too much":
            raise MemoryError
        return data.upper()

    with listening(path) as listener:
        exhausted = Exhausted(listener)
        with VaultServer(handle, exhausted) as served:  # type: ignore[arg-type]
            thread = threading.Thread(target=served.serve)
            thread.start()
            try:
                assert ask(path, b"hello") == b"HELLO"
                # Those who serve are there already, and outlive what goes wrong.
                monkeypatch.setattr(threading.Thread, "start", no_thread)
                for _ in range(MOST_CONNECTIONS + 2):
                    assert ask(path, b"too much") == REFUSAL
                assert ask(path, b"hello") == b"HELLO"
            finally:
                served.stop()
                thread.join(PATIENCE)
    assert (exhausted.errors, thread.is_alive()) == ([], False)
