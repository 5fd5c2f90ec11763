"""`fheval baseline`: the AUC by what fheval is compared with, over one data set split at random among parties."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from fheval.cli import STANDARD_OUTPUT, check_targets, options, write_json, write_page
from fheval.cli.progress import waiting
from fheval.cli.simulate import read_shares
from fheval.cli.tables import facts_table, panel
from fheval.counting.grid import DEFAULT_POINTS
from fheval.report.account import Account
from fheval.version import __version__

# Nobody waits longer; who waits less presses control-C.
_MPC_SECONDS = 86_400.0

app = typer.Typer(
    no_args_is_help=True,
    help="The AUC by what fheval is compared with. The output is that of fheval simulate; fields that do not apply "
    "are null.",
    epilog="Examples:\n\n"
    "fheval baseline dpauc --labels y.npy --scores s.npy --parties 15 --epsilon 8 --decision-points 100\n\n"
    "fheval baseline mpc --labels y.npy --scores s.npy --parties 3 --json -",
)

Labels = Annotated[Path, typer.Option(metavar="FILE", help="Labels, one a row: .txt or .npy.", show_default=False)]
Scores = Annotated[Path, typer.Option(metavar="FILE", help="Scores, one a row: .txt or .npy.", show_default=False)]
PartyNumber = Annotated[
    int, typer.Option("--parties", metavar="M", min=1, help="How many parties there are.", show_default=False)
]
Seed = Annotated[int | None, typer.Option(metavar="N", min=0, help="Repeat the same split.", show_default="a new one")]
DecisionPoints = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many decision points the curve has.", show_default=str(DEFAULT_POINTS)),
]


@app.command(
    epilog="Example: fheval baseline dpauc --labels y.npy --scores s.npy --parties 15 --epsilon 8 --decision-points 100"
)
def dpauc(
    labels: Labels,
    scores: Scores,
    parties: PartyNumber,
    epsilon: Annotated[float, typer.Option(metavar="E", help="The privacy budget.")] = 1.0,
    seed: Seed = None,
    decision_points: DecisionPoints = None,
    grid: options.GridChoice = "even",
    score_kind: options.ScoreKindOption = options.ScoreKind.PROBABILITY,
    json: options.Json = None,
    report: options.Report = None,
    quiet: options.Quiet = False,
) -> None:
    """Differential privacy: every party adds noise to its counts and shows them to the aggregator."""
    from fheval_lab.baselines import accounts
    from fheval_lab.baselines.dpauc import dpauc

    check_targets(json, report)
    chosen = options.chosen_grid(grid, decision_points, score_kind)
    shares = read_shares(labels, scores, parties, seed, chosen, quiet=quiet)
    with waiting("Computing with dpauc", quiet=quiet):
        # A party that released its counts a hundred times would have spent a hundred budgets.
        done = dpauc(shares, epsilon, chosen, repetitions=1)
    content = _content("dpauc", parties, len(chosen), done.mean) | {
        # Drawing the noise is nearly all of it, and each party draws its own.
        "seconds": {"party": done.seconds / parties, "leader": None, "aggregator": None, "decrypt": None},
        "bytes": {"party_upload": accounts.dpauc_upload(done), "leader_upload": None, "result": None},
        "epsilon": done.epsilon,
        "noise_scale": done.noise_scale,
    }
    account = accounts.account_of_dpauc(done, [labels.name, scores.name])
    _deliver(account, content, json=json, report=report, quiet=quiet)


@app.command(epilog="Example: fheval baseline mpc --labels y.npy --scores s.npy --parties 3 --json -")
def mpc(
    labels: Labels,
    scores: Scores,
    parties: PartyNumber,
    seed: Seed = None,
    json: options.Json = None,
    report: options.Report = None,
    quiet: options.Quiet = False,
) -> None:
    """Multi-party computation: the exact AUC on secret shares, by three processes on this machine."""
    from fheval_lab.baselines.accounts import account_of_mpc
    from fheval_lab.baselines.mpc import mpc_auc

    check_targets(json, report)
    shares = read_shares(labels, scores, parties, seed, None, quiet=quiet)
    with waiting("Computing with mpc", quiet=quiet):
        done = mpc_auc(shares, timeout=_MPC_SECONDS)
    content = _content("mpc", parties, None, done.auc) | {
        "precision": "exact",
        # The computing processes stand where the aggregator stands elsewhere.
        "seconds": {"party": None, "leader": None, "aggregator": done.computing_seconds, "decrypt": None},
        "bytes": {"party_upload": None, "leader_upload": None, "result": None},
        "traffic": done.bytes_sent,
        "comparisons": done.comparisons,
    }
    account = account_of_mpc(done, [labels.name, scores.name])
    _deliver(account, content, json=json, report=report, quiet=quiet)


def _deliver(account: Account, content: dict[str, Any], *, json: str | None, report: Path | None, quiet: bool) -> None:
    """Write JSON and page where asked for, and show the result to people unless standard output is the JSON's."""
    if json is not None:
        write_json(json, content)
    if report is not None:
        write_page(report, account)
    if json == STANDARD_OUTPUT:
        return
    if not quiet:
        Console(highlight=False).print(account_panel(account))
    elif json is None:
        typer.echo(account.headlines[0].value)


def account_panel(account: Account) -> RenderableType:
    """The figure, what stands behind it, who saw what and what it cost, and what to beware of."""
    columns = Column("saw", ratio=1), Column("sent", justify="right"), Column("worked", justify="right")
    roles = Table("role", *columns, box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for role in account.roles:
        roles.add_row(role.name, role.saw, role.sent, role.worked)
    figure = Text.assemble((account.headlines[0].value, "bold green"), "  ", (account.release, "dim"))
    caution = Text(account.caution or "", style="yellow")
    return panel(account.title, [figure, "", facts_table(account.facts), "", roles, "", caution])


def _content(protocol: str, parties: int, decision_points: int | None, auc: float) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "engine": None,
        "parties": parties,
        "decision_points": decision_points,
        "auc": auc,
        "precision": None,
        "verified": None,
        "soundness_bits": None,
        "fheval": __version__,
    }
