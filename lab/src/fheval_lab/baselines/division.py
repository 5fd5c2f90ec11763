"""Outsourced division: the aggregator itself divides num by den under CKKS. The paper tried two ways and rejected both.

Neither scheme of FHE divides, so 1/x is approximated by additions and products, after the parties have scaled num and
den by a public upper bound on den. With x = den/high and a public lower bound, x lies in [1/κ, 1], κ = high/low:

- Chebyshev: a polynomial of degree n. No polynomial does better than a relative error of 1/T_{n+1}((κ+1)/(κ−1)),
  about 2·exp(−2n/√κ), so n grows with √κ and the depth with its logarithm;
- Newton–Raphson: y ← y·(2 − x·y). From the best constant y_0 = 2κ/(κ+1) the relative error after k steps is
  ((κ−1)/(κ+1))^(2^k), so k grows with log κ, and each step but the first takes two levels.

Reveals: to key holders, the AUC alone; but the bounds are public, and a useful pair of them says how many samples
there are to within a factor of about √κ. A den outside them gives a wrong number and no error. Costs: a ring of
2^15, where the paper's own protocol takes 2^14, for the ten or so levels that remain in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import acosh, ceil, log, log2
from time import process_time
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fheval.engines import Ciphertext, Engine, Evaluator, Parameters
from fheval.errors import ConfigError, EngineError, PrecisionError

Method = Literal["chebyshev", "newton"]
Numbers = NDArray[np.float64]

# The deepest set at 128 bits in ring 2^15: 60 + 11·50 bits, and OpenFHE adds 240 for its key switching, of 881.
CKKS_DIVISION = Parameters(
    name="ckks-32768-depth11-scale50",
    scheme="ckks",
    ring=32768,
    modulus_bits=(60, *[50] * 11, 60),
    depth=11,
    scale_bits=50,
)

# Five decimals: what the paper compares two AUCs to.
TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Approximation:
    """One way to divide, and what is public about den: `effort` is the polynomial's degree or the number of steps.

    `scaled` says whether the parties divide their numbers by `high` before they encrypt.
    """

    method: Method
    effort: int
    low: float
    high: float
    scaled: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high:
            raise ConfigError(f"There is no den between {self.low} and {self.high}. Give a positive lower bound first.")
        if self.effort < 1:
            raise ConfigError(
                f"A division with effort {self.effort} is none. Use a degree, or a number of steps, from 1."
            )

    @property
    def unit(self) -> float:
        return self.high if self.scaled else 1.0

    @property
    def gain(self) -> float:
        """The parties divide num by it, and the polynomial approximates gain/x: its values then fit.

        1/x lies between 1 and κ, and gain/x between 1/√κ and √κ.
        """
        return (self.high / self.low) ** -0.5 if self.scaled and self.method == "chebyshev" else 1.0

    @property
    def interval(self) -> tuple[float, float]:
        """Where den lies as the aggregator has it, if the bounds are right."""
        return self.low / self.unit, self.high / self.unit


@dataclass(frozen=True, slots=True)
class DivisionResult:
    """AUCs that came out for each den, levels taken, and the processor time of the aggregator."""

    aucs: tuple[float, ...]
    depth: int
    seconds: float


def divide(engine: Engine, approximation: Approximation, nums: ArrayLike, dens: ArrayLike) -> DivisionResult:
    """Encrypt, divide as the aggregator would, decrypt; each slot carries one num and one den.

    A slot that grows beyond what CKKS carries spoils all others of its ciphertext: give a den alone if it might.
    Only the engine openfhe evaluates Chebyshev polynomials; an `EngineError` says so of another.
    """
    keys = engine.generate_keys(CKKS_DIVISION)
    holder = engine.key_holder(CKKS_DIVISION, keys.secret)
    evaluator = engine.evaluator(CKKS_DIVISION, keys.public)
    units = (approximation.unit * approximation.gain, approximation.unit)
    numerator, denominator = (
        evaluator.load(holder.encrypt(_filled(values) / unit)) for values, unit in zip((nums, dens), units, strict=True)
    )
    started = process_time()
    quotient = aggregator_divide(evaluator, approximation, numerator, denominator)
    seconds = process_time() - started
    opened = holder.decrypt(evaluator.dump(quotient)).real[: np.size(dens)]
    return DivisionResult(tuple(opened.tolist()), CKKS_DIVISION.limbs - quotient.limbs, seconds)


def _filled(values: ArrayLike) -> Numbers:
    """Repeated over all slots: an empty one would stand for a den of zero, which no bounds allow."""
    return np.resize(np.asarray(values, dtype=np.float64), CKKS_DIVISION.slots)


def aggregator_divide(
    evaluator: Evaluator, approximation: Approximation, numerator: Ciphertext, denominator: Ciphertext
) -> Ciphertext:
    """E(num/den) from E(num) and E(den), both scaled alike; takes one level more than the reciprocal."""
    method = _chebyshev if approximation.method == "chebyshev" else _newton
    reciprocal = method(evaluator, approximation, denominator)
    return evaluator.multiply(_lowered(evaluator, numerator, reciprocal.limbs), reciprocal)


def _chebyshev(evaluator: Evaluator, approximation: Approximation, denominator: Ciphertext) -> Ciphertext:
    """gain/x for every slot within the interval; other slots hold anything.

    No protocol evaluates polynomials, so that the engine has no function for it and this reaches inside.
    """
    try:
        from fheval.engines.openfhe import engine as openfhe
        from fheval.engines.openfhe.setting import refusals
    except ImportError as error:
        raise EngineError("Chebyshev division needs the engine openfhe, which does not load here.") from error
    if not isinstance(evaluator, openfhe._Evaluator):
        raise EngineError("Only the engine openfhe evaluates Chebyshev polynomials. Choose it.")
    with evaluator._keys_in_place(), refusals("a division"):
        evaluate, gain = evaluator._context.EvalChebyshevFunction, approximation.gain
        handle = evaluate(lambda x: gain / x, denominator.handle, *approximation.interval, approximation.effort)
    return Ciphertext(handle, evaluator._setting.limbs - handle.GetLevel())


def _newton(evaluator: Evaluator, approximation: Approximation, denominator: Ciphertext) -> Ciphertext:
    """From a constant y_0 the first step y_1 = 2·y_0 − y_0²·x is linear in x; the others take two products each."""
    slots = np.ones(evaluator.parameters.slots)
    first = first_guess(approximation)
    if first**2 < 2.0**-evaluator.parameters.scale_bits:
        raise PrecisionError(
            f"Newton–Raphson would multiply by {first**2:.0e}, below what the scale of {evaluator.parameters.name} "
            "carries. Scale num and den by their bound first."
        )
    negative = evaluator.multiply_plain(denominator, -slots)
    guess = evaluator.multiply_plain(denominator, -(first**2) * slots)
    guess = evaluator.add_plain(guess, 2 * first * slots)
    for _ in range(approximation.effort - 1):
        correction = evaluator.add_plain(evaluator.multiply(negative, guess), 2 * slots)
        guess = evaluator.multiply(evaluator.drop_level(guess), correction)
        negative = _lowered(evaluator, negative, guess.limbs)
    return guess


def _lowered(evaluator: Evaluator, ciphertext: Ciphertext, limbs: int) -> Ciphertext:
    while ciphertext.limbs > limbs:
        ciphertext = evaluator.drop_level(ciphertext)
    return ciphertext


def first_guess(approximation: Approximation) -> float:
    """The constant y_0 with the smallest largest error |1 − x·y_0| on the interval."""
    return 2 / sum(approximation.interval)


def effort_needed(method: Method, spread: float, tolerance: float = TOLERANCE) -> int:
    """The least degree of any polynomial, or the steps of Newton–Raphson, for a relative error up to the tolerance.

    >>> [effort_needed("chebyshev", spread) for spread in (10, 1e3, 1e7)]
    [18, 192, 19299]
    >>> [effort_needed("newton", spread) for spread in (10, 1e3, 1e7)]
    [6, 13, 26]
    """
    if method == "chebyshev":
        return ceil(acosh(1 / tolerance) / acosh((spread + 1) / (spread - 1))) - 1
    return ceil(log2(log(tolerance) / log((spread - 1) / (spread + 1))))


def depth_needed(method: Method, effort: int) -> int:
    """The least number of levels for such a division: log2 of a degree, two for a step; and one to multiply by num.

    >>> depth_needed("chebyshev", 495), depth_needed("newton", 5)
    (10, 10)
    """
    return (effort.bit_length() if method == "chebyshev" else 2 * effort - 1) + 1
