"""The aggregator's circuit of both paper protocols, on CKKS ciphertexts.

num = Σ T·F and den = Σ P·Q are computed, multiplied by one secret c, and released in one slot each; everything else
in the result ciphertexts is hidden. Depth: one product, then one plaintext product, of the three that the set has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from fheval.engines import Ciphertext, Evaluator, Parameters, RunningSum
from fheval.errors import PrecisionError
from fheval.secrets import Randomness, log_uniform_float, symmetric_floats

FloatVector = npt.NDArray[np.float64]

# c·den must stay well above the absolute noise of a result, which is about 2^-34 (measured; the mask below
# contributes most of it): at 2^-12 and the smallest den, 2, the ratio still has 23 bits.
LOWEST_EXPONENT = -12

# Spare bits between the largest blinded number and the wrap-around of the result's modulus.
HEADROOM_BITS = 1

# Below this width the blinding would pin den too closely to be called one.
LEAST_WIDTH = 8

# The slots that carry no answer hold S·ε after the plaintext product: S a partial sum of the curve, ε ≈ 2^-45 the
# rounding error of the encoded zero. A uniform mask of ±2^16 on top hides even the partial sums of 2^17 samples to
# 2^-28; a larger one would cost precision in the answer, since encoding is done in doubles.
MASK_BOUND = 2.0**16


def blinding_exponents(
    parameters: Parameters, magnitude: int, factor_bits: int = 0, zero_noise: float = 0.0
) -> tuple[int, int]:
    """The range [2^low, 2^high) that c may take, as exponents, for numbers up to `magnitude`·2^factor_bits.

    `zero_noise` bounds what a denominator of zero decrypts to before it is blinded: no c makes it look like a larger
    denominator.
    """
    carried = sum(parameters.modulus_bits[:2]) - parameters.scale_bits - 1 - HEADROOM_BITS
    high = carried - ceil(log2(magnitude)) - factor_bits
    if zero_noise:
        high = min(high, LOWEST_EXPONENT - ceil(log2(zero_noise)))
    if high - LOWEST_EXPONENT < LEAST_WIDTH:
        raise PrecisionError(
            f"Numbers up to 2^{log2(magnitude):.0f} leave no room for blinding in {parameters.name}. "
            "Lower --max-samples to what the parties really have, or use the protocol padded."
        )
    return LOWEST_EXPONENT, high


def draw_blinding(rng: Randomness, exponents: tuple[int, int]) -> float:
    """Step 8 (11 in the malicious setting): c, log-uniform over the range, from a CSPRNG."""
    return log_uniform_float(rng, *exponents)


class Accumulator:
    """Running sums of ciphertexts, one per position of the upload; a ciphertext is added and forgotten."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._sums: list[RunningSum] = []

    def load(self, ciphertexts: Sequence[bytes]) -> list[Any]:
        """Read one party's ciphertexts; what could not be added is refused before any sum has changed."""
        if not self._sums:
            self._sums = [self._evaluator.running_sum() for _ in ciphertexts]
        return [total.read(data) for total, data in zip(self._sums, ciphertexts, strict=True)]

    def add(self, loaded: list[Any]) -> None:
        for total, term in zip(self._sums, loaded, strict=True):
            total.add(term)

    @property
    def totals(self) -> list[Ciphertext]:
        return [total.total() for total in self._sums]


def hide(evaluator: Evaluator, ciphertext: Ciphertext, keep: Sequence[int], rng: Randomness) -> Ciphertext:
    """Cover everything but the real parts of the slots in `keep` with random numbers.

    The cover arrives as a fresh public-key encryption, which also makes the ciphertext itself a fresh one: its
    second component tells a key holder nothing about the ciphertexts it came from.
    """
    slots = evaluator.parameters.slots
    real = symmetric_floats(rng, MASK_BOUND, slots)
    imaginary = symmetric_floats(rng, MASK_BOUND, slots)
    real[list(keep)] = 0.0
    return evaluator.add(ciphertext, evaluator.encrypt(real + 1j * imaginary, like=ciphertext))


def sparse(values: Mapping[int, float]) -> FloatVector:
    """The vector with these slots set and zero elsewhere."""
    vector = np.zeros(max(values) + 1)
    vector[list(values)] = list(values.values())
    return vector
