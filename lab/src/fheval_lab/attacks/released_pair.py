"""A curious leader's attacks on the pairs of integers that `padded` releases: does it learn 2PQ beyond the ratio?

The leader knows how many samples there are in all, n, and hence every value that den = 2PQ can take. It looks at
X = K·num + b·den + e_1 and Z = K·den + e_2 and names one; chance names the right one once in as many guesses as there
are candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import gcd, log2
from typing import Any

from fheval.protocols import padded
from fheval.protocols.release import RoundedRelease
from fheval.protocols.round import DEFAULT_MAX_SAMPLES, Denominator
from fheval.secrets import Randomness, integer_below, integer_between
from fheval_lab.attacks.chance import IMPLAUSIBLE, binomial_tails
from fheval_lab.attacks.consortium import fresh_stream

SAMPLES = 1000
ROUNDS = 1000

# Ten metrics with forty resamples: four hundred looks at the size of the data.
KINDS = 10
LINES = 41
SIZED_ROUNDS = 200

# A multiple that lies just below Z by accident once in 2^12 is found out once in 2^12.
_CLEAR_BITS = 12
# A multiple of 2^s is one of every smaller power as well, so that a look at some of them will do.
_STEP = 4

Guess = Callable[[int, int, Sequence[int], Randomness], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakRate:
    """How often an attack on privacy was right, and how often it may be: by chance, or by what is conceded."""

    name: str
    tries: int
    right: int
    conceded: float

    @property
    def holds(self) -> bool:
        return binomial_tails(self.right, self.tries, self.conceded)[1] > IMPLAUSIBLE

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


def by_divisibility(_x: int, z: int, candidates: Sequence[int], rng: Randomness) -> int:
    """The largest candidate that divides Z: without e_2, den does."""
    return _largest_divisor(z, candidates, rng)


def by_common_divisor(x: int, z: int, candidates: Sequence[int], rng: Randomness) -> int:
    """The largest candidate that divides X and Z: without e_1 and e_2, den does when the AUC is 1."""
    return _largest_divisor(gcd(x, z), candidates, rng)


def by_grid(_x: int, z: int, candidates: Sequence[int], rng: Randomness) -> int:
    """The candidate whose multiple lies just below Z on the coarsest grid: were K a multiple of 2^s, den·2^s would."""
    noise = default_release().scales[0].noise
    finest = max(0, noise.bit_length() + _CLEAR_BITS - max(candidates).bit_length())
    for shift in range(z.bit_length(), finest, -_STEP):
        near = [candidate for candidate in candidates if z % (candidate << shift) < noise]
        if near:
            return max(near)
    return candidates[integer_below(rng, len(candidates))]


def by_continued_fraction(x: int, z: int, candidates: Sequence[int], _rng: Randomness) -> int:
    """The smallest multiple of the longest convergent's denominator: without b and e, X/Z is num/den."""
    for denominator in sorted(_convergent_denominators(x, z, max(candidates)), reverse=True):
        multiples = [candidate for candidate in candidates if candidate % denominator == 0]
        if multiples:
            return min(multiples)
    raise AssertionError("every number is a multiple of the first denominator, 1")


def _largest_divisor(number: int, candidates: Sequence[int], rng: Randomness) -> int:
    divisors = [candidate for candidate in candidates if number % candidate == 0]
    return max(divisors) if divisors else candidates[integer_below(rng, len(candidates))]


