"""`fheval evaluate`: one round over one file for each party, all roles in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fheval.cli import asking, options
from fheval.cli.output import check_targets
from fheval.cli.request import make_request
from fheval.cli.rounds import count_and_run, deliver, run_tables
from fheval.counting import Counts, TableFile, count_file

app = typer.Typer()


@app.command(
    epilog="Examples:\n\n"
    "fheval evaluate --party north.csv --party south.csv --party east.parquet\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --protocol padded-verified --json -\n\n"
    "fheval evaluate --party a.npy --party b.npy --party c.npy --score-kind logit --grid logit --decision-points 99\n\n"
    "fheval evaluate --party a.csv --party b.csv --party c.csv --metric auc --metric f1@0.3 --score-column old "
    "--score-column new --group-column sex --ci 0.95 --cluster-column patient"
)
def evaluate(
    party: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="One party's labels and scores: .csv, .tsv, .parquet, .npy or .txt. Repeat for each party.",
            show_default=False,
        ),
    ],
    decision_points: options.DecisionPoints = None,
    grid: options.GridChoice = "even",
    score_kind: options.ScoreKindOrScoresOption = options.ScoreKind.PROBABILITY,
    label_column: options.LabelColumn = None,
    score_column: asking.ScoreColumns = None,
    metric: asking.Metrics = None,
    class_: asking.Classes = None,
    group_column: asking.GroupColumn = None,
    minimum_group: asking.MinimumGroup = asking.MINIMUM_GROUP,
    ci: asking.Confidence = None,
    replicates: asking.Replicates = asking.REPLICATES,
    cluster_column: asking.ClusterColumn = None,
    target_range: asking.TargetRange = None,
    release: asking.ReleaseOption = asking.Release.RATIO,
    allow_curves: asking.AllowCurves = False,
    protocol: options.Protocol = options.PROTOCOL,
    precision: options.Precision = None,
    engine: options.EngineName = None,
    splits: options.Splits = options.SPLITS,
    runs: options.Runs = options.RUNS,
    packing: options.PackingOption = options.Packing.PAPER,
    minimum_cohort: options.MinimumCohort = options.MINIMUM_COHORT,
    max_samples: options.MaxSamples = options.MAX_SAMPLES,
    json: options.Json = None,
    report: options.Report = None,
    quiet: options.Quiet = False,
) -> None:
    """One round over one file for each party, all roles in this process.

    Every file is counted in one pass and bounded memory; the aggregator sees ciphertexts or padded numbers only.
    """
    check_targets(json, report)
    asked = asking.Asked(
        metrics=tuple(metric or asking.DEFAULT_METRICS),
        classes=tuple(class_ or ()),
        group_column=group_column,
        minimum_group=minimum_group,
        ci=ci,
        replicates=replicates,
        by_cluster=cluster_column is not None,
        target_range=asking.chosen_range(target_range),
        release=release.value,
        allow_curves=allow_curves,
    )
    request = make_request(
        protocol=protocol,
        decision_points=decision_points,
        grid=grid,
        score_kind=score_kind,
        precision=precision,
        engine=engine,
        splits=splits,
        runs=runs,
        packing=packing,
        minimum_cohort=minimum_cohort,
        max_samples=max_samples,
        asked=asked,
    )
    columns = asking.asked_columns(asked, label_column, score_column, cluster_column)

    def count(file: Path) -> Counts:
        return count_file(file, request.grid, label_column=label_column, score_column=next(iter(columns.models), None))

    if asked.is_one_auc and len(columns.models) <= 1:
        result = count_and_run(request, party, count, quiet=quiet)
    else:
        result = run_tables(request, [TableFile(file, columns) for file in party], quiet=quiet)
    deliver(result, party, json=json, report=report, quiet=quiet)
