"""A party's SuperNode: started with the shim's way to the vault, and with as little else as it needs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from fheval.errors import ConfigError, TransportError
from fheval.flower import VAULT_SOCKET
from fheval.flower.environment import flower_environment, flower_program
from fheval.flower.processes import Child, free_port, told_to_stop
from fheval.flower.state import LOOPBACK

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}")

_LOOK_EVERY = 0.2
# SuperLink takes a SuperNode that has died without a word for online for a minute, and lets no other take its place.
_TRY_AGAIN_FOR = 150.0
_TRY_EVERY = 10.0
# One that ran so long was connected: it could not have been refused.
_STEADY = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperNode:
    """What a SuperNode is started with: its own key, whom to trust, its vault, where SuperLink is, where files go."""

    key: Path
    authority: Path
    vault: Path
    superlink: str
    home: Path

    def command(self) -> list[str]:
        """Its command line; the port is for its own app processes, which fetch their work there."""
        return [
            flower_program("flower-supernode"),
            *("--superlink", self.superlink),
            *("--root-certificates", str(self.authority)),
            *("--auth-supernode-private-key", str(self.key)),
            *("--node-config", node_config(self.vault)),
            *("--host", LOOPBACK, "--port", str(free_port(LOOPBACK))),
        ]


def run_supernode(node: SuperNode, say: Callable[[str], None]) -> None:
    """Run a SuperNode until a signal ends it. One that keeps ending by itself is a `TransportError`."""
    _check_address(node.superlink)
    with told_to_stop() as told:
        give_up = time.monotonic() + _TRY_AGAIN_FOR
        while not told.is_set():
            say(f"The SuperNode connects to {node.superlink} and relays to {node.vault}.")
            started = time.monotonic()
            status = _run_once(node, told)
            if time.monotonic() - started > _STEADY:
                give_up = time.monotonic() + _TRY_AGAIN_FOR
            if status is None:
                return
            if time.monotonic() > give_up:
                raise TransportError(
                    f"The SuperNode ended again and again, with status {status}. Its output says why; the aggregator "
                    "must be up, with a policy that lists this member and its SuperNode key."
                )
            say(f"The SuperNode ended with status {status}. It is started again in {_TRY_EVERY:.0f} s.")
            told.wait(_TRY_EVERY)


def _run_once(node: SuperNode, told: Event) -> int | None:
    """Run it until it ends, and return its exit status; None when we were told to stop it."""
    with Child(node.command(), flower_environment(node.home)) as child:
        while not told.wait(_LOOK_EVERY):
            if (status := child.status()) is not None:
                return status
        return None


def _check_address(address: str) -> None:
    if _ADDRESS.fullmatch(address) is None:
        raise ConfigError(f"--superlink {address} is no address. Give host and port, such as hub.example.org:9092.")


def node_config(vault: Path) -> str:
    """Write the vault's socket as Flower wants it.

    >>> node_config(Path("/run/fheval/vault.sock"))
    'vault="/run/fheval/vault.sock"'
    """
    text = str(vault.absolute())
    if any(character in text for character in "\"'\\\n"):
        raise ConfigError(f"The path {text} has quotes or backslashes, which Flower cannot carry. Move the socket.")
    return f'{VAULT_SOCKET}="{text}"'
