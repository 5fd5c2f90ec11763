"""`fheval simulate`: split one data set at random among parties, then as `fheval evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fheval.cli import check_targets, options
from fheval.cli.evaluate import run_and_deliver
from fheval.cli.progress import waiting
from fheval.counting import Grid, read_pair
from fheval.errors import ConfigError
from fheval.secrets import SEED_BYTES, Randomness, Secret, SystemRandomness, derive, permutation

app = typer.Typer()

Share = tuple[NDArray[np.uint8], NDArray[np.float64]]


@app.command(
    epilog="Examples:\n\n"
    "fheval simulate --labels labels.txt --scores scores.txt --parties 15\n\n"
    "fheval simulate --labels y.npy --scores s.npy --parties 15 --protocol paper-semi-honest --precision exact "
    "--decision-points 100 --seed 1 --json -\n\n"
    "fheval simulate --labels labels.txt --scores scores.txt --parties 15 --minimum-cohort 12 --release noisy-curve "
    "--epsilon 1"
)
@options.takes_study("class_", "group_column", "minimum_group", "group", "rows_per_cluster", "target_range")
def simulate(
    asked: Mapping[str, Any],
    labels: Annotated[Path, typer.Option(metavar="FILE", help="Labels, one a row: .txt or .npy.", show_default=False)],
    scores: Annotated[Path, typer.Option(metavar="FILE", help="Scores, one a row: .txt or .npy.", show_default=False)],
    parties: Annotated[int, typer.Option(metavar="M", min=1, help="How many parties there are.", show_default=False)],
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Repeat the same split; it says nothing about keys.", show_default="a new one"
        ),
    ] = None,
    engine: options.EngineName = None,
    json: options.Json = None,
    report: options.Report = None,
    quiet: options.Quiet = False,
) -> None:
    """Split one data set at random among parties, then as evaluate.

    The parties get equally many rows, to within one.
    """
    check_targets(json, report)
    study = options.chosen_study(asked)
    shares = read_shares(labels, scores, parties, seed, study.grid, quiet=quiet)
    run_and_deliver(study, shares, [labels, scores], engine=engine, json=json, report=report, quiet=quiet)


def read_shares(
    labels: Path, scores: Path, parties: int, seed: int | None, grid: Grid | None, *, quiet: bool
) -> list[Share]:
    """Read the data set, with scores that suit the grid if there is one, and deal it out."""
    with waiting("Reading", quiet=quiet):
        label_array, score_array = read_pair(labels, scores, grid)
    shares = split_rows(len(label_array), parties, split_randomness(seed))
    return [(label_array[rows], score_array[rows]) for rows in shares]


def split_rows(rows: int, parties: int, rng: Randomness) -> list[NDArray[np.intp]]:
    """Deal the rows 0 … rows − 1 out at random, equally many to each party to within one."""
    if rows < parties:
        raise ConfigError(f"{rows} rows do not go round {parties} parties. Give more data or fewer parties.")
    return np.array_split(permutation(rng, rows), parties)


def split_randomness(seed: int | None) -> Randomness:
    """What a split is drawn from: the same for the same seed, and never the same without one."""
    if seed is None:
        return SystemRandomness()
    if seed.bit_length() > 8 * SEED_BYTES:
        raise ConfigError(f"--seed has {seed.bit_length()} bits and may have {8 * SEED_BYTES}. Use a smaller number.")
    return derive(Secret(seed.to_bytes(SEED_BYTES, "big")), "simulate/split")
