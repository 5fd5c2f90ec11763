"""How wrong an AUC will be, before anybody has counted: by noise, which grows with the bins, and by binning.

Nobody may look at the data to choose bins, so this is reckoned for made-up ones, and the worse of two counts: scores
whose logits are normal around −1 for negatives and +1 for positives, with a deviation of 1.5 (AUC 0.83), and scores of
a model that is sure of itself, around ∓3 with a deviation of 3 (AUC 0.92), which crowd at the ends.

Noise of variance v on every cell moves the AUC A = Σ_b P_b·U_b/P by about Σ_b noise_b·(U_b − A)/P, where U_b is the
share of negatives below bin b (and half of those in it); likewise for the negatives. So its variance is
v·(Σ_b (U_b − A)²/P² + Σ_b (W_b − A)²/Q²).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import erfc, hypot, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from fheval.counting import Grid

# What is tried, for a number of decision points that is not said. Odd ones have a point at 0.5.
POINTS = (11, 15, 21, 31, 41, 51, 71, 101, 151, 201, 301, 501, 1001)

# Mean logit of positives, less that of negatives, and deviation.
_MODELS = ((1.0, 1.5), (3.0, 3.0))
# Noise is in the intervals. Binning is not, and always errs in one direction: measured on made-up studies, intervals of
# 95 % cover as little as 86 % where both are weighed alike, and 93 to 96 % so.
_WEIGHT = 3.0
# Rows of each class are rarely as many; with a fifth of positives errors are a third larger than with a half.
SHARE = 0.2


def expected_errors(grid: Grid, rows: int, variance: float) -> tuple[float, float]:
    """The standard deviation that the noise gives the AUC of so many rows, and what binning takes from it."""
    return max((_errors(grid, model, rows, variance) for model in _MODELS), key=_badness)


def _errors(grid: Grid, model: tuple[float, float], rows: int, variance: float) -> tuple[float, float]:
    mean, deviation = model
    positives, negatives = _shares(grid, mean, deviation), _shares(grid, -mean, deviation)
    below = 1 - np.cumsum(negatives) + negatives / 2
    above = np.cumsum(positives) - positives / 2
    auc = float(positives @ below)
    spread = float(np.sum((below - auc) ** 2)) / SHARE**2 + float(np.sum((above - auc) ** 2)) / (1 - SHARE) ** 2
    return sqrt(variance * spread) / rows, abs(_normal(sqrt(2) * mean / deviation) - auc)


def sampling_deviation(rows: int) -> float:
    """The standard deviation of the AUC of so many rows, without any noise (Hanley and McNeil 1982, on AUC 0.83)."""
    mean, deviation = _MODELS[0]
    auc = _normal(sqrt(2) * mean / deviation)
    both, other = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    positives, negatives = SHARE * rows, (1 - SHARE) * rows
    spread = auc * (1 - auc) + (positives - 1) * (both - auc**2) + (negatives - 1) * (other - auc**2)
    return sqrt(max(spread, 0.0) / (positives * negatives))


def best_points(place: Callable[[int], Grid], rows: int, variance: float) -> int:
    """The number of decision points with which an AUC of so many rows comes out best.

    >>> [best_points(Grid.even, rows, 1.84) for rows in (1_000, 10_000, 100_000)]
    [31, 101, 301]
    """
    return min(POINTS, key=lambda count: _badness(expected_errors(place(count), rows, variance)))


def _badness(errors: tuple[float, float]) -> float:
    noise, binning = errors
    return hypot(noise, _WEIGHT * binning)


@lru_cache(maxsize=64)
def _shares(grid: Grid, mean: float, deviation: float) -> NDArray[np.float64]:
    """Which share of such scores lies in each bin, highest first; of listed points, as if they were even ones."""
    grid = Grid.even(len(grid)) if grid.scores == "any" else grid
    logits = [log(point) - log1p(-point) for point in grid.points[1:-1].tolist()]
    return np.diff([0.0, *(_normal((mean - logit) / deviation) for logit in logits), 1.0])


def _normal(x: float) -> float:
    """Φ(x)."""
    return erfc(-x / sqrt(2)) / 2
