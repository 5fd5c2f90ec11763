"""Real numbers as integers: which resolution sums of losses and errors are counted in, and how large they get.

A loss or an error is rounded to a multiple of 2^-24 before it is added up: off by 3e-8 at most, far below the four
decimals of a default release, and exact from there on. 24 bits also keep every sum of a party in an int64: 2^24 units
times 2^24 samples times the largest weight of a resample is below 2^52. A square of 48 bits is counted in two parts of
24, high·2^24 + low, which a ratio form puts together again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BITS = 24
UNITS = 1 << BITS
RESOLUTION = 1.0 / UNITS

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# scikit-learn clips a probability to a double's machine epsilon: no loss of a sample exceeds 52·ln 2.
LEAST_PROBABILITY = float(np.finfo(np.float64).eps)
LARGEST_LOG_LOSS = 37


def in_units(values: Floats) -> Integers:
    """Round to the nearest multiple of the resolution.

    >>> in_units(np.array([0.0, 0.5, 1.0])).tolist()
    [0, 8388608, 16777216]
    """
    return np.rint(values * UNITS).astype(np.int64)


def squares(values: Integers) -> tuple[Integers, Integers]:
    """The squares of integers up to 2^24, as high and low parts: v² = high·2^24 + low.

    >>> high, low = squares(np.array([UNITS, 3]))
    >>> (high * UNITS + low).tolist() == [UNITS * UNITS, 9]
    True
    """
    squared = values * values
    return squared >> BITS, squared & (UNITS - 1)


def brier_losses(labels: NDArray[np.uint8], probabilities: Floats) -> Integers:
    """(p − y)² of each sample, in units."""
    return in_units(np.square(probabilities - labels))


def log_losses(labels: NDArray[np.uint8], probabilities: Floats) -> Integers:
    """−ln of the probability that was given to the true class, in units, clipped as scikit-learn clips.

    >>> (log_losses(np.array([1, 0], dtype=np.uint8), np.array([0.5, 1.0])) / UNITS).round(3).tolist()
    [0.693, 36.044]
    """
    given = np.where(labels == 1, probabilities, 1.0 - probabilities)
    return in_units(-np.log(np.clip(given, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)))


def within_range(values: Floats, low: float, high: float) -> Integers:
    """Where values lie between low and high, in units of 2^-24 of the way."""
    return in_units((values - low) / (high - low))
