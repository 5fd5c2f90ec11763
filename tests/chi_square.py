"""A chi-square test with a limit that a right sampler passes: seeds are fixed, so a result is the same every time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# The normal quantile of one in a million: a sampler that is right fails for one seed in a million.
_QUANTILE = 4.753


def statistic(observed: npt.ArrayLike, weights: Sequence[float]) -> float:
    """Σ (observed − expected)²/expected, with expected counts in proportion to the weights."""
    counts = np.asarray(observed, dtype=np.float64)
    expected = np.asarray(weights, dtype=np.float64)
    expected = expected / expected.sum() * counts.sum()
    assert counts.shape == expected.shape
    assert expected.min() >= 5, "too few samples for a chi-square test"
    return float((np.square(counts - expected) / expected).sum())


def limit(buckets: int) -> float:
    """What the statistic stays below, by the approximation of Wilson and Hilferty."""
    freedom = buckets - 1
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + _QUANTILE * spread**0.5) ** 3)


def fits(observed: npt.ArrayLike, weights: Sequence[float]) -> bool:
    """Whether the counts agree with the weights."""
    return statistic(observed, weights) < limit(len(weights))
