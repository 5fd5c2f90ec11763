"""`fheval simulate`: split one data set at random among parties, then as `fheval evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from fheval.cli import asking, options
from fheval.cli.output import check_targets
from fheval.cli.progress import waiting
from fheval.cli.request import make_request
from fheval.cli.rounds import count_and_run, deliver, run_tables
from fheval.counting import Counts, Grid, read_pair
from fheval.evaluation.splitting import split_randomness, split_rows

app = typer.Typer()

Share = tuple[NDArray[np.uint8], NDArray[np.float64]]


@app.command(
    epilog="Examples:\n\n"
    "fheval simulate --labels labels.txt --scores scores.txt --parties 15\n\n"
    "fheval simulate --labels y.npy --scores s.npy --parties 15 --protocol paper-semi-honest --precision exact "
    "--decision-points 100 --seed 1 --json -"
)
def simulate(
    labels: Annotated[Path, typer.Option(metavar="FILE", help="Labels, one a row: .txt or .npy.", show_default=False)],
    scores: Annotated[Path, typer.Option(metavar="FILE", help="Scores, one a row: .txt or .npy.", show_default=False)],
    parties: Annotated[int, typer.Option(metavar="M", min=1, help="How many parties there are.", show_default=False)],
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Repeat the same split; it says nothing about keys.", show_default="a new one"
        ),
    ] = None,
    decision_points: options.DecisionPoints = None,
    grid: options.GridChoice = "even",
    score_kind: options.ScoreKindOption = options.ScoreKind.PROBABILITY,
    metric: asking.Metrics = None,
    ci: asking.Confidence = None,
    replicates: asking.Replicates = asking.REPLICATES,
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
    """Split one data set at random among parties, then as evaluate.

    The parties get equally many rows, to within one.
    """
    check_targets(json, report)
    asked = asking.Asked(
        metrics=tuple(metric or asking.DEFAULT_METRICS),
        ci=ci,
        replicates=replicates,
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
    shares = read_shares(labels, scores, parties, seed, request.grid, quiet=quiet)

    def count(share: Share) -> Counts:
        return Counts.from_scores(*share, request.grid)

    if asked.is_one_auc:
        result = count_and_run(request, shares, count, quiet=quiet)
    else:
        result = run_tables(request, shares, quiet=quiet)
    deliver(result, [labels, scores], json=json, report=report, quiet=quiet)


def read_shares(
    labels: Path, scores: Path, parties: int, seed: int | None, grid: Grid | None, *, quiet: bool
) -> list[Share]:
    """Read the data set, with scores that suit the grid if there is one, and deal it out."""
    with waiting("Reading", quiet=quiet):
        label_array, score_array = read_pair(labels, scores, grid)
    shares = split_rows(len(label_array), parties, split_randomness(seed))
    return [(label_array[rows], score_array[rows]) for rows in shares]
