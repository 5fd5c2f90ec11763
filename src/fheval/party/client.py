"""How a program beside a vault asks it: one request, one reply. It holds no secret and imports next to nothing."""

from __future__ import annotations

import socket
from pathlib import Path

from fheval.errors import TransportError
from fheval.party.framing import receive_frame, send_frame

# The first request of a round may count a file of 10^8 rows.
DEFAULT_SECONDS = 600.0
_CONNECT_SECONDS = 10.0


def ask(path: Path, data: bytes, *, seconds: float = DEFAULT_SECONDS) -> bytes:
    """Send one request to the vault that listens on a Unix socket, and wait so long for its reply.

    A `TransportError` says that there was none; the same request may be sent again.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_CONNECT_SECONDS)
        try:
            connection.connect(str(path))
        except OSError as error:
            raise TransportError(
                f"No vault answers on {path} ({error.strerror or error}). Start it with: fheval vault"
            ) from error
        send_frame(connection, data, seconds=seconds)
        reply = receive_frame(connection, seconds=seconds)
    if reply is None:
        raise TransportError(f"The vault on {path} closed the connection without a reply. Try again.")
    return reply
