"""Outsourced division in floating point: the error of an approximation itself, without that of encryption."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike, NDArray

from fheval_lab.baselines.division import Approximation, first_guess


def in_plaintext(approximation: Approximation, nums: ArrayLike, dens: ArrayLike) -> NDArray[np.float64]:
    """The quotients that the same polynomial or iteration gives."""
    x = np.asarray(dens, dtype=np.float64) / approximation.unit
    numerators = np.asarray(nums, dtype=np.float64) / approximation.unit
    reciprocal = chebyshev if approximation.method == "chebyshev" else newton
    with np.errstate(all="ignore"):  # outside its bounds a division may give anything
        return numerators * reciprocal(approximation, x)


def chebyshev(approximation: Approximation, x: NDArray[np.float64]) -> NDArray[np.float64]:
    polynomial = Chebyshev.interpolate(lambda each: 1 / each, approximation.effort, domain=list(approximation.interval))
    values: NDArray[np.float64] = polynomial(x)
    return values


def newton(approximation: Approximation, x: NDArray[np.float64]) -> NDArray[np.float64]:
    guess = np.full_like(x, first_guess(approximation))
    for _ in range(approximation.effort):
        guess = guess * (2 - x * guess)
    return guess
