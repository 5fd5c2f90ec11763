"""`fheval vault`: a party's trust boundary beside its data, and a look at what it has answered."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fheval.cli import check_file, check_target, check_targets, options, write_json, write_page, write_text
from fheval.cli.acceptance import accept_all, acceptance_of, offer, take_over
from fheval.cli.transports import relay_of
from fheval.cli.vault_views import result_of, rounds_json, rounds_table, status_json, status_table
from fheval.consortium import load_kit, open_study
from fheval.consortium.files import read_public
from fheval.errors import ConfigError
from fheval.party.accepted import AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.core import utc_now
from fheval.party.ledger import History, Ledger
from fheval.party.ledger_place import move_ledger, open_ledger, replace_ledger
from fheval.party.log import log_to_standard_error
from fheval.party.member_file import MemberFile
from fheval.party.process import VaultFiles, run_vault
from fheval.party.receipts import receipt_of
from fheval.study import Study

app = typer.Typer(
    invoke_without_command=True,
    epilog="Examples:\n\n"
    "fheval vault accept --kit ./kit sepsis-2026.fhev --data scores.parquet --lineage sepsis-icu\n\n"
    "fheval vault --kit ./kit\n\n"
    "fheval vault rounds --kit ./kit --json -",
)

LAST = "last"

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

RoundArgument = Annotated[
    str, typer.Argument(metavar="ROUND", help="The round's id, how it begins, or: last", show_default=False)
]


@app.callback()
def vault(
    context: typer.Context, kit: KitOption = None, state: StateOption = None, socket: SocketOption = None
) -> None:
    """Keep this party's keys, and answer rounds of the accepted studies on a Unix socket.

    It runs until it is told to stop; `accept`, `status` and `rounds` work also while it runs.
    """
    if context.invoked_subcommand is None:
        up(None, kit, state, socket)
    elif any((kit, state, socket)):
        raise ConfigError(f"Give the options behind the command: fheval vault {context.invoked_subcommand} --kit KIT")


@app.command(epilog="Examples:\n\nfheval vault up member.toml --connect\n\nfheval vault up --kit ./kit")
def up(
    member: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MEMBER.toml]", help="The member's file: kit, bulletin, studies and data.", show_default=False
        ),
    ] = None,
    kit: KitOption = None,
    state: StateOption = None,
    socket: SocketOption = None,
    connect: Annotated[
        bool,
        typer.Option("--connect", help="Start the connection to the hub as well, as a process of its own."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the file's studies without asking.")] = False,
) -> None:
    """Serve all accepted studies, until Ctrl-C or SIGTERM.

    With a member's file, the kit is completed from the authority's bulletin first, and you are asked about every study
    of the file that you have not accepted yet. Accepting, and connections, are also commands of their own, for members
    that run both as users of their own.
    """
    if member is None:
        files = _files(kit, state, socket)
    else:
        file, files = _member_file(member, kit, state, socket)
        take_over(file)
        accept_all(file, files, yes=yes)
    log_to_standard_error("fheval.vault")
    run_vault(files, beside=relay_of(files) if connect else nullcontext())


def _member_file(
    path: Path, kit: Path | None, state: Path | None, socket: Path | None
) -> tuple[MemberFile, VaultFiles]:
    if kit is not None:
        raise ConfigError(f"{path} says which kit it is about. Leave --kit out.")
    file = MemberFile.read(path)
    own_state = state or (None if file.state is None else Path(file.state))
    own_socket = socket or (None if file.socket is None else Path(file.socket))
    return file, VaultFiles.of(Path(file.kit), own_state, own_socket)


@app.command(
    epilog="Examples:\n\n"
    "fheval vault accept --kit ./kit sepsis-2026.fhev --data scores.parquet --lineage sepsis-icu\n\n"
    "fheval vault accept --kit ./kit two-models.fhev --data scores.csv --label-column died "
    "--score-column old=risk_2019 --score-column new=risk --cluster-column patient_id --lineage icu --yes"
)
def accept(
    study: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY.fhev|MEMBER.toml", help="The signed study, or the member's file.", show_default=False
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="This party's labels and scores: .csv, .tsv, .parquet, .npy or .txt.",
            show_default=False,
        ),
    ] = None,
    lineage: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What you call these data, however often rows are added. What may be released is counted by it.",
            show_default=False,
        ),
    ] = None,
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
    group_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the groups that the study names, where it is called otherwise than in the study.",
            show_default=False,
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
    if study.suffix == ".toml":
        file, files = _member_file(study, kit, state, None)
        take_over(file)
        accept_all(file, files, yes=yes)
        return
    if data is None or lineage is None:
        raise ConfigError("Which data answer the study? Name them with --data FILE and --lineage NAME.")
    files = _files(kit, state, None)
    member = load_kit(files.kit, now=utc_now())
    signed = read_public(study)
    asked = open_study(signed, member.identity.anchor)
    columns = StudyColumns(
        label=label_column,
        models=_models(asked, score_column),
        classes=_by_name("--class", class_),
        cluster=cluster_column,
        group=group_column,
    )
    if not offer(files, member, acceptance_of(signed, data, columns, lineage), yes=yes):
        raise typer.Exit(1)


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


@app.command(epilog="Example: fheval vault report --kit ./kit ce2490f9 out.html")
def report(
    round_id: RoundArgument,
    target: Annotated[Path, typer.Argument(metavar="FILE.html", help="Where the page goes.", show_default=False)],
    kit: KitOption = None,
    state: StateOption = None,
) -> None:
    """Write a page about a round and its result, as `fheval evaluate --report` does."""
    from fheval.report.account import account_of

    check_targets(None, target)
    with Ledger.read(_files(kit, state, None).ledger) as ledger:
        found = _found(ledger, round_id)
    write_page(target, account_of(result_of(found)), (found.ended or found.began).astimezone())
    typer.echo(f"{target} tells about round {found.round.id}. Others can check a receipt of it: fheval vault receipt")


@app.command(epilog="Example: fheval vault receipt --kit ./kit last receipt.json")
def receipt(
    round_id: RoundArgument,
    target: Annotated[Path, typer.Argument(metavar="FILE.json", help="Where it goes.", show_default=False)],
    kit: KitOption = None,
    state: StateOption = None,
) -> None:
    """Write a signed receipt of a round's result, which anybody can check with `fheval verify`.

    It says which study was asked, who took part and what came out, in the decimals that all members were told, and
    nothing of your own rows. It is your member's word: whoever wants more asks the leader and the checkers for theirs.
    """
    check_file("The receipt", target)
    files = _files(kit, state, None)
    member = load_kit(files.kit, now=utc_now())
    with Ledger.read(files.ledger) as ledger:
        found = _found(ledger, round_id)
    made = receipt_of(found, member, files, now=utc_now())
    write_text(target, made.to_bytes().decode())
    typer.echo(f"{target} is {member.identity.name}'s receipt of round {found.round.id}.")


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


def _by_name(option: str, texts: list[str] | None) -> dict[str, str]:
    """Read `NAME=THING`, or a thing that goes by its own name."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, thing = text.partition("=")
        if name in found:
            raise ConfigError(f"{option} names {name} twice. Name each once.")
        found[name] = thing if equals else name
    return found


def _found(ledger: Ledger, round_id: str) -> History:
    """The one round that is meant."""
    history = ledger.history()
    found = history[-1:] if round_id == LAST else [each for each in history if each.round.id.startswith(round_id)]
    if len(found) != 1:
        several = f"{len(found)} rounds begin" if found else "No round begins"
        raise ConfigError(f"{several} with {round_id!r}. See: fheval vault rounds")
    return found[0]


def _files(kit: Path | None, state: Path | None, socket: Path | None) -> VaultFiles:
    if kit is None:
        raise ConfigError("Which vault? Name its kit with --kit KIT.")
    return VaultFiles.of(kit, state, socket)
