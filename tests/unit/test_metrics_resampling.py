"""Poisson weights: their distribution, and which rows share one."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import exp, factorial

import numpy as np
import pytest

from fheval import InputError, Table
from fheval.metrics.resampling import LARGEST_WEIGHT, Resampler, poisson_thresholds, poisson_weights
from fheval.secrets import Secret, Stream, derive


class Listed:
    """Randomness that gives the listed 32-bit numbers."""

    def __init__(self, numbers: list[int]) -> None:
        self._bytes = np.array(numbers, dtype="<u4").tobytes()

    def draw(self, count: int) -> bytes:
        assert count == len(self._bytes)
        return self._bytes


def stream(name: str = "weights") -> Stream:
    return derive(Secret(bytes(32)), name)


def test_the_table_is_that_of_poisson_to_32_bits() -> None:
    thresholds = [0, *poisson_thresholds(), 1 << 32]
    probabilities = [Fraction(b - a, 1 << 32) for a, b in pairwise(thresholds)]
    for weight, probability in enumerate(probabilities):
        assert abs(float(probability) - exp(-1) / factorial(weight)) < 2.0**-31
    assert sum(exp(-1) / factorial(k) for k in range(LARGEST_WEIGHT + 1, 40)) < 2.0**-32


def test_a_weight_is_how_many_thresholds_a_number_reaches() -> None:
    thresholds = poisson_thresholds()
    numbers = [0, thresholds[0] - 1, thresholds[0], thresholds[4] - 1, thresholds[4], (1 << 32) - 1]
    assert poisson_weights(Listed(numbers), (1, 6)).tolist() == [[0, 0, 1, 4, 5, LARGEST_WEIGHT]]


def test_weights_have_mean_and_variance_one() -> None:
    weights = poisson_weights(stream(), (1000, 1000)).astype(np.float64)
    assert weights.mean() == pytest.approx(1.0, abs=0.005)
    assert weights.var() == pytest.approx(1.0, abs=0.01)
    assert np.corrcoef(weights[0], weights[1])[0, 1] == pytest.approx(0.0, abs=0.1)


def test_line_0_is_the_data_and_no_two_resamples_are_alike() -> None:
    weights = Resampler(20, stream()).weigh(Table.of([0, 1] * 50, [0.5] * 100), by_cluster=False)
    assert weights.shape == (21, 100)
    assert (weights[0] == 1).all()
    assert len({line.tobytes() for line in weights}) == 21


def test_rows_of_a_cluster_weigh_the_same_in_every_stretch_of_rows() -> None:
    table = Table.of([0, 1] * 4, [0.5] * 8, clusters=[3, "b", 3, "b", "c", "c", "b", 3])
    resampler = Resampler(50, stream())
    weights = np.hstack([resampler.weigh(table.rows(start, start + 3), by_cluster=True) for start in (0, 3, 6)])
    by_name = {name: weights[:, [i for i, each in enumerate("3b3bccb3") if each == name]] for name in "3bc"}
    for columns in by_name.values():
        assert (columns == columns[:, :1]).all()
    assert not np.array_equal(by_name["3"][:, 0], by_name["b"][:, 0])


def test_a_row_without_a_cluster_is_named() -> None:
    table = Table.of([0, 1, 1], [0.5] * 3, clusters=["a", None, "b"], source="north.csv")
    with pytest.raises(InputError, match=r"north\.csv, row 2: the cluster is missing"):
        Resampler(5, stream()).weigh(table, by_cluster=True)
