"""No sample adds more to a count than its statistic says: by that the width of pads is chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fheval.counting import Grid
from fheval.metrics.registry import Histogram, OwnAuc
from fheval.metrics.statistics import Calibration, Errors, Losses, Predicted, Rows, Statistic, Survival, Values
from fheval.study import Study

GRID = Grid.even(20)
# With the labels and scores that make the most of it.
LARGEST: list[tuple[Statistic, Sequence[float], Sequence[float]]] = [
    (Histogram(GRID), [1, 0, 1], [1.0, 0.0, 0.5]),
    (Losses("log-loss", logits=False), [1, 0, 1], [0.0, 1.0, 0.5]),
    (Losses("brier", logits=False), [1, 0, 1], [0.0, 1.0, 0.5]),
    (Predicted(logits=False), [1, 0, 1], [1.0, 1.0, 0.5]),
    (Values(-3.0, 5.0), [0, 0, 0], [5.0, 5.0, 5.0]),
    (Calibration(logits=False), [1, 0, 1], [1.0, 1.0, 1.0]),
    (Errors(-3.0, 5.0), [5.0, -3.0, 5.0], [-3.0, 5.0, -3.0]),
    (Survival(GRID, 0.0, 10.0), [1.0, 9.0, -9.0], [0.9, 0.1, 0.1]),
]


@pytest.mark.parametrize(("statistic", "labels", "scores"), LARGEST, ids=lambda each: type(each).__name__)
def test_a_sample_adds_no_more_than_it_may(
    statistic: Statistic, labels: Sequence[float], scores: Sequence[float]
) -> None:
    weights = np.array([[1, 1, 1], [12, 0, 7]])
    counted = statistic.tally(Rows(np.array(labels), np.array(scores)), weights)
    largest = np.abs(counted).max(axis=1)
    assert (largest <= weights.sum(axis=1) << statistic.bits).all()
    # Nor is it said to be much larger than it is.
    assert (2 * largest * len(labels) >= weights.sum(axis=1) << statistic.bits).all()


def test_a_partys_own_auc_adds_no_more_than_it_may_for_each_of_its_samples() -> None:
    statistic = OwnAuc(GRID)
    perfect = np.zeros((1, 2 * 19), dtype=np.int64)
    perfect[0, [0, -1]] = 500
    largest = int(statistic.of(perfect).max())
    assert 1000 << statistic.bits >= largest > 1000 << statistic.bits - 1


@pytest.mark.parametrize(
    ("metrics", "bits"),
    [(["auc"], 25), (["auc", "brier"], 49), (["auc", "log-loss"], 55), (["auc", "auc-i2"], 65), (["recall@0.5"], 25)],
)
def test_the_table_of_a_study_has_room_for_its_largest_column(metrics: list[str], bits: int) -> None:
    batch = Study.of(protocol="padded", metrics=metrics, max_samples=1 << 24).batch()
    assert batch.bits == bits
