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
from fheval.flower.retold import retelling
from fheval.flower.state import LOOPBACK
from fheval.party.listening import answers

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}")

_LOOK_EVERY = 0.2
_LOOK_AT_VAULT_EVERY = 5.0
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
            status = _run_once(node, told, say)
            if time.monotonic() - started > _STEADY:
                give_up = time.monotonic() + _TRY_AGAIN_FOR
            if status is None:
                return
            if time.monotonic() > give_up:
                raise TransportError(
                    f"The SuperNode ended again and again, with status {status}. {node.home}/supernode.log says why; "
                    "the aggregator must be up, with a policy that lists this member and its SuperNode key."
                )
            say(f"The SuperNode ended with status {status}. It is started again in {_TRY_EVERY:.0f} s.")
            told.wait(_TRY_EVERY)


def _run_once(node: SuperNode, told: Event, say: Callable[[str], None]) -> int | None:
    """Run it until it ends, and return its exit status; None when we were told to stop it."""
    log = node.home / "supernode.log"
    look_again, answering = 0.0, True
    with (
        retelling(log, node.superlink, say) as output,
        Child(node.command(), flower_environment(node.home), output) as child,
    ):
        while not told.wait(_LOOK_EVERY):
            if (status := child.status()) is not None:
                return status
            if time.monotonic() >= look_again:
                look_again, before = time.monotonic() + _LOOK_AT_VAULT_EVERY, answering
                answering = answers(node.vault)
                if answering != before:
                    say("The vault answers." if answering else f"No vault answers on {node.vault}. Start it.")
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
