"""Release: the ratio and not a digit more.

An exact AUC is a fraction whose reduced denominator divides 2PQ, which says much about P and Q. A rounded release
gives the leader two integers instead,

    X = K·num + b·den + e_1        Z = K·den + e_2,

b uniform in ±K·q/2, e_1 and e_2 uniform in [0, E), so that X/Z is num/den to within q/2 and the noise, and the leader
tells X/Z rounded to decimals: neither it nor the others keep X and Z. q is the study's precision p less one unit of the
last decimal, which is a tenth of p or less, and less an eighth of p for the noise, so that what is told is num/den to
within p/2.

Why that hides everything else. For a guess (num', den') the values of K that fit Z number E/den', and given K, the
pairs (b, e_1) that fit X number E/den' out of K·q·E, which is the likelihood 1/(Z·q) whatever the guess is, as long as
num'/den' is within q/2 of X/Z. E = 2^20·den_max makes these counts large: without the noise, den' | Z would test any
guess. K_0 = 2^4·E/p keeps the noise at p/16 or less even for the smallest den. So X says nothing, and Z says where
log K + log den lies: a guess that is wrong by s octaves is one for which log K was shifted by s. Above K_0·den_max the
primes leave W octaves for log K, the more the smaller den_max is: of 2^24 samples a denominator that is a count has
W = 114 with four primes, one that is a product of two has 68.

Over one number a uniform log K would do. Over a whole round it does not: the ends of its range show, the sooner the
more draws there are. So log K has smooth ends: over W octaves its density is (2/W)·sin²(π·u), u from 0 to 1, the one
that a shift changes least. Between it and itself shifted by s = v·W octaves lies the affinity

    ρ = ∫√(f·f') = (1 − v)·cos(πv) + sin(πv)/π ≥ 1 − π²v²/2,

affinities of independent draws multiply, and no test tells two views of affinity ρ apart with an advantage of more than
√(1 − ρ²). So for independent draws from W_1, W_2, … octaves, each shifted by s or less, the advantage is at most
π·s·√(Σ 1/W_i²).

That leaves how many scales are drawn:
- Numbers with one denominator, such as a recall at several thresholds, share K and e_2. They have the same Z, and it
  tells once what it tells.
- Resamples have denominators of their own that are nearly those of the data. Were each blinded afresh, two hundred of
  them would be two hundred looks at one size. So a kind of denominator first draws one common scale over W_c octaves,
  and all its lines draw theirs from that scale on, over W_l = 16 more. A guess about the data shifts the common scale;
  what lines scatter about it, a few hundredths of an octave for a hundred positives, is left to their own draws.

`hiding_bits` is 1/(π·√(Σ 1/W_c²)) over the kinds of denominators in the round: a guess about them that is wrong by s
octaves is told from the truth with an advantage of at most s/hiding_bits, and the plan takes as many primes as leave
six. Lines that are shifted by t octaves from where the common scale leaves them add Σt²/W_l² under the root; no guess
names these, since they depend on the parties' weights.

An exact release multiplies num and den by one unit of each field: everything but the fraction is hidden perfectly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, log2, pi, prod, sin, sqrt
from typing import TypeVar

from fheval.engines.parameters import wide_moduli
from fheval.errors import CapacityError, VerificationFailed
from fheval.field import combine, rational
from fheval.protocols.round import Denominator, Form, digits_within, in_decimals
from fheval.secrets import Randomness, integer_below, integer_between, log_uniform_integer

# A guess at the denominators that is wrong by a factor of two is told from the truth in at most one of six cases.
LEAST_HIDING_BITS = 6
# What the lines of one kind draw beyond their common scale.
LINE_BITS = 16
NOISE_BITS = 20
NOISE_MARGIN_BITS = 4
MOST_PRIMES = 16

R = TypeVar("R", bound="RoundedRelease")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What blinds the ratios with one kind of denominator: E, K_0, and W, the octaves above it."""

    noise: int
    smallest: int
    spare_bits: int

    @classmethod
    def of(cls, bound: int, precision: Fraction, modulus: int) -> Scale:
        """For num and den up to `bound`, where X and Z are known modulo `modulus`."""
        noise = bound << NOISE_BITS
        smallest = ceil((noise << NOISE_MARGIN_BITS) / precision)
        # X and Z stay below K·den·(1 + p/2) + E; the lift leaves K·den·p below zero, more than X can take.
        largest = (modulus - noise) / (bound * (1 + 2 * precision))
        return cls(noise=noise, smallest=smallest, spare_bits=(int(largest) // smallest).bit_length() - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedRelease:
    """The public numbers of a rounded release: primes, and a scale for each kind of denominator.

    Where there are `lines`, they share the scale of their kind.
    """

    precision: Fraction
    primes: tuple[int, ...]
    scales: tuple[Scale, ...]
    lines: bool = False

    @classmethod
    def plan(
        cls: type[R], bounds: Sequence[int], precision: float, denominators: Sequence[Denominator] | None = None
    ) -> R:
        """Take the fewest primes that hide the denominators, one for each of the bounds; by default each is a kind.

        >>> release = RoundedRelease.plan([2**47], 1e-4)
        >>> len(release.primes), release.scales[0].spare_bits, release.hiding_bits
        (4, 68, 21)
        """
        largest: dict[int, int] = {}
        chosen = [Denominator(kind) for kind in range(len(bounds))] if denominators is None else denominators
        for bound, each in zip(bounds, chosen, strict=True):
            largest[each.kind] = max(bound, largest.get(each.kind, 0))
        width = Fraction(str(precision))
        for count in range(1, MOST_PRIMES + 1):
            primes = cls.moduli(count)
            scales = tuple(cls.scale(largest[kind], width, prod(primes)) for kind in range(len(largest)))
            release = cls(precision=width, primes=primes, scales=scales, lines=any(each.line for each in chosen))
            if release.hiding_bits >= LEAST_HIDING_BITS:
                return release
        raise CapacityError(
            f"A precision of {precision} for {len(largest)} kinds of numbers up to 2^{max(bounds).bit_length()} needs "
            f"more than {MOST_PRIMES} primes. Choose a coarser precision, fewer numbers or a smaller max_samples."
        )

    @staticmethod
    def moduli(count: int) -> tuple[int, ...]:
        """The primes that a release is computed with."""
        return wide_moduli(count)

    @classmethod
    def scale(cls, bound: int, precision: Fraction, modulus: int) -> Scale:
        """What blinds one kind of denominator; others than one aggregator may draw it."""
        return Scale.of(bound, precision, modulus)

    def common_bits(self, kind: int) -> int:
        """W_c: how many octaves a kind's common scale is drawn from."""
        return self.scales[kind].spare_bits - LINE_BITS * self.lines

    @property
    def hiding_bits(self) -> int:
        """What hides the denominators of the whole round: 1/(π·√(Σ 1/W_c²)), or 0 where some kind has no room."""
        widths = [self.common_bits(kind) for kind in range(len(self.scales))]
        if min(widths) < 1:
            return 0
        return int(1 / (pi * sqrt(sum(1 / width**2 for width in widths))))

    @property
    def digits(self) -> int:
        """To how many decimals X/Z is told: a tenth of the precision, or finer."""
        return digits_within(self.precision / 10)

    def draw(self, denominators: Sequence[Denominator], rng: Randomness) -> list[Blinding]:
        """Aggregator: fresh K, b, e_1 and e_2 for the forms of a round; K and e_2 are those of their denominator."""
        common: dict[int, int] = {}
        scales: dict[Denominator, tuple[int, int]] = {}
        tilt = self.precision - Fraction(1, 10**self.digits) - self.precision / 2 ** (NOISE_MARGIN_BITS - 1)
        drawn = []
        for each in denominators:
            if each not in scales:
                public = self.scales[each.kind]
                if each.kind not in common:
                    common[each.kind] = smooth_log_integer(rng, public.smallest, self.common_bits(each.kind))
                start = common[each.kind]
                scale = smooth_log_integer(rng, start, LINE_BITS) if self.lines else start
                scales[each] = (scale, integer_below(rng, public.noise))
            scale, noise_z = scales[each]
            half = int(scale * tilt / 2)
            drawn.append(
                Blinding(
                    scale=scale,
                    tilt=integer_between(rng, -half, half),
                    noise_x=integer_below(rng, self.scales[each.kind].noise),
                    noise_z=noise_z,
                )
            )
        return drawn

    def fraction(self, kind: int, x: Sequence[int], z: Sequence[int]) -> Fraction | None:
        """Leader: X/Z of a kind of denominator from their residues; None where den is zero."""
        top, bottom = self._lifted(x), self._lifted(z)
        # An honest Z is at least about K_0·den; e_2 alone is below E = K_0·p/2^4.
        return None if bottom < self.scales[kind].smallest else Fraction(top, bottom)

    def ratio(self, form: Form, kind: int, x: Sequence[int], z: Sequence[int]) -> Fraction | None:
        """Leader: X/Z in decimals; a ratio that the form cannot have raises `VerificationFailed`."""
        found = self.fraction(kind, x, z)
        if found is None:
            return None
        # Rounding and noise leave a ratio of zero, or of the largest that there is, a little outside. The end of the
        # range is closer to the truth, and nobody wants to be told an AUC of 1.00002.
        if not -self.precision <= found <= form.largest + self.precision:
            raise VerificationFailed
        return in_decimals(min(max(found, Fraction(0)), Fraction(form.largest)), self.digits)

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


def smooth_log_integer(rng: Randomness, low: int, octaves: int) -> int:
    """Draw an integer from [low, low·2^octaves) whose logarithm has the density (2/W)·sin²(π·u).

    Every integer can come out: of those drawn with a uniform logarithm, one is kept with the probability sin²(π·u).
    """
    while True:
        value = log_uniform_integer(rng, low, octaves)
        kept = sin(pi * (log2(value) - log2(low)) / octaves) ** 2
        if integer_below(rng, _RESOLUTION) < kept * _RESOLUTION:
            return value


# How finely a probability is decided: as finely as a double tells it.
_RESOLUTION = 1 << 53


def exact_primes(magnitude: int, moduli: Callable[[int], tuple[int, ...]]) -> tuple[int, ...]:
    """The fewest of the primes modulo which a fraction of integers up to `magnitude` is unique."""
    for count in range(1, MOST_PRIMES + 1):
        primes = moduli(count)
        if 2 * magnitude * magnitude < prod(primes):
            return primes
    raise CapacityError(f"Fractions up to 2^{magnitude.bit_length()} need more than {MOST_PRIMES} primes.")


def exact_ratio(form: Form, residues: Sequence[int], primes: Sequence[int]) -> Fraction:
    """The fraction num/den from its residues; what is no honest ratio raises `VerificationFailed`."""
    found = rational(combine(residues, primes), prod(primes), form.bound)
    if found is None or found[0] > form.largest * found[1]:
        raise VerificationFailed
    return Fraction(*found)


def exact_fraction(form: Form, primes: Sequence[int], x: Sequence[int], z: Sequence[int]) -> Fraction | None:
    """num/den from c·num and c·den, for one unit c of every field; None where den is zero."""
    if not all(z):
        return None
    quotients = [top * pow(bottom, -1, prime) % prime for top, bottom, prime in zip(x, z, primes, strict=True)]
    return exact_ratio(form, quotients, primes)
