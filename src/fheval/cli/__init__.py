"""The command `fheval`: its list of commands and its entry point. A command's module is imported when it is called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from fheval.cli.deferred import Deferred, Missing
from fheval.cli.exits import run_to_status
from fheval.version import __version__

__all__ = ["COMMANDS", "installed_commands", "main"]

# One line for each command: its name, the module that has its typer `app`, and the line that `fheval --help` shows.
COMMANDS = (
    ("demo", "fheval.cli.demo", "A real data set, five hospitals, both threat models, the pooled truth beside them."),
    ("evaluate", "fheval.cli.evaluate", "One round over one file for each party, all roles in this process."),
    ("simulate", "fheval.cli.simulate", "Split one data set at random among parties, then as evaluate."),
    ("consortium", "fheval.cli.consortium", "Run a consortium: authority, kits, signed policy."),
    ("vault", "fheval.cli.vault", "Keep a party's keys and data, and answer rounds as the policy allows."),
    ("aggregator", "fheval.cli.aggregator", "Run a consortium's aggregator on Flower, and rounds."),
    ("party", "fheval.cli.party", "Connect a member's vault to the aggregator."),
)

# Other distributions add theirs by an entry point of this group that names such a tuple.
ENTRY_POINTS = "fheval.commands"

# What fheval-lab adds; where it is missing, these say so.
OF_THE_LAB = ("reproduce", "attack", "bench", "baseline")

_app = typer.Typer(
    no_args_is_help=True,
    help="Evaluate a model over the private data of many parties: the AUC of the pooled data, from an aggregator "
    "that sees nothing.",
    epilog="Start with: fheval demo",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fheval {__version__}")
        raise typer.Exit


@_app.callback()
def _fheval(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Exists for the options that stand before any command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: done; 1: refused by the protocol; 2: bad usage or input; 130: interrupted; 141: the reader of the output left.
    """
    return run_to_status(_root(), arguments)


def installed_commands() -> Iterator[tuple[str, str, str]]:
    """The commands of fheval itself, then those that other distributions add; each as a line of COMMANDS."""
    yield from COMMANDS
    for entry_point in entry_points(group=ENTRY_POINTS):
        yield from entry_point.load()


def _root() -> Any:
    root: Any = typer.main.get_command(_app)
    for name, module, summary in installed_commands():
        root.add_command(Deferred(name, module, summary))
    for name in OF_THE_LAB:
        if name not in root.commands:
            root.add_command(Missing(name, "fheval-lab"))
    return root
