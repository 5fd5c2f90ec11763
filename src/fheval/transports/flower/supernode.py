"""A party's SuperNode: started with the shim's way to the vault, and with as little else as it needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fheval.errors import ConfigError, TransportError
from fheval.transports.flower.environment import flower_environment, flower_program
from fheval.transports.flower.processes import Child, free_port, told_to_stop
from fheval.transports.flower.state import LOOPBACK

# The name in the SuperNode's configuration under which the shim looks for the vault's socket.
SOCKET = "vault"

_LOOK_EVERY = 0.2


def run_supernode(
    key: Path, authority: Path, vault: Path, superlink: str, home: Path, *, on_started: Callable[[], None]
) -> None:
    """Run a SuperNode until a signal ends it; one that ends by itself is a `TransportError`."""
    command = [
        flower_program("flower-supernode"),
        *("--superlink", superlink),
        *("--root-certificates", str(authority)),
        *("--auth-supernode-private-key", str(key)),
        *("--node-config", node_config(vault)),
        # Where its own app processes fetch their work.
        *("--host", LOOPBACK, "--port", str(free_port(LOOPBACK))),
    ]
    with told_to_stop() as told:
        child = Child(command, flower_environment(home))
        try:
            on_started()
            while not told.wait(_LOOK_EVERY):
                if child.status() is not None:
                    raise TransportError(
                        f"The SuperNode ended with status {child.status()}. Its output says why; "
                        "the aggregator must have this member's SuperNode key registered."
                    )
        finally:
            child.stop()


def node_config(vault: Path) -> str:
    """Write the vault's socket as Flower wants it.

    >>> node_config(Path("/run/fheval/vault.sock"))
    'vault="/run/fheval/vault.sock"'
    """
    text = str(vault.absolute())
    if any(character in text for character in "\"'\\\n"):
        raise ConfigError(f"The path {text} has quotes or backslashes, which Flower cannot carry. Move the socket.")
    return f'{SOCKET}="{text}"'
