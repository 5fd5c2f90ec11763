"""What `evaluate` and `simulate` have in common: count each party's data, run the round, hand the result over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import typer
from rich.console import Console

from fheval.cli.metric_tables import metrics_panel, quiet_lines
from fheval.cli.output import STANDARD_OUTPUT, write_json, write_page
from fheval.cli.progress import each, round_bar
from fheval.cli.request import Request
from fheval.cli.tables import result_panel
from fheval.counting import Counts
from fheval.evaluation import PartyData, Result
from fheval.report.account import account_of, is_one_auc
from fheval.report.wording import shown_auc

Source = TypeVar("Source")


def count_and_run(
    request: Request, sources: Sequence[Source], count: Callable[[Source], Counts], *, quiet: bool
) -> Result:
    """Count every party's source, then run one round over the counts."""
    start = perf_counter()
    counts = [count(source) for source in each(sources, "Counting", quiet=quiet)]
    counting = perf_counter() - start
    with round_bar(len(counts), quiet=quiet) as on_work:
        result = request.run(counts, on_work)
    # Counting is a party's own work, although the round began after it.
    seconds = {**result.seconds, "party": result.seconds["party"] + counting / len(sources)}
    return replace(result, seconds=seconds)


def run_tables(request: Request, parties: Sequence[PartyData], *, quiet: bool) -> Result:
    """Run one round over the parties' rows, which are counted in the course of it."""
    with round_bar(len(parties), quiet=quiet) as on_work:
        return request.run(parties, on_work)


def deliver(result: Result, files: Sequence[Path], *, json: str | None, report: Path | None, quiet: bool) -> None:
    """Write JSON and page where asked for, and show the result to people unless standard output is the JSON's.

    `files` are those that the parties' data came from.
    """
    if json is not None:
        write_json(json, result.to_dict())
    if report is not None:
        write_page(report, account_of(result, [file.name for file in files]))
    if json == STANDARD_OUTPUT:
        return
    if not quiet:
        Console(highlight=False).print(result_panel(result) if is_one_auc(result) else metrics_panel(result))
    elif json is None:
        typer.echo(shown_auc(result) if is_one_auc(result) else "\n".join(quiet_lines(result)))
