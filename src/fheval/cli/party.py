"""`fheval party`: run the SuperNode that connects a member's vault to the aggregator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fheval.consortium import transport_files
from fheval.consortium.files import check_private_directory, private_subdirectory
from fheval.flower.environment import require_flower
from fheval.flower.supernode import SuperNode, run_supernode
from fheval.party.listening import answers

app = typer.Typer(
    no_args_is_help=True,
    help="Connect a member's vault to the aggregator, through Flower.",
    epilog="Start with: fheval party up --kit ./kit --vault /run/fheval/vault.sock --superlink hub.example.org:9092 "
    "--state ./state",
)


@app.callback()
def _party() -> None:
    """Makes `up` a command of its own, beside which others may come."""


@app.command(
    epilog="Example: fheval party up --kit ./kit/supernode --vault /run/fheval/vault.sock "
    "--superlink hub.example.org:9092 --state ./state"
)
def up(
    kit: Annotated[
        Path,
        typer.Option(
            metavar="KIT", help="The directory supernode/ of the member's kit, or the kit.", show_default=False
        ),
    ],
    vault: Annotated[Path, typer.Option(metavar="SOCKET", help="The vault's Unix socket.", show_default=False)],
    superlink: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the aggregator listens.", show_default=False)
    ],
    state: Annotated[
        Path, typer.Option(metavar="DIR", help="Where Flower keeps its own files; made if missing.", show_default=False)
    ],
) -> None:
    """Run a SuperNode that relays bytes to the vault, until Ctrl-C or SIGTERM. It needs no other file of the kit."""
    require_flower()
    inner = kit / "supernode"
    files = transport_files(inner if inner.is_dir() else kit)
    if not answers(vault):
        typer.echo(f"No vault answers on {vault} yet. Rounds will miss this member until one does.", err=True)
    state.mkdir(parents=True, mode=0o700, exist_ok=True)
    check_private_directory(state)
    node = SuperNode(
        key=files.key,
        authority=files.authority,
        vault=vault,
        superlink=superlink,
        home=private_subdirectory(state / "flwr"),
    )
    run_supernode(node, typer.echo)
