"""How much parties' own AUCs differ, against the formulas of a meta-analysis over pairs of samples."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fheval import Grid, UndefinedMetric, evaluate
from fheval_lab.clear import ClearEngine

METRICS = ["auc-mean", "auc-spread", "auc-i2"]
GRID = Grid.even(101)

Party = tuple[NDArray[np.int64], NDArray[np.float64]]


def parties(*distances: float, rows: int = 400) -> list[Party]:
    """Sites at which the classes lie so far apart; scores on the grid, so that nothing is lost by counting."""
    rng = np.random.default_rng(3)
    found = []
    for distance in distances:
        labels = rng.integers(0, 2, rows)
        logits = rng.normal(size=rows) + distance * labels
        found.append((labels, np.clip(np.round(1 / (1 + np.exp(-logits)), 2), 0.01, 1.0)))
    return found


def delong(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> tuple[float, float]:
    """AUC and variance over all pairs of a positive and a negative."""
    above = scores[labels == 1][:, None] - scores[labels == 0][None, :]
    kernel = (above > 0) + 0.5 * (above == 0)
    variance = kernel.mean(axis=1).var(ddof=1) / len(kernel) + kernel.mean(axis=0).var(ddof=1) / kernel.shape[1]
    assert kernel.mean() == pytest.approx(roc_auc_score(labels, scores))
    return float(kernel.mean()), float(variance)


def meta_analysis(data: list[Party]) -> tuple[float, float, float]:
    """Inverse-variance mean, weighted standard deviation, and I²."""
    own = np.array([delong(*party) for party in data])
    weights = 1 / own[:, 1]
    mean = np.average(own[:, 0], weights=weights)
    q = weights @ (own[:, 0] - mean) ** 2
    return float(mean), sqrt(q / weights.sum()), max(0.0, 1 - (len(data) - 1) / q)


@pytest.mark.parametrize("distances", [(0.5, 1.0, 1.5, 2.0), (1.0,) * 6, (0.2, 0.2, 3.0)])
@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_mean_spread_and_i2_are_those_of_a_meta_analysis(distances: tuple[float, ...], protocol: str) -> None:
    data = parties(*distances)
    result = evaluate(
        data, metrics=METRICS, decision_points=GRID, protocol=protocol, precision="exact", engine=ClearEngine()
    )
    found = [result.value(metric) for metric in METRICS]
    # Weights are whole numbers of about a thousand, and AUCs multiples of 2^-16.
    np.testing.assert_allclose(found, meta_analysis(data), atol=2e-3)


def test_a_party_with_one_class_has_no_weight_and_a_perfect_one_not_all_of_it() -> None:
    data = parties(1.0, 1.2, 0.8)
    one_class = (np.ones(50, dtype=np.int64), np.full(50, 0.5))
    options = {"metrics": METRICS[:2], "decision_points": GRID, "precision": "exact", "engine": ClearEngine()}
    with_it = evaluate([*data, one_class], **options)  # type: ignore[arg-type]
    assert with_it.value("auc-mean") == pytest.approx(meta_analysis(data)[0], abs=1e-3)
    perfect = (np.array([0] * 20 + [1] * 20), np.array([0.1] * 20 + [0.9] * 20))
    assert evaluate([*data, perfect], **options).value("auc-mean") < 0.97  # type: ignore[arg-type]
    with pytest.raises(UndefinedMetric, match="no party has two samples of each class"):
        evaluate([one_class] * 3, **options)  # type: ignore[arg-type]


def test_rounding_of_the_release_is_told() -> None:
    data = parties(0.5, 1.0, 1.5, 2.0)
    result = evaluate(data, metrics=METRICS, decision_points=GRID, precision=1e-4, engine=ClearEngine())
    for row, expected in zip(result.results, meta_analysis(data), strict=True):
        assert isinstance(row.precision, float)
        assert row.value == pytest.approx(expected, abs=row.precision + 2e-3)
