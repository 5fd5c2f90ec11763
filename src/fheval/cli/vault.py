"""`fheval vault`: a party's trust boundary beside its data, and a look at what it has answered."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from fheval.cli import check_target, options, write_json
from fheval.cli.vault_views import rounds_json, rounds_table, status_json, status_table
from fheval.consortium import check_study, load_kit, open_study
from fheval.consortium.files import read_public
from fheval.consortium.records import check_name
from fheval.disclosure import disclosed_by, disclosure_in_words, study_in_words
from fheval.errors import ConfigError
from fheval.party.accepted import Acceptance, AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.core import utc_now
from fheval.party.ledger import Ledger
from fheval.party.ledger_place import move_ledger, open_ledger, replace_ledger
from fheval.party.prepare import accept_study, attempts
from fheval.party.process import VaultFiles, run_vault
from fheval.secrets import SystemRandomness
from fheval.study import Study

app = typer.Typer(
    invoke_without_command=True,
    epilog="Examples:\n\n"
    "fheval vault accept --kit ./kit sepsis-2026.fhev --data scores.parquet --lineage sepsis-icu\n\n"
    "fheval vault --kit ./kit\n\n"
    "fheval vault rounds --kit ./kit --json -",
)

_COLUMNS = "What the study's names mean in the file"

KitOption = Annotated[Path | None, typer.Option("--kit", metavar="KIT", help="The member's kit.", show_default=False)]
StateOption = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="Where the ledger is kept.", show_default="where the kit says"),
]
SocketOption = Annotated[
    Path | None,
    typer.Option("--socket", metavar="PATH", help="The Unix socket.", show_default="vault.sock beside the ledger"),
]


@app.callback()
def vault(
    context: typer.Context, kit: KitOption = None, state: StateOption = None, socket: SocketOption = None
) -> None:
    """Keep this party's keys, and answer rounds of the accepted studies on a Unix socket.

    It runs until it is told to stop; `accept`, `status` and `rounds` work also while it runs.
    """
    if context.invoked_subcommand is None:
        up(kit, state, socket)
    elif any((kit, state, socket)):
        raise ConfigError(f"Give the options behind the command: fheval vault {context.invoked_subcommand} --kit KIT")


@app.command(epilog="Example: fheval vault up --kit ./kit")
def up(kit: KitOption = None, state: StateOption = None, socket: SocketOption = None) -> None:
    """Serve all accepted studies; the same as `fheval vault --kit KIT`."""
    files = _files(kit, state, socket)
    _log_to_standard_error()
    run_vault(files)


@app.command(
    epilog="Examples:\n\n"
    "fheval vault accept --kit ./kit sepsis-2026.fhev --data scores.parquet --lineage sepsis-icu\n\n"
    "fheval vault accept --kit ./kit two-models.fhev --data scores.csv --label-column died "
    "--score-column old=risk_2019 --score-column new=risk --cluster-column patient_id --lineage icu --yes"
)
def accept(
    study: Annotated[Path, typer.Argument(metavar="STUDY.fhev", help="The signed study.", show_default=False)],
    data: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="This party's labels and scores: .csv, .tsv, .parquet, .npy or .txt.",
            show_default=False,
        ),
    ],
    lineage: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What you call these data, however often rows are added. What may be released is counted by it.",
            show_default=False,
        ),
    ],
    kit: KitOption = None,
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
            help="The column of a model's scores. Repeat for several models.",
            show_default="the model's name; without one, score, else s",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    class_: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="CLASS=LABEL",
            help="What a class is called in the file. Its scores are in the column COLUMN_LABEL.",
            show_default="the class's name",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    cluster_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of clusters of rows, such as patients, where the study resamples them.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    state: StateOption = None,
) -> None:
    """Agree to answer a study that the consortium's authority has signed, with these data.

    It shows the study in words and asks. Then it reads the data once, checks them, and prepares what the study's rounds
    need: while a vault serves, it reads no row, so that nothing about them shows in its replies. A running vault
    answers the study from then on. Accept a study again to say otherwise about its data.
    """
    files = _files(kit, state, None)
    member = load_kit(files.kit, now=utc_now())
    signed = read_public(study)
    asked = open_study(signed, member.identity.anchor)
    check_study(asked, member.policy)
    check_name(lineage)
    columns = StudyColumns(
        label=label_column,
        models=_models(asked, score_column),
        classes=_by_name("--class", class_),
        cluster=cluster_column,
    )
    columns.translate(asked)
    console = Console(highlight=False)
    for sentence in (*study_in_words(asked), *disclosure_in_words(disclosed_by(asked))):
        console.print(sentence, markup=False)
    console.print(f"It would be answered from {data}, which counts as {lineage}.", markup=False)
    if not yes and not typer.confirm(f"Shall the vault of {member.identity.name} answer this study?"):
        raise typer.Exit(1)
    acceptance = Acceptance(signed=signed, data=str(data.absolute()), columns=columns, lineage=lineage)
    if not Ledger.in_use(files.ledger):
        open_ledger(files.kit, member.identity.name, files.ledger, now=utc_now()).close()
    with AcceptedStudies.open(files.studies) as studies, _bar(attempts(asked)) as advance:
        facts = accept_study(studies, acceptance, SystemRandomness(), now=utc_now(), on_round=advance)
    console.print(f"Study {asked.name} is accepted, and prepared from {facts.rows:,} rows.", markup=False)
    if facts.clipped:
        low, high = asked.target_range or (0.0, 1.0)
        console.print(f"{facts.clipped:,} values were outside {low:g} … {high:g}, and were moved to its ends.")
    if data.stat().st_mode & 0o044:
        console.print(f"{data} can be read by other users. Close it: chmod 600 {data}", markup=False)


@app.command(epilog="Example: fheval vault withdraw --kit ./kit sepsis-2026")
def withdraw(
    study: Annotated[str, typer.Argument(help="The study's name.", show_default=False)],
    kit: KitOption = None,
    state: StateOption = None,
) -> None:
    """Answer a study no longer; what was prepared for it is deleted, the ledger keeps what was released."""
    with AcceptedStudies.open(_files(kit, state, None).studies) as studies:
        if not studies.withdraw(study):
            raise ConfigError(f"No study {study!r} was accepted here. See: fheval vault status")
    typer.echo(f"Study {study} is answered no longer.")


@app.command(epilog="Example: fheval vault status --kit ./kit")
def status(
    kit: KitOption = None, state: StateOption = None, socket: SocketOption = None, json: options.Json = None
) -> None:
    """Show whether the vault runs, which studies it answers or why not, and what was released of its data."""
    check_target(json)
    files = _files(kit, state, socket)
    member = load_kit(files.kit, now=utc_now())
    with Ledger.read(files.ledger) as ledger, AcceptedStudies.open(files.studies) as studies:
        found = status_json(member, ledger, studies, files, running=Ledger.in_use(files.ledger))
    if json is None:
        Console(highlight=False).print(status_table(found))
    else:
        write_json(json, found)


@app.command(
    "reset-budget",
    epilog="Example: fheval vault reset-budget --kit ./kit --lineage sepsis-icu --reason 'only patients of 2027 now'",
)
def reset_budget(
    lineage: Annotated[
        str, typer.Option(metavar="NAME", help="What you called the data, see status.", show_default=False)
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is written down.", show_default=False)],
    kit: KitOption = None,
    state: StateOption = None,
) -> None:
    """Begin to count anew what is released of a lineage, for instance when none of its old rows are left.

    The ledger keeps what was, and notes the reason. The vault must not run.
    """
    files = _files(kit, state, None)
    member = load_kit(files.kit, now=utc_now()).identity.name
    with open_ledger(files.kit, member, files.ledger, now=utc_now()) as ledger:
        ledger.reset_budget(lineage, reason, at=utc_now())
    typer.echo(f"What was released of {lineage} before now counts no longer.")


@app.command(
    epilog="Examples:\n\n"
    "fheval vault moved --kit ./kit --state /srv/new/vault --reason 'new disk'\n\n"
    "fheval vault moved --kit ./kit --state ./vault --new-ledger --reason 'disk broke, no backup'"
)
def moved(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is written down.", show_default=False)],
    kit: KitOption = None,
    state: StateOption = None,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="The ledger is lost for good: begin a new one, which says so.")
    ] = False,
) -> None:
    """Note, in the ledger and in the kit, that you have moved the vault's ledger, or that it is lost.

    Say so, too, when you have restored an older ledger than there was.
    """
    if state is None:
        raise ConfigError("Where is the ledger now? Name its directory with --state DIR.")
    files = _files(kit, state, None)
    member = load_kit(files.kit, now=utc_now()).identity.name
    note = replace_ledger if new_ledger else move_ledger
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


def _models(study: Study, texts: list[str] | None) -> dict[str, str]:
    """Read `--score-column`: the column of the only model needs no `MODEL=`."""
    if len(study.models) == 1 and texts and len(texts) == 1 and "=" not in texts[0]:
        return {study.models[0]: texts[0]}
    return _by_name("--score-column", texts)


@contextmanager
def _bar(rounds: int) -> Iterator[Callable[[], None]]:
    """A bar of so many rounds to prepare, on a terminal; gives the function that moves it."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("preparing", total=rounds)
        yield lambda: progress.advance(task)


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
