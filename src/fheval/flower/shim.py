"""A party's ClientApp: relays bytes to the socket of the local vault, and holds nothing.

It runs in a process that the aggregator's code may replace, so it has no key, no score and no say. Where the vault's
socket is, the SuperNode's own configuration says: `--node-config 'vault="/run/fheval/vault.sock"'`.
"""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context

from fheval.errors import ConfigError
from fheval.flower import VAULT_SOCKET
from fheval.flower.relay import make_app
from fheval.party.client import ask


def to_socket(context: Context, request: bytes) -> bytes:
    """The door of a deployment: the Unix socket that the SuperNode was told of."""
    socket = context.node_config.get(VAULT_SOCKET)
    if not isinstance(socket, str):
        raise ConfigError(
            f"The SuperNode does not know its vault. Start it with --node-config '{VAULT_SOCKET}=\"SOCKET\"'."
        )
    return ask(Path(socket), request)


app = make_app(to_socket)
