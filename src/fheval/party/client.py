"""How a program beside a vault asks it: frames on a Unix socket, one request, one reply.

A frame is four bytes of length, then as many bytes; both ends use it, and it knows no message. Nothing here holds a
secret, and it imports next to nothing.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path

from fheval.errors import TransportError
from fheval.wire import DEFAULT_LIMIT

# A message has its own limit; the rest is what a transport may put around it.
FRAME_LIMIT = DEFAULT_LIMIT + (1 << 16)

_LENGTH = struct.Struct(">I")
_PIECE = 1 << 20


class FrameTooLarge(TransportError):  # noqa: N818 (a frame, not an error, is too large)
    """The other end announces more bytes than are taken."""


def send_frame(connection: socket.socket, data: bytes, *, seconds: float) -> None:
    """Send one frame, in so much time at most."""
    try:
        connection.settimeout(seconds)
        connection.sendall(_LENGTH.pack(len(data)) + data)
    except OSError as error:
        raise TransportError("The other end of the vault's socket went away. Try again.") from error


def receive_frame(connection: socket.socket, *, seconds: float, limit: int = FRAME_LIMIT) -> bytes | None:
    """Receive one frame, in so much time at most; None when the other end has nothing more to say."""
    deadline = time.monotonic() + seconds
    head = _receive(connection, _LENGTH.size, deadline)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise TransportError("A frame on the vault's socket broke off. Try again.")
    (length,) = _LENGTH.unpack(head)
    if length > limit:
        raise FrameTooLarge(f"A frame of {length} bytes exceeds the limit of {limit} bytes. Send less.")
    data = _receive(connection, length, deadline)
    if len(data) < length:
        raise TransportError("A frame on the vault's socket broke off. Try again.")
    return data


def _receive(connection: socket.socket, count: int, deadline: float) -> bytes:
    """As many bytes, or fewer where the other end has closed."""
    parts: list[bytes] = []
    missing = count
    while missing:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TransportError("A frame on the vault's socket took too long. Try again.")
        connection.settimeout(left)
        try:
            part = connection.recv(min(missing, _PIECE))
        except OSError as error:
            raise TransportError("The other end of the vault's socket went away or took too long.") from error
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


# The first request of a round may count a file of 10^8 rows.
DEFAULT_SECONDS = 600.0
_CONNECT_SECONDS = 10.0


def ask(path: Path, data: bytes, *, seconds: float = DEFAULT_SECONDS) -> bytes:
    """Send one request to the vault that listens on a Unix socket, and wait so long for its reply.

    A `TransportError` says that there was none; the same request may be sent again.
    """
    with _connected(path) as connection:
        send_frame(connection, data, seconds=seconds)
        reply = receive_frame(connection, seconds=seconds)
    if reply is None:
        raise TransportError(f"The vault on {path} closed the connection without a reply. Try again.")
    return reply


def _connected(path: Path) -> socket.socket:
    try:
        with ExitStack() as on_failure:
            connection = on_failure.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(str(path))
            on_failure.pop_all()
            return connection
    except OSError as error:
        raise TransportError(
            f"No vault answers on {path} ({error.strerror or error}). Start it with: fheval vault"
        ) from error
