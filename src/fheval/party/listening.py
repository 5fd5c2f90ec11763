"""The vault's Unix socket: mode 0600 in a directory 0700, one vault on it, and nothing deleted that is not ours."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from fheval.consortium.files import check_private_directory
from fheval.errors import ConfigError
from fheval.party.ledger_file import hold

_BACKLOG = 16

# Where systemd puts the first socket that it passes on.
_FIRST_PASSED = 3

# What a Unix socket's address holds on Linux, with its final zero.
_LONGEST_PATH = 107


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listen on a new socket; it is removed at the end. Refused while another vault listens there."""
    _check_length(path)
    check_private_directory(path.parent)
    lock = hold(path.with_name(f"{path.name}.lock"))
    try:
        _remove_stale(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            # The socket file has its mode from the first moment: afterwards would be too late.
            before = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
            try:
                listener.listen(_BACKLOG)
                yield listener
            finally:
                path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def passed_socket(environment: MutableMapping[str, str]) -> socket.socket | None:
    """The listening socket that systemd has made, if this process was started by one."""
    count = environment.pop("LISTEN_FDS", "")
    process = environment.pop("LISTEN_PID", "")
    environment.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()):
        return None
    if count != "1":
        raise ConfigError(f"systemd passed {count or 'no'} sockets, and a vault has one. Check the socket unit.")
    listener = socket.socket(fileno=_FIRST_PASSED)
    if listener.family != socket.AF_UNIX or listener.type != socket.SOCK_STREAM:
        listener.close()
        raise ConfigError("systemd passed a socket that is not a Unix stream socket. Check the socket unit.")
    os.set_inheritable(_FIRST_PASSED, False)
    return listener


def answers(path: Path) -> bool:
    """Whether anybody listens on a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _remove_stale(path: Path) -> None:
    """Remove what a killed vault left behind; a file of another kind or owner, or a socket in use, stays."""
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid != os.geteuid():
        raise ConfigError(f"{path} is in the way and is no socket of this user. Name another with --socket.")
    if answers(path):
        raise ConfigError(f"Another program listens on {path}. Stop it first, or name another with --socket.")
    path.unlink()


def _check_length(path: Path) -> None:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise ConfigError(
            f"{path} is longer than the {_LONGEST_PATH} bytes of a socket's address. Name a shorter one with --socket."
        )
