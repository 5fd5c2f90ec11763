"""Distribution tests with fixed false-alarm rates, so that an honest suite fails about once in a million runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats  # type: ignore[import-untyped]

# Of every single test below; the suite makes a few hundred of them.
FALSE_ALARM = 1e-8


def looks_uniform(values: npt.ArrayLike, low: float, high: float) -> bool:
    """Kolmogorov and Smirnov: whether the values can be uniform over [low, high]."""
    span = stats.uniform(loc=low, scale=high - low)
    return bool(stats.kstest(np.asarray(values, dtype=np.float64), span.cdf).pvalue > FALSE_ALARM)


def look_alike(first: npt.ArrayLike, second: npt.ArrayLike) -> bool:
    """Kolmogorov and Smirnov: whether both can have been drawn from one distribution."""
    sample, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return bool(stats.ks_2samp(sample, other).pvalue > FALSE_ALARM)


def unrelated(values: npt.ArrayLike, others: npt.ArrayLike) -> bool:
    """Spearman: whether the ranks of the two can be independent of each other."""
    return bool(stats.spearmanr(values, others).pvalue > FALSE_ALARM)


def evenly_filled(values: npt.ArrayLike, bins: int, modulus: int) -> bool:
    """Chi-square: whether residues can be uniform over [0, modulus), by `bins` ranges of equal width."""
    places = (np.asarray(values, dtype=object) * bins // modulus).astype(np.int64)
    return bool(stats.chisquare(np.bincount(places, minlength=bins)).pvalue > FALSE_ALARM)
