"""Release: the ratio and not a digit more.

An exact AUC is a fraction whose reduced denominator divides 2PQ, which says much about P and Q. A rounded release
gives the parties two integers instead,

    X = K·num + b·den + e_1        Z = K·den + e_2,

K log-uniform over [K_0, K_0·2^W), b uniform in ±K·p/2, e_1 and e_2 uniform in [0, E), so that X/Z is num/den to
within p/2. Why that hides everything else: for a guess (num', den') the values of K that fit Z number E/den' and have
density 1/(K·W·ln 2) each, so that Z has the likelihood 1/(Z·W·ln 2) whatever den' is; and given K, the pairs (b, e_1)
that fit X number E/den' out of K·p·E, which is the likelihood 1/(Z·p) whatever the guess is, as long as num'/den' is
within p/2 of X/Z. E = 2^20·den_max makes these counts large: without the noise, den' | Z would test any guess.
K_0 = 2^7·E/p keeps the noise below the last digit even for the smallest den. W, the bits that are left, bounds what
the ends of K's range give away: two guesses differ in likelihood by at most |log2(den/den')|/W.

An exact release multiplies num and den by one unit of each field: everything but the fraction is hidden perfectly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, prod

from fheval.engines.parameters import plain_moduli
from fheval.errors import CapacityError, VerificationFailed
from fheval.field import combine, rational
from fheval.protocols.round import Form
from fheval.secrets import Randomness, integer_below, integer_between, log_uniform_integer

LEAST_SPARE_BITS = 32
NOISE_BITS = 20
NOISE_MARGIN_BITS = 7
MOST_PRIMES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedRelease:
    """The public numbers of a rounded release for forms up to one magnitude."""

    precision: Fraction
    noise: int
    smallest: int
    spare_bits: int
    primes: tuple[int, ...]

    @classmethod
    def plan(cls, magnitude: int, precision: float) -> RoundedRelease:
        """Take the fewest primes that leave W ≥ 32 bits.

        >>> release = RoundedRelease.plan(2**47, 1e-4)
        >>> len(release.primes), release.spare_bits
        (4, 49)
        """
        width = Fraction(precision)
        noise = magnitude << NOISE_BITS
        smallest = ceil((noise << NOISE_MARGIN_BITS) / width)
        for count in range(1, MOST_PRIMES + 1):
            primes = plain_moduli(count)
            # X and Z stay below K·den·(1 + p/2) + E; the lift leaves K·den·p below zero, more than X can take.
            largest = (prod(primes) - noise) / (magnitude * (1 + 2 * width))
            spare = (int(largest) // smallest).bit_length() - 1
            if spare >= LEAST_SPARE_BITS:
                return cls(precision=width, noise=noise, smallest=smallest, spare_bits=spare, primes=primes)
        raise CapacityError(
            f"A precision of {precision} for numbers up to 2^{magnitude.bit_length()} needs more than {MOST_PRIMES} "
            "primes. Choose a coarser precision or a smaller max_samples."
        )

    def draw(self, rng: Randomness) -> Blinding:
        """Aggregator: fresh K, b, e_1, e_2 for one ratio."""
        scale = log_uniform_integer(rng, self.smallest, self.spare_bits)
        half = int(scale * self.precision / 2)
        return Blinding(
            scale=scale,
            tilt=integer_between(rng, -half, half),
            noise_x=integer_below(rng, self.noise),
            noise_z=integer_below(rng, self.noise),
        )

    def ratio(self, x: Sequence[int], z: Sequence[int]) -> Fraction | None:
        """Leader: X/Z from their residues; None where den is zero."""
        top, bottom = self._lifted(x), self._lifted(z)
        # An honest Z is at least about K_0·den; e_2 alone is below E = K_0·p/2^7.
        return None if bottom < self.smallest else Fraction(top, bottom)

    def _lifted(self, residues: Sequence[int]) -> int:
        modulus = prod(self.primes)
        value = combine(residues, self.primes)
        return value - modulus if value > modulus - int(modulus * self.precision / (1 + 2 * self.precision)) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Blinding:
    """K, b, e_1 and e_2 of one ratio; the aggregator forgets them with the round."""

    scale: int = field(repr=False)
    tilt: int = field(repr=False)
    noise_x: int = field(repr=False)
    noise_z: int = field(repr=False)


def exact_primes(magnitude: int) -> tuple[int, ...]:
    """The fewest primes modulo which a fraction of integers up to `magnitude` is unique."""
    for count in range(1, MOST_PRIMES + 1):
        primes = plain_moduli(count)
        if 2 * magnitude * magnitude < prod(primes):
            return primes
    raise CapacityError(f"Fractions up to 2^{magnitude.bit_length()} need more than {MOST_PRIMES} primes.")


def exact_ratio(form: Form, residues: Sequence[int], primes: Sequence[int]) -> Fraction:
    """The fraction num/den from its residues; what is no honest ratio raises `VerificationFailed`."""
    found = rational(combine(residues, primes), prod(primes), form.bound)
    if found is None or (form.proper and found[0] > found[1]):
        raise VerificationFailed
    return Fraction(*found)
