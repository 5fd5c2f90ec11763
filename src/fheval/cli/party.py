"""`fheval party`: connect a member's vault to the aggregator."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from fheval.cli.transports import Transport, TransportName, say_with_time
from fheval.consortium import transport_files
from fheval.consortium.files import check_private_directory, private_subdirectory
from fheval.consortium.member_keys import TRANSPORT_DIRECTORY
from fheval.errors import ConfigError
from fheval.flower.environment import require_flower
from fheval.flower.supernode import SuperNode, run_supernode
from fheval.party.listening import answers

app = typer.Typer(
    no_args_is_help=True,
    help="Connect a member's vault to the aggregator.",
    epilog="Start with: fheval party up --kit ./kit/transport --vault /run/fheval/vault.sock",
)


@app.callback()
def _party() -> None:
    """Makes `up` a command of its own, beside which others may come."""


@app.command(
    epilog="Example: fheval party up --kit ./kit/transport --vault /run/fheval/vault.sock --hub hub.example.org:9092"
)
def up(
    kit: Annotated[
        Path,
        typer.Option(
            metavar="KIT", help="The directory transport/ of the member's kit, or the kit.", show_default=False
        ),
    ],
    vault: Annotated[Path, typer.Option(metavar="SOCKET", help="The vault's Unix socket.", show_default=False)],
    hub: Annotated[
        str | None,
        typer.Option(
            "--hub",
            "--superlink",
            metavar="HOST:PORT",
            help="Where the aggregator listens.",
            show_default="as the authority's bulletin says",
        ),
    ] = None,
    transport: Transport = TransportName.DIRECT,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With flower: where it keeps files of its own; made if missing.", show_default=False
        ),
    ] = None,
    until_closed: Annotated[bool, typer.Option("--until-closed", hidden=True)] = False,
) -> None:
    """Relay bytes between the aggregator and the vault, until Ctrl-C or SIGTERM. It needs no other file of the kit."""
    if transport is TransportName.FLOWER:
        require_flower()
        if state is None:
            raise ConfigError("With --transport flower, name a directory for Flower's files: --state DIR")
    inner = kit / TRANSPORT_DIRECTORY
    files = transport_files(inner if inner.is_dir() else kit)
    address = hub or files.hub
    if address is None:
        raise ConfigError("Where is the hub? The kit does not say. Name it with --hub HOST:PORT.")
    if not answers(vault):
        typer.echo(f"No vault answers on {vault} yet. Rounds will miss this member until one does.", err=True)
    if state is None or transport is TransportName.DIRECT:
        from fheval.direct.relay import Relay
        from fheval.direct.signals import until_told, while_open

        relay = Relay(hub=address, files=files, vault=vault, say=say_with_time)
        relay.credentials()  # a kit that cannot connect is refused at once
        running = relay.run()
        asyncio.run(until_told(while_open(sys.stdin, running) if until_closed else running))
    else:
        state.mkdir(parents=True, mode=0o700, exist_ok=True)
        check_private_directory(state)
        home = private_subdirectory(state / "flwr")
        node = SuperNode(key=files.key, authority=files.authority, vault=vault, superlink=address, home=home)
        run_supernode(node, say_with_time)
