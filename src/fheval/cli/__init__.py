"""The command `fheval`: its list of commands and its entry point. A command's module is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from fheval.cli.deferred import Deferred
from fheval.cli.exits import run_to_status
from fheval.version import __version__

__all__ = ["COMMANDS", "main"]

# One line for each command: its name, the module that has its typer `app`, and the line that `fheval --help` shows.
COMMANDS = (
    ("demo", "fheval.cli.demo", "A real data set, five hospitals, both threat models, the pooled truth beside them."),
    ("evaluate", "fheval.cli.evaluate", "One round over one file for each party, all roles in this process."),
    ("simulate", "fheval.cli.simulate", "Split one data set at random among parties, then as evaluate."),
    ("reproduce", "fheval_lab.cli.reproduce", "The paper's tables and figures, run again beside the printed values."),
    (
        "attack",
        "fheval_lab.cli.attack",
        "Every attack on a protocol, and how often it was caught.",
    ),
    ("bench", "fheval_lab.cli.bench", "Ratios between protocols, engines and baselines, measured in one run."),
    ("consortium", "fheval.cli.consortium", "Run a consortium: authority, kits, signed policy."),
    ("vault", "fheval.cli.vault", "Keep a party's keys and data, and answer rounds as the policy allows."),
    ("aggregator", "fheval.cli.aggregator", "Run a consortium's aggregator on Flower, and rounds."),
    ("party", "fheval.cli.party", "Connect a member's vault to the aggregator."),
)

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


def _root() -> Any:
    root: Any = typer.main.get_command(_app)
    for name, module, summary in COMMANDS:
        root.add_command(Deferred(name, module, summary))
    return root
