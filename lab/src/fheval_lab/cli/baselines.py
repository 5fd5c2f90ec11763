"""The baselines as protocols of `fheval simulate`: DPAUC, and the exact AUC by multi-party computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from fheval.cli.options import BASELINES, DPAUC, MPC
from fheval.cli.output import STANDARD_OUTPUT, write_json, write_page
from fheval.cli.progress import waiting
from fheval.cli.tables import account_panel
from fheval.counting import Grid
from fheval.errors import ConfigError
from fheval.report.account import Account
from fheval.version import __version__

if TYPE_CHECKING:
    from fheval_lab.baselines.data import Parties

DEFAULT_EPSILON = 1.0

# Nobody waits longer; who waits less presses control-C.
_MPC_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a baseline gave: the account for people, and the JSON, whose fields are null where they do not apply."""

    account: Account
    content: dict[str, Any]


def check_options(protocol: str, *, epsilon: float | None, precision: str | None, engine: str | None) -> None:
    """Refuse options that the protocol has no use for."""
    if epsilon is not None and protocol != DPAUC:
        raise ConfigError(f"--epsilon is the privacy budget of dpauc, and {protocol} has none. Leave it out.")
    if protocol not in BASELINES:
        return
    for option, given in (("--precision", precision), ("--engine", engine)):
        if given is not None:
            raise ConfigError(f"{protocol} is a baseline and has no {option}. Leave it out.")


def run_baseline(
    protocol: str, parties: Parties, grid: Grid, epsilon: float | None, files: Sequence[Path], *, quiet: bool
) -> Outcome:
    """Run one evaluation by a baseline; `files` are those that the data came from."""
    names = [file.name for file in files]
    with waiting(f"Computing with {protocol}", quiet=quiet):
        if protocol == DPAUC:
            return _dpauc(parties, grid, DEFAULT_EPSILON if epsilon is None else epsilon, names)
        return _mpc(parties, names)


def deliver_baseline(outcome: Outcome, *, json: str | None, report: Path | None, quiet: bool) -> None:
    """Write JSON and page where asked for, and show the result to people unless standard output is the JSON's."""
    if json is not None:
        write_json(json, outcome.content)
    if report is not None:
        write_page(report, outcome.account)
    if json == STANDARD_OUTPUT:
        return
    if not quiet:
        Console(highlight=False).print(account_panel(outcome.account))
    elif json is None:
        typer.echo(outcome.account.figure)


def _dpauc(parties: Parties, grid: Grid, epsilon: float, names: Sequence[str]) -> Outcome:
    from fheval_lab.baselines.accounts import account_of_dpauc, dpauc_upload
    from fheval_lab.baselines.dpauc import dpauc

    # A party that released its counts a hundred times would have spent a hundred budgets.
    done = dpauc(parties, epsilon, grid, repetitions=1)
    content = _content(DPAUC, done.parties, len(grid), done.mean) | {
        # Drawing the noise is nearly all of it, and each party draws its own.
        "seconds": {"party": done.seconds / done.parties, "leader": None, "aggregator": None, "decrypt": None},
        "bytes": {"party_upload": dpauc_upload(done), "leader_upload": None, "result": None},
        "epsilon": done.epsilon,
        "noise_scale": done.noise_scale,
    }
    return Outcome(account=account_of_dpauc(done, names), content=content)


def _mpc(parties: Parties, names: Sequence[str]) -> Outcome:
    from fheval_lab.baselines.accounts import account_of_mpc
    from fheval_lab.baselines.mpc import mpc_auc

    done = mpc_auc(parties, timeout=_MPC_SECONDS)
    content = _content(MPC, done.parties, None, done.auc) | {
        "precision": "exact",
        # The computing processes stand where the aggregator stands elsewhere.
        "seconds": {"party": None, "leader": None, "aggregator": done.computing_seconds, "decrypt": None},
        "bytes": {"party_upload": None, "leader_upload": None, "result": None},
        "traffic": done.bytes_sent,
        "comparisons": done.comparisons,
    }
    return Outcome(account=account_of_mpc(done, names), content=content)


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
