"""`fheval evaluate`: one round over one file for each party, all roles in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fheval.cli import options
from fheval.cli.output import check_targets, run_and_deliver
from fheval.counting import UNNAMED, TableColumns, TableFile

app = typer.Typer()


@app.command(
    epilog="Examples:\n\n"
    "fheval evaluate --party north.csv --party south.csv --party east.parquet\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --protocol padded-verified --json -\n\n"
    "fheval evaluate --party a.npy --party b.npy --party c.npy --score-kind logit --grid logit --decision-points 99\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --metric auc --metric f1@0.3 --score-column old "
    "--score-column new --group-column sex --ci 0.95 --cluster-column patient\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --study sepsis.toml"
)
@options.takes_study(score_kind=options.ScoreKindOrScoresOption)
def evaluate(
    asked: Mapping[str, Any],
    party: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="One party's labels and scores: .csv, .tsv, .parquet, .npy or .txt. Repeat for each party.",
            show_default=False,
        ),
    ],
    label_column: options.LabelColumn = None,
    score_column: options.ScoreColumns = None,
    cluster_column: options.ClusterColumn = None,
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
    )
    parties = [TableFile(file, columns) for file in party]
    run_and_deliver(study, parties, party, engine=engine, json=json, report=report, quiet=quiet)
