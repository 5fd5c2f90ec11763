"""`fheval vault`: a party's trust boundary beside its data, and a look at what it has answered."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fheval.cli import check_target, options, write_json
from fheval.cli.vault_views import rounds_json, rounds_table, status_json, status_table
from fheval.consortium import load_kit
from fheval.errors import ConfigError
from fheval.party.columns import AllowedColumns
from fheval.party.core import utc_now
from fheval.party.data_set import DataSet
from fheval.party.ledger import Ledger
from fheval.party.ledger_place import move_ledger, replace_ledger
from fheval.party.process import VaultFiles, run_vault

app = typer.Typer(
    invoke_without_command=True,
    epilog="Examples:\n\n"
    "fheval vault --kit ./kit --data scores.parquet\n\n"
    "fheval vault --kit ./kit --data scores.csv --score-column old=risk_2019 --score-column new=risk "
    "--cluster-column patient_id\n\n"
    "fheval vault rounds --kit ./kit --json -",
)

_COLUMNS = "What rounds may ask about"

KitOption = Annotated[Path | None, typer.Option("--kit", metavar="KIT", help="The member's kit.", show_default=False)]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Where the ledger is kept.",
        show_default="where the kit says, at first KIT/vault",
    ),
]
SocketOption = Annotated[
    Path | None,
    typer.Option("--socket", metavar="PATH", help="The Unix socket.", show_default="vault.sock beside the ledger"),
]


@app.callback()
def vault(
    context: typer.Context,
    kit: KitOption = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="This party's labels and scores: .csv, .tsv, .parquet, .npy or .txt.",
            show_default=False,
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of the labels.", show_default="label, else y", rich_help_panel=_COLUMNS
        ),
    ] = None,
    score_column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MODEL=]COLUMN",
            help="A column of scores that rounds may ask about, and what they call it if not by the column's name. "
            "Repeat for several models.",
            show_default="score, else s",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    class_: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="[CLASS=]LABEL",
            help="One label of several, and what rounds call it if not so; repeat for all. Its scores are in the "
            "column COLUMN_LABEL.",
            show_default="labels are 0 and 1",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    cluster_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of clusters of rows, such as patients, that intervals may resample.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    state: StateOption = None,
    socket: SocketOption = None,
) -> None:
    """Keep this party's keys and data, and answer rounds on a Unix socket, as the policy allows.

    Rounds may ask about the columns that are named here and about no others. It runs until it is told to stop; `status`
    and `rounds` look at its ledger, also while it runs.
    """
    if context.invoked_subcommand is not None:
        if any((kit, data, label_column, score_column, class_, cluster_column, state, socket)):
            raise ConfigError(
                f"Give the options behind the command: fheval vault {context.invoked_subcommand} --kit KIT"
            )
        return
    if kit is None or data is None:
        raise ConfigError("A vault needs --kit KIT and --data FILE. Give both.")
    columns = AllowedColumns(
        label=label_column,
        models=_by_name("--score-column", score_column),
        classes=_by_name("--class", class_),
        cluster=cluster_column,
    )
    _log_to_standard_error()
    run_vault(VaultFiles.of(kit, state, socket), DataSet(data, columns))


@app.command(epilog="Example: fheval vault status --kit ./kit")
def status(
    kit: KitOption = None, state: StateOption = None, socket: SocketOption = None, json: options.Json = None
) -> None:
    """Show whether the vault runs, under which policy, and how many releases its data sets have had."""
    check_target(json)
    files = _files(kit, state, socket)
    member = load_kit(files.kit, now=utc_now())
    with Ledger.read(files.ledger) as ledger:
        found = status_json(member, ledger, files, running=Ledger.in_use(files.ledger))
    if json is None:
        Console(highlight=False).print(status_table(found))
    else:
        write_json(json, found)


@app.command(
    epilog="Examples:\n\n"
    "fheval vault moved --kit ./kit --state /srv/new/vault --reason 'new disk'\n\n"
    "fheval vault moved --kit ./kit --state ./vault --lost --reason 'disk broke, no backup'"
)
def moved(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is written down.", show_default=False)],
    kit: KitOption = None,
    state: StateOption = None,
    lost: Annotated[
        bool, typer.Option("--lost", help="The ledger is lost for good: begin a new one, which says so.")
    ] = False,
) -> None:
    """Note, in the ledger and in the kit, that you have moved the vault's ledger, or that it is lost."""
    if state is None:
        raise ConfigError("Where is the ledger now? Name its directory with --state DIR.")
    files = _files(kit, state, None)
    member = load_kit(files.kit, now=utc_now()).identity.name
    note = replace_ledger if lost else move_ledger
    note(files.kit, member, files.ledger, reason, now=utc_now())
    typer.echo(f"The ledger of {member} is in {files.ledger.parent.resolve()} from now on.")


@app.command(epilog="Example: fheval vault rounds --kit ./kit --json -")
def rounds(kit: KitOption = None, state: StateOption = None, json: options.Json = None) -> None:
    """List the rounds that the vault took part in, and what came out."""
    check_target(json)
    files = _files(kit, state, None)
    with Ledger.read(files.ledger) as ledger:
        history = ledger.history()
    if json is None:
        Console(highlight=False).print(rounds_table(history))
    else:
        write_json(json, rounds_json(history))


def _by_name(option: str, texts: list[str] | None) -> dict[str, str]:
    """Read `NAME=THING`, or a thing that goes by its own name."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, thing = text.partition("=")
        if name in found:
            raise ConfigError(f"{option} names {name} twice. Name each once.")
        found[name] = thing if equals else name
    return found


def _files(kit: Path | None, state: Path | None, socket: Path | None) -> VaultFiles:
    if kit is None:
        raise ConfigError("Which vault? Name its kit with --kit KIT.")
    return VaultFiles.of(kit, state, socket)


def _log_to_standard_error() -> None:
    """One line an event; systemd's journal adds the time."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log = logging.getLogger("fheval.vault")
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
