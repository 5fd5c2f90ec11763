"""How sound one run over each of several fields is, measured where luck can be seen: in fields of about 100 elements.

A deviation gives every field an element as good as random, and what is accepted is a fraction of small integers that
all of them agree on. So the rate is the number of such fractions over the number of all combinations of elements. An
aggregator may also follow the protocol in some fields: then a wrong fraction must look like the right one there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from fheval import field
from fheval.secrets import Randomness, integer_below, integer_between
from fheval_lab.attacks import small_field
from fheval_lab.attacks.consortium import fresh_stream
from fheval_lab.attacks.small_field import DECISION_POINTS, DEVIATIONS, RUNS_PER_ROUND, Deviation

PRIMES = (101, 103, 107, 109)
BOUND = 60
ROUNDS = 60

Indices = npt.NDArray[np.intp]

# In how many fields the protocol is followed.
SPARED = (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often one run over each field agreed on a wrong fraction, out of all ways to take one of many runs each.

    `spread` is the standard deviation of the rate where every element is as likely as any other.
    """

    name: str
    spared: int
    rate: float
    expected: float
    spread: float

    @property
    def holds(self) -> bool:
        return abs(self.rate - self.expected) <= 6 * self.spread

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "fields": len(PRIMES),
            "honest_fields": self.spared,
            "rate": self.rate,
            "expected": self.expected,
            "holds": self.holds,
        }


def fractions() -> list[tuple[int, int]]:
    """All that a verification accepts under the bound: 0 ≤ num ≤ den, in lowest terms."""
    return [(num, den) for den in range(1, BOUND + 1) for num in range(den + 1) if gcd(num, den) == 1]


def agreement_rates(rounds: int = ROUNDS, deviations: Sequence[Deviation] = DEVIATIONS) -> list[Agreement]:
    """Every deviation in many rounds, in all fields and in all but one."""
    rng = fresh_stream()
    possible = fractions()
    residues = [np.array([num * pow(den, -1, prime) % prime for num, den in possible]) for prime in PRIMES]
    covariances = {spared: _covariance(PRIMES[spared:], residues[spared:]) for spared in SPARED}
    expected, variance = (dict.fromkeys(SPARED, 0.0) for _ in range(2))
    rates: dict[tuple[str, int], float] = defaultdict(float)
    for _ in range(rounds):
        truth = integer_below(rng, len(possible))
        left, right = _integers(*possible[truth], rng)
        open_to = {spared: _like(residues[:spared], len(possible), truth) for spared in SPARED}
        for spared, wrong in open_to.items():
            expected[spared] += len(wrong) / prod(PRIMES[spared:]) / rounds
            variance[spared] += float(covariances[spared][np.ix_(wrong, wrong)].sum()) / rounds**2
        runs = [
            small_field.hidden_runs(prime, field.from_integers(left, prime), field.from_integers(right, prime), rng)
            for prime in PRIMES
        ]
        for deviation in deviations:
            counts = []
            for prime, mine, hidden in zip(PRIMES, residues, runs, strict=True):
                answer = deviation(rng, prime, DECISION_POINTS)
                values = [small_field.solved(maps, *answer(run)) for maps, run in hidden]
                votes = np.bincount([value for value in values if value is not None], minlength=prime)
                counts.append(votes[mine] / RUNS_PER_ROUND)
            for spared, wrong in open_to.items():
                rates[small_field.name_of(deviation), spared] += float(prod(counts[spared:])[wrong].sum()) / rounds
    return [
        Agreement(name=name, spared=spared, rate=rate, expected=expected[spared], spread=sqrt(variance[spared]))
        for (name, spared), rate in rates.items()
    ]


def _like(residues: Sequence[Indices], count: int, truth: int) -> Indices:
    """The wrong fractions that look like the right one in these fields."""
    like = np.full(count, fill_value=True)
    for mine in residues:
        like &= mine == mine[truth]
    like[truth] = False
    return np.flatnonzero(like)


def _covariance(primes: Sequence[int], residues: Sequence[Indices]) -> npt.NDArray[np.float64]:
    """That of Π_j v_j(f)/n for every two fractions f, where v_j counts how many of n runs give f's element of field j.

    Of n random elements, v of them one and v' of them another, E[v·v'] is n(n − 1)/t², and n/t more for the same one.
    """
    runs = RUNS_PER_ROUND
    together = [
        (runs - 1) / (runs * prime**2) + np.equal.outer(mine, mine) / (runs * prime)
        for prime, mine in zip(primes, residues, strict=True)
    ]
    covariance: npt.NDArray[np.float64] = np.multiply.reduce(together) - float(prod(primes)) ** -2
    return covariance


def _integers(num: int, den: int, rng: Randomness) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sums with this ratio."""
    left, right = (np.array([integer_between(rng, -50, 50) for _ in range(DECISION_POINTS)]) for _ in range(2))
    left[-2:] = 1, 1
    right[-2:] = num - int(left[:-2] @ right[:-2]), den
    return left, right
