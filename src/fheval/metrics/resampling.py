"""The Poisson bootstrap: every row, or every cluster of rows, counts 0, 1, 2, … times, as Poisson(1) has it.

Unlike drawing n rows with replacement, it needs no knowledge of n: each party weighs its own rows by itself, and the
sum over the parties is a resample of the pooled data. A weight comes from 32 uniform bits by a table whose
probabilities are those of Poisson(1) rounded to 2^-32; no weight above 12 is likely enough to be in it.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np
from numpy.typing import NDArray

from fheval.counting import Table
from fheval.errors import ConfigError
from fheval.metrics.statistics import Weights
from fheval.secrets import Randomness

LARGEST_WEIGHT = 12

_BITS = 32


def poisson_thresholds() -> tuple[int, ...]:
    """2^32·P(W ≤ k) for k = 0 … 11, rounded; the weight is how many of them a uniform 32-bit number reaches.

    >>> [round(threshold / 2**32, 6) for threshold in poisson_thresholds()[:3]]
    [0.367879, 0.735759, 0.919699]
    """
    # 1/e as a fraction: the alternating series, far beyond 32 bits.
    inverse_e = sum((Fraction((-1) ** k, factorial(k)) for k in range(40)), start=Fraction(0))
    reached = Fraction(0)
    thresholds = []
    for k in range(LARGEST_WEIGHT):
        reached += inverse_e / factorial(k)
        thresholds.append(round(reached * (1 << _BITS)))
    return tuple(thresholds)


_THRESHOLDS = tuple(np.uint32(threshold) for threshold in poisson_thresholds())


def poisson_weights(rng: Randomness, shape: tuple[int, int]) -> Weights:
    """Draw independent weights from Poisson(1)."""
    uniform = np.frombuffer(rng.draw(4 * shape[0] * shape[1]), dtype="<u4")
    weights = np.zeros(len(uniform), dtype=np.uint8)
    for threshold in _THRESHOLDS:
        weights += uniform >= threshold
    return weights.reshape(shape)


class Resampler:
    """Weighs a party's rows: line 0 counts every row once, the other lines are resamples.

    Where the table has clusters, all rows of a cluster weigh the same, in whichever stretch of rows they come; a
    cluster that two parties hold is two clusters.
    """

    def __init__(self, replicates: int, rng: Randomness) -> None:
        self._replicates = replicates
        self._rng = rng
        self._clusters: dict[str, int] = {}
        self._weights = np.empty((replicates, 0), dtype=np.uint8)

    def weigh(self, table: Table, *, by_cluster: bool) -> Weights:
        """Weights of shape (1 + replicates, rows)."""
        if not self._replicates:
            return np.ones((1, len(table)), dtype=np.uint8)
        drawn = self._by_cluster(table) if by_cluster else poisson_weights(self._rng, (self._replicates, len(table)))
        return np.concatenate([np.ones((1, len(table)), dtype=np.uint8), drawn])

    def _by_cluster(self, table: Table) -> Weights:
        if table.clusters is None:
            raise ConfigError("The round resamples clusters and a party has no cluster column. Name one.")
        names, inverse = np.unique(table.clusters.values, return_inverse=True)
        if len(names) and not names[0]:
            raise table.refuse(table.clusters, int(np.argmin(inverse)), "the cluster is missing")
        numbers = self._numbers(names)
        return self._weights[:, numbers[inverse]]

    def _numbers(self, names: NDArray[np.str_]) -> NDArray[np.intp]:
        known = self._clusters
        fresh = [name for name in names.tolist() if name not in known]
        for name in fresh:
            known[name] = len(known)
        if fresh:
            drawn = poisson_weights(self._rng, (self._replicates, len(fresh)))
            self._weights = np.concatenate([self._weights, drawn], axis=1)
        return np.array([known[name] for name in names.tolist()], dtype=np.intp)