def _convergent_denominators(x: int, z: int, bound: int) -> Iterator[int]:
    before, now = 0, 1
    while now <= bound:
        yield now
        # The integer part goes first: it has the denominator 1 as well.
        x, z = z, x % z
        if z == 0:
            return
        before, now = now, before + (x // z) * now


def candidate_denominators(samples: int) -> list[int]:
    """Every 2PQ with P + Q = samples and both classes present."""
    return [2 * positives * (samples - positives) for positives in range(1, samples // 2 + 1)]


def released(release: RoundedRelease, num: int, den: int, rng: Randomness) -> tuple[int, int]:
    """X and Z of one round."""
    (drawn,) = release.draw([Denominator(0)], rng)
    return drawn.scale * num + drawn.tilt * den + drawn.noise_x, drawn.scale * den + drawn.noise_z


def default_release() -> RoundedRelease:
    """The release of `padded` as it is by default."""
    return RoundedRelease.plan([DEFAULT_MAX_SAMPLES**2 // 2], padded.PROTOCOL.default_precision or 0.0)


def guess_denominator(guess: Guess, *, perfect_model: bool = False, rounds: int = ROUNDS) -> LeakRate:
    """Play that many rounds, each with other data; a perfect model has an AUC of 1."""
    rng, release = fresh_stream(), default_release()
    candidates = candidate_denominators(SAMPLES)
    right = 0
    for _ in range(rounds):
        den = candidates[integer_below(rng, len(candidates))]
        num = den if perfect_model else integer_between(rng, den // 2, den)
        right += guess(*released(release, num, den, rng), candidates, rng) == den
    name = guess.__name__.replace("_", "-")
    return LeakRate(name=name, tries=rounds, right=right, conceded=1 / len(candidates))


def guess_size(rounds: int = ROUNDS) -> LeakRate:
    """Tell few positives from many by the size of Z: s octaves concede s/hiding_bits, and no more."""
    rng, release = fresh_stream(), default_release()
    candidates = candidate_denominators(SAMPLES)
    small, large = candidates[len(candidates) // 50], candidates[-1]
    middle = (log2(small) + log2(large)) / 2 + log2(release.scales[0].smallest) + release.scales[0].spare_bits / 2
    right = 0
    for _ in range(rounds):
        is_large = bool(integer_below(rng, 2))
        _, z = released(release, 0, large if is_large else small, rng)
        right += (log2(z) > middle) == is_large
    advantage = log2(large / small) / release.hiding_bits
    return LeakRate(name="by-size", tries=rounds, right=right, conceded=0.5 + advantage / 2)


def sizes_of_a_round(
    release: RoundedRelease, denominators: Sequence[Denominator], positives: int, rng: Randomness
) -> list[float]:
    """The logarithm of every Z of a round whose denominators are squares of about so many positives, line by line.

    A resample's positives scatter as a sum of so many Poisson weights does, here as a sum of fair bits.
    """
    lines = {0: positives}
    for each in denominators:
        if each.line not in lines:
            # 4·positives bits have the variance of so many weights.
            drawn = bin(int.from_bytes(rng.draw(positives // 2), "little")).count("1")
            lines[each.line] = positives + drawn - 4 * (positives // 2)
    drawn_scales = release.draw(denominators, rng)
    return [
        log2(one.scale * lines[each.line] ** 2 + one.noise_z)
        for one, each in zip(drawn_scales, denominators, strict=True)
    ]


def guess_size_of_a_round(rounds: int = SIZED_ROUNDS) -> LeakRate:
    """Tell a thousand positives from 1,414, whose squares are twice as large, by all Z of a round with resamples.

    By their mean and by the middle of the least and the largest, whichever is right more often.
    """
    rng = fresh_stream()
    denominators = [Denominator(kind, line) for kind in range(KINDS) for line in range(LINES)]
    bounds = [DEFAULT_MAX_SAMPLES**2] * len(denominators)
    release = RoundedRelease.plan(bounds, padded.PROTOCOL.default_precision or 0.0, denominators)
    few, many = 1000, 1414
    middle = log2(few * many) + log2(release.scales[0].smallest) + release.scales[0].spare_bits / 2
    right = [0, 0]
    for _ in range(rounds):
        is_large = bool(integer_below(rng, 2))
        found = sizes_of_a_round(release, denominators, many if is_large else few, rng)
        for number, estimate in enumerate((sum(found) / len(found), (min(found) + max(found)) / 2)):
            right[number] += (estimate > middle) == is_large
    return LeakRate(
        name="by-all-sizes-of-a-round", tries=rounds, right=max(right), conceded=0.5 + 1 / (2 * release.hiding_bits)
    )


def attack_released_pair() -> list[LeakRate]:
    """Every attack on the released pair."""
    return [
        guess_denominator(by_divisibility),
        guess_denominator(by_common_divisor, perfect_model=True),
        guess_denominator(by_continued_fraction),
        guess_denominator(by_grid),
        guess_size(),
        guess_size_of_a_round(),
    ]
