"""`fheval evaluate`: one round over one file for each party, all roles in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fheval.cli import STANDARD_OUTPUT, check_targets, options, write_json, write_markdown, write_page
from fheval.counting import UNNAMED, TableColumns, TableFile, TableSource
from fheval.evaluation import PartyData, Result, evaluate_study
from fheval.study import Study

app = typer.Typer()


@app.command(
    epilog="Examples:\n\n"
    "fheval evaluate --party north.csv --party south.csv --party east.parquet\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --protocol padded-verified --json -\n\n"
    "fheval evaluate --party a.npy --party b.npy --party c.npy --score-kind logit --grid logit --decision-points 99\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --metric auc --metric f1@0.3 --score-column old "
    "--score-column new --group-column sex --ci 0.95 --cluster-column patient\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --release noisy-curve --epsilon 1 "
    "--report curve.html\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --study sepsis.toml"
)
@options.takes_study(score_kind=options.ScoreKindOrScoresOption)
def evaluate(
    asked: Mapping[str, Any],
    party: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="One party's labels and scores: .csv, .tsv or .jsonl (also .gz and .zst), .parquet, .feather, .npy, "
            ".txt. Repeat for each party.",
            show_default=False,
        ),
    ],
    label_column: options.LabelColumn = None,
    score_column: options.ScoreColumns = None,
    cluster_column: options.ClusterColumn = None,
    positive: options.Positive = None,
    percent: options.Percent = False,
    engine: options.EngineName = None,
    json: options.Json = None,
    report: options.Report = None,
    quiet: options.Quiet = False,
) -> None:
    """One round over one file for each party, all roles in this process.

    Every file is counted in one pass and bounded memory; the aggregator sees ciphertexts or padded numbers only.
    """
    check_targets(json, report)
    study = options.chosen_study(asked, score_column, by_cluster=cluster_column is not None)
    columns = TableColumns(
        label=label_column,
        models=() if study.models == (UNNAMED,) else study.models,
        classes=study.classes,
        group=study.group_column,
        cluster=cluster_column,
        positive=positive,
        percent=percent,
    )
    parties = [_source(file, columns) for file in party]
    run_and_deliver(study, parties, party, engine=engine, json=json, report=report, quiet=quiet)


def _source(file: Path, columns: TableColumns) -> TableSource:
    """The rows of a file, or of the query that is in it."""
    if file.suffix == ".toml":
        from fheval.databases import read_query

        return read_query(file).table(columns)
    return TableFile(file, columns)


def run_and_deliver(
    study: Study,
    parties: Sequence[PartyData],
    files: Sequence[Path],
    *,
    engine: str | None,
    json: str | None,
    report: Path | None,
    quiet: bool,
) -> None:
    """Run one round in this process; write its JSON and page where asked for, and show it to people.

    `files` are those that the parties' data came from.
    """
    if quiet:
        result = evaluate_study(study, parties, engine=engine)
    else:
        from fheval.cli.progress import round_bar

        with round_bar(len(parties)) as on_work:
            result = evaluate_study(study, parties, engine=engine, on_work=on_work)
    if json is not None:
        write_json(json, result.to_dict())
    if report is not None:
        from fheval.report.account import account_of, file_names

        account = account_of(result, file_names(files))
        if report.suffix == ".md":
            write_markdown(report, result, account)
        else:
            write_page(report, account)
    if json != STANDARD_OUTPUT:
        _show(study, result, quiet=quiet, written=json is not None)


def _show(study: Study, result: Result, *, quiet: bool, written: bool) -> None:
    from rich.console import Console

    from fheval.cli.tables import quiet_lines, result_panel

    if not quiet:
        console = Console(highlight=False)
        console.print(result_panel(result))
        said = _revealed(study, result)
        if said:
            console.print(said, style="yellow")
    elif not written:
        typer.echo("\n".join(quiet_lines(result)))


def _revealed(study: Study, result: Result) -> str | None:
    """That the numbers give the counts away, where they do and nobody has said so."""
    from fheval.disclosure import disclosed_by

    if study.release != "ratios" or study.precision is None or study.reveals == "counts":
        return None
    found = disclosed_by(study, result.rows, rounds=1)
    if found.reveals == "ratios":
        return None
    other = f" A precision of {found.precision_needed:g} would not." if found.precision_needed else ""
    return (
        f"These numbers give away the counts of {', '.join(found.by)} behind them, or nearly, to whoever knows the "
        f"number of rows.{other} See: fheval study check"
    )
