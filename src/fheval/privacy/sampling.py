"""Noise on whole numbers, drawn in shares: the sum over the honest parties is the noise of one trusted curator.

Two distributions, both on the integers:

- discrete Laplace, P(k) ∝ e^(−s·|k|). It is the difference of two geometric variables, and a geometric variable is the
  sum of h negative binomial ones of shape 1/h, for any h. So a share is the difference of two negative binomials
  NB(1/h, e^−s), and h shares add up to the discrete Laplace distribution itself, not to something close to it.
- discrete Gaussian, P(k) ∝ e^(−k²/2σ²). A share has the variance σ²/h. The sum of h shares is no discrete Gaussian,
  but its probabilities are those of one to within a factor e^±τ; `accounting` has the bound, and reckons with it.

More parties than were counted on only add independent noise, which takes no privacy away.

How they are drawn, and how they are not. Textbook samplers compute in floating point: −b·ln(u) for Laplace noise,
Box–Muller or a ziggurat for Gaussian, ⌈ln(u)/ln(1 − p)⌉ for a geometric variable, a gamma variable as the rate of a
Poisson one for a negative binomial. All of them break the guarantee: doubles leave gaps and clusters among the values,
which tell the noiseless number (Mironov, "On significance of the least significant bits", 2012), the far tail is cut
off where u runs out of bits, and rounding the result to an integer afterwards does not mend it. Here probabilities are
worked out in decimal arithmetic of 60 digits, as fixed-point numbers of 128 bits, and a uniform number of 128 bits from
the operating system is looked up among them. There is no float in between.

How far off that is: a table leaves out a tail below 2^−110, rounding moves each of its up to 2^20 thresholds by at most
2^−127, and 60 digits are 199 bits. So a draw is within 2^−100 of its distribution in statistical distance (2^−60 was
asked for), and the largest round, of 2^20 sums with two draws each, within 2^−79: this much, times 1 + e^ε, is to be
added to δ, and is added nowhere.

Looking up takes about the same time for every outcome, and the outcome is independent of the data in any case.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import accumulate, takewhile
from math import exp, inf

import msgspec
import numpy as np
import numpy.typing as npt

from fheval.errors import ConfigError
from fheval.secrets import Randomness

_BITS = 128
_BYTES = _BITS // 8
_DIGITS = 60

# What is left out of a table: far below 2^-60, and above the rounding of its thresholds.
_TAIL = Decimal(2) ** -110

# Tables of more entries take seconds to make, and noise of that size drowns everything.
SMALLEST_STEP = 2.0**-12
LARGEST_VARIANCE = 2.0**24


class NoiseError(ConfigError, ValueError):
    """Noise that cannot be; also a `ValueError`, so that msgspec refuses a message that carries it."""


class DiscreteLaplace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="laplace"):
    """P(k) ∝ e^(−step·|k|) once `honest` shares are added up: a change of the sum by one costs ε = step.

    >>> round(DiscreteLaplace(1.0, 3).variance_of(3), 4)
    1.8413
    """

    step: float
    honest: int

    def __post_init__(self) -> None:
        _require(self.honest >= 1, "Noise in shares takes one honest party at least")
        _require(SMALLEST_STEP <= self.step < inf, f"ε would be {self.step:g} for a change of one count by one")

    def variance_of(self, parties: int) -> float:
        """The variance of so many shares together: 2α/(1 − α)² of `honest` ones, α = e^−step."""
        ratio = exp(-self.step)
        return 2 * ratio / (1 - ratio) ** 2 * parties / self.honest

    def share(self, rng: Randomness, count: int) -> npt.NDArray[np.int64]:
        """One party's share of the noise of so many sums."""
        table = _negative_binomial(self.step, self.honest)
        drawn = _look_up(table, rng, 2 * count)
        return drawn[:count] - drawn[count:]


class DiscreteGaussian(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="gaussian"):
    """P(k) ∝ e^(−k²/2·variance), nearly, once `honest` shares are added up.

    >>> DiscreteGaussian(12.0, 3).variance_of(6)
    24.0
    """

    variance: float
    honest: int

    def __post_init__(self) -> None:
        _require(self.honest >= 1, "Noise in shares takes one honest party at least")
        # With half a unit of deviation in each share, KLS21 begins; a whole one leaves nothing to argue about.
        _require(self.variance >= self.honest, f"Shares of a variance of {self.variance:g} would be too narrow")
        _require(self.variance <= LARGEST_VARIANCE, f"The noise would have a variance of {self.variance:g}")

    def variance_of(self, parties: int) -> float:
        """The variance of so many shares together; that of a discrete Gaussian is its parameter but for 10^-7."""
        return self.variance * parties / self.honest

    def share(self, rng: Randomness, count: int) -> npt.NDArray[np.int64]:
        """One party's share of the noise of so many sums."""
        table = _gaussian(self.variance, self.honest)
        return _look_up(table, rng, count) - len(table) // 2


Noise = DiscreteLaplace | DiscreteGaussian


@lru_cache(maxsize=8)
def _negative_binomial(step: float, honest: int) -> tuple[int, ...]:
    """Thresholds of NB(1/h, α) with α = e^−step: P(0) = (1 − α)^(1/h), P(k + 1) = P(k)·α·(k + 1/h)/(k + 1)."""
    with localcontext() as context:
        context.prec = _DIGITS
        ratio = (-Decimal(step)).exp()
        onwards = 1 / (1 - ratio)

        def probabilities() -> Iterator[Decimal]:
            likely = ((1 - ratio).ln() / honest).exp()
            k = 0
            while True:
                yield likely
                likely = likely * ratio * (k * honest + 1) / (honest * (k + 1))
                k += 1

        # Each is less than α times the one before, so that from P(k) on they are less than P(k)/(1 − α) in all.
        return _thresholds(list(takewhile(lambda likely: likely * onwards >= _TAIL, probabilities())))


@lru_cache(maxsize=8)
def _gaussian(variance: float, honest: int) -> tuple[int, ...]:
    """Thresholds of the discrete Gaussian of variance σ²/h, from −K to K."""
    with localcontext() as context:
        context.prec = _DIGITS
        doubled = 2 * Decimal(variance) / honest

        def weights() -> Iterator[Decimal]:
            k = 1
            while True:
                yield (-Decimal(k * k) / doubled).exp()
                k += 1

        # Each weight is less than e^(−1/doubled) times the one before, and 1/(1 − e^(−1/x)) < 1 + x.
        side = list(takewhile(lambda weight: weight * (1 + doubled) >= _TAIL, weights()))
        total = 1 + 2 * sum(side)
        return _thresholds([weight / total for weight in (*reversed(side), Decimal(1), *side)])


def _thresholds(probabilities: list[Decimal]) -> tuple[int, ...]:
    """2^128·P(X ≤ k) for k = 0, 1, …, rounded down; what is left goes to the last."""
    unit = Decimal(1 << _BITS)
    reached = [int(each * unit) for each in accumulate(probabilities)]
    return (*reached[:-1], 1 << _BITS)


def _look_up(thresholds: tuple[int, ...], rng: Randomness, count: int) -> npt.NDArray[np.int64]:
    """For each of `count` uniform numbers of 128 bits, how many thresholds it reaches."""
    drawn = rng.draw(_BYTES * count)
    numbers = (int.from_bytes(drawn[start : start + _BYTES], "little") for start in range(0, len(drawn), _BYTES))
    return np.fromiter((bisect_right(thresholds, number) for number in numbers), np.int64, count)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NoiseError(f"{otherwise}. Raise epsilon, or ask for fewer models, classes, groups or rows of a cluster.")
