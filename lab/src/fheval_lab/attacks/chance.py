"""How likely it is that chance alone did it: the two tests that the experiments need."""

from __future__ import annotations

from math import ceil, exp, inf, lgamma, log, log1p, sqrt

import numpy as np
import numpy.typing as npt

# Below this, chance is ruled out: with a few hundred tests in the suite, one false alarm in ten thousand runs of it.
IMPLAUSIBLE = 1e-7


def binomial_tails(successes: int, tries: int, rate: float) -> tuple[float, float]:
    """The probabilities of at most and of at least so many successes.

    >>> at_most, at_least = binomial_tails(2, 10, 0.5)
    >>> round(at_most, 4), round(at_least, 4)
    (0.0547, 0.9893)
    """
    at_most = sum(_binomial(count, tries, rate) for count in range(successes + 1))
    above = at_most - _binomial(successes, tries, rate)
    # Summed from above where it is small: 1 − (nearly 1) would lose it.
    at_least = 1 - above if above < 0.999 else _upper(successes, tries, rate)
    return min(at_most, 1.0), min(at_least, 1.0)


def _upper(successes: int, tries: int, rate: float) -> float:
    last = min(tries, successes + ceil(60 * sqrt(tries * rate * (1 - rate)) + 60))
    return sum(_binomial(count, tries, rate) for count in range(successes, last + 1))


def _binomial(count: int, tries: int, rate: float) -> float:
    if rate in (0.0, 1.0):
        return float(count == tries * rate)
    ways = lgamma(tries + 1) - lgamma(count + 1) - lgamma(tries - count + 1)
    return exp(ways + count * log(rate) + (tries - count) * log1p(-rate))


def same_distribution(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """How likely two samples of one distribution are to lie as far apart as these (Kolmogorov–Smirnov).

    >>> same_distribution(range(1000), range(1000)), same_distribution(range(1000), range(500, 1500)) < 1e-9
    (1.0, True)
    """
    first, second = np.sort(np.asarray(one)), np.sort(np.asarray(other))
    everything = np.concatenate([first, second])
    below_first = np.searchsorted(first, everything, side="right") / len(first)
    below_second = np.searchsorted(second, everything, side="right") / len(second)
    distance = float(np.abs(below_first - below_second).max())
    return _kolmogorov(distance * sqrt(len(first) * len(second) / (len(first) + len(second))))


def uniform(values: npt.ArrayLike) -> float:
    """How likely a uniform sample of [0, 1) is to lie as far from uniform as this one (Kolmogorov–Smirnov)."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = max(float((steps[1:] - ordered).max()), float((ordered - steps[:-1]).max()))
    return _kolmogorov(distance * sqrt(len(ordered)))


def _kolmogorov(distance: float) -> float:
    """P(K > distance) for the limit distribution: 2·Σ (−1)^{k−1}·exp(−2k²·distance²)."""
    if distance < 0.2:
        return 1.0
    total, k, term = 0.0, 1, inf
    while abs(term) > 1e-30 and k < 100:
        term = (-1) ** (k - 1) * exp(-2 * (k * distance) ** 2)
        total += term
        k += 1
    return min(1.0, 2 * total)
