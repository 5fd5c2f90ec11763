"""Every metric against scikit-learn, statsmodels and lifelines on pooled rows, in one process and between vaults.

Rows are made: ordinary ones, heavy ties, parties of few rows or of none, parties of one class, all scores equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import metrics_oracle
from fheval import Grid, Table, evaluate
from fheval.evaluation import Row
from fheval.metrics.registry import METRICS
from fheval.protocols import PROTOCOLS
from fheval.study import Study
from keys_consortium import Consortium
from vault.trial import CLEAR, NAMES, make_consortium, running

pytest.importorskip("lifelines")
pytest.importorskip("statsmodels")

GRID = Grid.even(21)
TARGETS = (0.0, 8.0)
PADDED = ("padded", "padded-verified")
KINDS = ("ordinary", "heavy ties", "few rows", "one class each", "equal scores")

Party = tuple[NDArray[Any], NDArray[np.float64]]

# What is asked together: metrics of labels, of values and of times.
ASKED = {
    "labels": tuple(
        f"{name}@0.3" if metric.threshold else name
        for name, metric in METRICS.items()
        if not metric.targets and metric.gap_of is None
    ),
    "values": tuple(name for name, metric in METRICS.items() if metric.targets and name not in ("concordance", "mean")),
    "mean": ("mean",),
    "times": ("concordance",),
}


def test_every_metric_is_known_elsewhere_and_asked_for_here() -> None:
    """Differences of groups are those of rates that are known, and asked for in tests/unit/test_metrics_gaps.py."""
    plain = {name for name, metric in METRICS.items() if metric.gap_of is None}
    assert plain == metrics_oracle.KNOWN
    assert {metric.partition("@")[0] for asked in ASKED.values() for metric in asked} == plain
    assert {metric.gap_of for metric in METRICS.values() if metric.gap_of is not None} <= metrics_oracle.KNOWN


def dealt(kind: str, of: str) -> list[Party]:
    """Five parties' rows. Scores lie on the points of a grid and times on steps, so that counting loses nothing."""
    rng = np.random.default_rng(sum(kind.encode()))
    found = []
    for number in range(len(NAMES)):
        rows = 2 if kind == "few rows" and number else 0 if kind == "empty parties" and number % 2 else 40
        labels: NDArray[Any] = rng.integers(0, 2, rows)
        scores = np.ceil((0.3 * labels + 0.7 * rng.random(rows)) * 20) / 20
        if kind == "one class each":
            labels = np.full(rows, number % 2)
        if kind == "equal scores":
            scores = np.full(rows, 0.35)
        if kind == "heavy ties":
            scores = np.where(scores > 0.5, 0.75, 0.25)
        if of in ("values", "mean"):
            labels, scores = rng.uniform(*TARGETS, rows).round(3), (8 * scores).round(3)
        if of == "times":
            times = rng.integers(0, 20 if kind == "heavy ties" else 160, rows) * 0.05 + 0.025
            event = rng.random(rows) < (number % 2 if kind == "one class each" else 0.6)
            labels = np.where(event, times, -times)
        found.append((labels, scores))
    return found


def study_of(of: str, protocol: str, made: Callable[..., Study], **others: Any) -> Study:
    targets = None if of == "labels" else TARGETS
    return made(protocol=protocol, metrics=ASKED[of], grid=GRID, target_range=targets, max_samples=1 << 10, **others)


def plain_study(**fields: Any) -> Study:
    return Study(precision=PROTOCOLS[fields["protocol"]].default_precision, reveals="counts", **fields)


def pooled(metric: str, parties: Sequence[Party]) -> float | None:
    if metric in metrics_oracle.AMONG_PARTIES:
        return metrics_oracle.among_parties(metric, parties)
    labels, scores = (np.concatenate(each) for each in zip(*parties, strict=True))
    return metrics_oracle.pooled(metric, labels, scores)


def resolution(metric: str, parties: Sequence[Party]) -> float:
    """What fixed-point counting leaves open."""
    if metric in metrics_oracle.AMONG_PARTIES:
        # Weights are whole numbers, of which few rows have few, and AUCs are multiples of 2^-16.
        return 5e-3
    if metric in ASKED["values"]:
        return 1e-5
    labels, scores = (np.concatenate(each) for each in zip(*parties, strict=True))
    return metrics_oracle.resolution(metric, labels, scores) * (TARGETS[1] if metric == "mean" else 1)


def assert_as_pooled(rows: Iterable[Row], parties: Sequence[Party], metrics: Sequence[str]) -> None:
    told = {row.metric: row for row in rows}
    assert tuple(told) == tuple(metrics)
    for metric, row in told.items():
        expected = pooled(metric, parties)
        if expected is None:
            assert row.value is None, metric
            assert row.error is not None, metric
            assert "undefined" in row.error, metric
            continue
        assert row.error is None, (metric, row.error)
        width = row.precision if isinstance(row.precision, float) else 0.0
        tolerance = resolution(metric, parties) + 0.6 * width + (row.binning or 0.0) + 1e-9
        assert row.value == pytest.approx(expected, abs=tolerance), metric


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("kind", [*KINDS, "empty parties"])
@pytest.mark.parametrize("of", ASKED)
def test_one_process_gives_what_pooled_rows_give(of: str, kind: str, protocol: str) -> None:
    parties = dealt(kind, of)
    result = evaluate([Table.of(*party) for party in parties], study=study_of(of, protocol, plain_study), engine=CLEAR)
    assert_as_pooled(result.results, parties, ASKED[of])


def test_an_engine_of_ciphertexts_gives_the_same() -> None:
    parties = dealt("heavy ties", "labels")
    result = evaluate(
        [Table.of(*party) for party in parties], study=study_of("labels", "padded", plain_study), engine="seal"
    )
    assert_as_pooled(result.results, parties, ASKED["labels"])


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return make_consortium(tmp_path_factory.mktemp("metrics"))


def write(path: Path, party: Party) -> None:
    lines = (f"{label!r},{score!r}\n" for label, score in zip(party[0].tolist(), party[1].tolist(), strict=True))
    path.write_text("label,score\n" + "".join(lines))


def assert_vaults_agree(consortium: Consortium, folder: Path, of: str, kind: str, protocol: str) -> None:
    parties = dealt(kind, of)
    with running(folder, consortium) as trial:
        for name, party in zip(NAMES, parties, strict=True):
            write(trial.data(name), party)
        trial.play(study_of(of, protocol, trial.study))
        for member in NAMES:
            assert_as_pooled(trial.rows(member), parties, ASKED[of])


def test_vaults_give_what_pooled_rows_give(consortium: Consortium, tmp_path: Path) -> None:
    assert_vaults_agree(consortium, tmp_path, "labels", "heavy ties", "padded")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", ASKED)
def test_vaults_give_what_any_rows_give(
    consortium: Consortium, tmp_path: Path, of: str, kind: str, protocol: str
) -> None:
    assert_vaults_agree(consortium, tmp_path, of, kind, protocol)
