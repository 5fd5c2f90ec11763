"""Release by a committee: two of its members blind, and neither can undo it without the other.

With one aggregator that draws K, b and the noise, `release` shows that X = K·num + b·den + e_1 and Z = K·den + e_2 tell
num/den to the precision and nothing else. Here two members draw, A and B, each of which may be the one that works
together with everybody else and so knows its own half:

    K = K_A·K_B + κ_A + κ_B        b = K_A·b_B + K_B·b_A + β_A + β_B        e = e_A + e_B.

Each K_h has a smooth logarithm over W octaves from H on, b_h is uniform in ±K_h·q/4, κ_h and β_h are uniform below
G = 2^5·H·2^W, and the noise of each below E.

Why all of it is needed, from the side of A, which knows its half and guesses (num', den'). Without κ_B, K − κ_A would
have to be a multiple of K_A, which is far larger than what the noise covers: every wrong guess would be refuted. Since
κ_B is uniform over 32 gaps between such multiples or more, every integer is a K for about as many pairs (K_B, κ_B), and
the likelihood of Z is that of log K_B, shifted by as many octaves as the guess is wrong. In the same way β_B fills the
gaps that K_A leaves in b, so that given K any X of the window is as likely as any other. What remains is `release`'s
argument with W octaves of the honest one alone: a guess that is wrong by s octaves has an advantage of at most
π·s·√(Σ 1/W²) over the kinds of denominators, each with a W of its own. Common scales and lines are drawn as there.

What it costs. b must stay within ±K·q/2, and κ and β small beside K_A·K_B ≥ H²: H = 2^(W + 13)/p makes them p/2^7 of
it, and H² ≥ 2^8·E/p the noise as well. The tilt leaves p/16 of the window to them.

Two members who both work together with somebody that sees X and Z know K, b and the noise, and so num and den: the
pooled numbers, though nobody's own counts. With exact release every member blinds, and any one of them is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, isqrt

from fheval.engines.parameters import plain_moduli
from fheval.errors import LocalProtocolError
from fheval.protocols.release import (
    LINE_BITS,
    NOISE_BITS,
    RoundedRelease,
    Scale,
    smooth_log_integer,
)
from fheval.protocols.round import Denominator
from fheval.secrets import Randomness, integer_below, integer_between

# The first members of a committee.
BLINDERS = 2
# Gaps between the multiples of the other's scale that κ and β fill: 2^5.
FILL_BITS = 5
# How much smaller than H²·p what they fill must be: 2·G·2^7 ≤ H²·p.
_FILL_MARGIN_BITS = FILL_BITS + 8
# And the noise: 2·E·2^7 ≤ H²·p.
_NOISE_MARGIN_BITS = 7
# Of the window p, what is left to κ, β and the noise.
_LEFT_OPEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfScale(Scale):
    """What each of the two blinds one kind of denominator with: E, H, and W octaves above it; `smallest` is H²."""

    least: int

    @classmethod
    def of(cls, bound: int, precision: Fraction, modulus: int) -> HalfScale:
        """The widest scales for num and den up to `bound`; none where not even one octave fits."""
        noise, spare = bound << NOISE_BITS, 0
        while _largest(bound, noise, precision, spare + 1) < modulus:
            spare += 1
        least = _least(noise, precision, spare)
        return cls(noise=noise, smallest=least * least, spare_bits=spare, least=least)

    @property
    def fill(self) -> int:
        """G: what κ and β are drawn below."""
        return self.least << (self.spare_bits + FILL_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfBlinding:
    """What one of the two draws for one ratio: K_h, b_h, κ_h, β_h, and the noise."""

    scale: int = field(repr=False)
    tilt: int = field(repr=False)
    fill_scale: int = field(repr=False)
    fill_tilt: int = field(repr=False)
    noise_x: int = field(repr=False)
    noise_z: int = field(repr=False)


class TwoBlinders(RoundedRelease):
    """The public numbers of a release that two members blind.

    >>> release = TwoBlinders.plan([2**47], 1e-4)
    >>> len(release.primes), release.scales[0].spare_bits, release.hiding_bits
    (4, 21, 6)
    """

    __slots__ = ()

    @staticmethod
    def moduli(count: int) -> tuple[int, ...]:
        """Those of uploads, which are residues here."""
        return plain_moduli(count)

    @classmethod
    def scale(cls, bound: int, precision: Fraction, modulus: int) -> Scale:
        return HalfScale.of(bound, precision, modulus)

    def _half_scale(self, kind: int) -> HalfScale:
        found = self.scales[kind]
        if not isinstance(found, HalfScale):
            raise LocalProtocolError("This release was planned for one who blinds, and not for two.")
        return found

    def draw_half(self, denominators: Sequence[Denominator], rng: Randomness) -> list[HalfBlinding]:
        """Blinding member: fresh numbers for the forms of a round; K, κ and e_2 are those of their denominator."""
        common: dict[int, int] = {}
        drawn_for: dict[Denominator, tuple[int, int, int]] = {}
        window = self.precision - Fraction(1, 10**self.digits) - self.precision / _LEFT_OPEN
        drawn = []
        for each in denominators:
            public = self._half_scale(each.kind)
            if each not in drawn_for:
                if each.kind not in common:
                    common[each.kind] = smooth_log_integer(rng, public.least, self.common_bits(each.kind))
                start = common[each.kind]
                scale = smooth_log_integer(rng, start, LINE_BITS) if self.lines else start
                drawn_for[each] = (scale, integer_below(rng, public.fill), integer_below(rng, public.noise))
            scale, fill_scale, noise_z = drawn_for[each]
            half = int(scale * window / 4)
            drawn.append(
                HalfBlinding(
                    scale=scale,
                    tilt=integer_between(rng, -half, half),
                    fill_scale=fill_scale,
                    fill_tilt=integer_below(rng, public.fill),
                    noise_x=integer_below(rng, public.noise),
                    noise_z=noise_z,
                )
            )
        return drawn


def _least(noise: int, precision: Fraction, spare: int) -> int:
    """H, for scales of so many octaves."""
    by_fill = ceil((1 << (spare + _FILL_MARGIN_BITS)) / precision)
    by_noise = isqrt(ceil((2 * noise << _NOISE_MARGIN_BITS) / precision)) + 1
    return max(by_fill, by_noise)


def _largest(bound: int, noise: int, precision: Fraction, spare: int) -> int:
    """What X and Z stay below, with room for what the lift leaves below zero."""
    least = _least(noise, precision, spare)
    scale = ((least << spare) ** 2) + 2 * (least << (spare + FILL_BITS))
    return int(scale * bound * (1 + 2 * precision)) + 2 * noise + 1
