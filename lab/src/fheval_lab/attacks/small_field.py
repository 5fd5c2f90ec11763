"""How sound the algebra of `padded-verified` is, measured where luck can be seen: in fields of 100 or 1,000 elements.

In a field of p elements, a deviation that every run answers with an element as good as random is accepted at a rate
of 1/p for every run beyond the first. The protocol's primes have 46 bits; here p is small enough to count. Ciphertexts
and pads play no part: the aggregator gets the mapped sums themselves, and may return any bilinear form of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from typing import Any

import numpy as np

from fheval import field
from fheval.field import Residues
from fheval.protocols.padded_verified import SecretMaps
from fheval.protocols.round import Form
from fheval.secrets import Randomness, Stream, derive, integer_below, new_seed, nonzero_residue, residues
from fheval_lab.attacks.consortium import fresh_stream

PRIMES = (101, 1009)
DECISION_POINTS = 5

# Many runs of one tampered round give many pairs and triples of runs to compare.
ROUNDS = 100
RUNS_PER_ROUND = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """What the aggregator gets of one run: T̂, F̂, D_T and D_F, already added up over the parties."""

    prime: int
    t: Residues
    f: Residues
    d_left: Residues
    d_right: Residues

    @property
    def x(self) -> int:
        """T̂·F̂, what an honest aggregator returns times c."""
        return field.dot(self.t, self.f, self.prime)

    @property
    def y(self) -> int:
        """D_T·D_F, what an honest aggregator returns times c."""
        return field.dot(self.d_left, self.d_right, self.prime)


# What is returned instead of X and Y.
Answer = Callable[[Mapped], tuple[int, int]]
# A deviation draws what it needs once and then treats every run alike, given the field and the number of slots.
Deviation = Callable[[Randomness, int, int], Answer]


def scale_all(rng: Randomness, prime: int, _slots: int) -> Answer:
    """X times a unit other than 1."""
    factor = 2 + integer_below(rng, prime - 2)
    return lambda run: (run.x * factor, run.y)


def scale_all_but_one(rng: Randomness, prime: int, slots: int) -> Answer:
    """Half of every product but one."""
    half, kept = pow(2, -1, prime), integer_below(rng, slots)
    return lambda run: (half * (run.x + int(run.t[kept]) * int(run.f[kept])), run.y)


def zero_one(rng: Randomness, _prime: int, slots: int) -> Answer:
    """One product is left out."""
    slot = integer_below(rng, slots)
    return lambda run: (run.x - int(run.t[slot]) * int(run.f[slot]), run.y)


def shift_one(rng: Randomness, prime: int, slots: int) -> Answer:
    """A number is added to one T̂."""
    slot, amount = integer_below(rng, slots), nonzero_residue(rng, prime)
    return lambda run: (run.x + amount * int(run.f[slot]), run.y)


def swap_neighbours(_rng: Randomness, prime: int, _slots: int) -> Answer:
    """Every T̂ meets its neighbour's F̂."""
    return lambda run: (field.dot(np.roll(run.t, -1), run.f, prime), run.y)


def random_form(rng: Randomness, prime: int, slots: int) -> Answer:
    """A random bilinear form of T̂ and F̂."""
    matrix = residues(rng, prime, slots * slots).reshape(slots, slots)

    def answer(run: Mapped) -> tuple[int, int]:
        rows = [field.dot(row, run.f, prime) for row in matrix]
        return field.dot(run.t, np.array(rows, dtype=np.uint64), prime), run.y

    return answer


def mix_in_denominator(rng: Randomness, prime: int, _slots: int) -> Answer:
    """A multiple of Y is added to X."""
    factor = nonzero_residue(rng, prime)
    return lambda run: (run.x + factor * run.y, run.y)


def constants(rng: Randomness, prime: int, _slots: int) -> Answer:
    """Two numbers that have nothing to do with the data."""
    x, y = nonzero_residue(rng, prime), nonzero_residue(rng, prime)
    return lambda _run: (x, y)


def tamper_with_denominator(rng: Randomness, prime: int, _slots: int) -> Answer:
    """A number is added to Y."""
    amount = nonzero_residue(rng, prime)
    return lambda run: (run.x, run.y + amount)


def linear_answer(rng: Randomness, prime: int, slots: int) -> Answer:
    """X and Y as linear functions of the mapped sums, which need no product at all."""
    weights = residues(rng, prime, slots)
    return lambda run: (field.dot(weights, run.t, prime), int(run.d_left[0]))


DEVIATIONS: tuple[Deviation, ...] = (
    scale_all,
    scale_all_but_one,
    zero_one,
    shift_one,
    swap_neighbours,
    random_form,
    mix_in_denominator,
    constants,
    tamper_with_denominator,
    linear_answer,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """How often 2 or 3 runs agreed on a forged ratio, out of all pairs or triples of runs of the same round.

    `spread` is the standard deviation of `agreed` where 1/p is the truth.
    """

    name: str
    prime: int
    runs: int
    compared: int
    agreed: int
    spread: float

    @property
    def rate(self) -> float:
        return self.agreed / self.compared

    @property
    def expected(self) -> float:
        """1/p for every run beyond the first."""
        return float(self.prime) ** (1 - self.runs)

    @property
    def holds(self) -> bool:
        """Whether chance alone explains the difference; a value that six runs share by luck makes 20 triples."""
        off = self.agreed - self.expected * self.compared
        return -6 * self.spread <= off <= 7 * self.spread + (20 if self.runs == 3 else 0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "prime": self.prime,
            "runs": self.runs,
            "rate": self.rate,
            "expected": self.expected,
            "holds": self.holds,
        }


def acceptance_rates(
    prime: int, rounds: int = ROUNDS, deviations: Sequence[Deviation] = DEVIATIONS
) -> list[Acceptance]:
    """Every deviation in many rounds; two entries each, for 2 and for 3 runs."""
    rng = fresh_stream()
    agreed: dict[tuple[str, int], int] = Counter()
    for _ in range(rounds):
        truth, runs = _round(prime, rng)
        for deviation in deviations:
            answer = deviation(rng, prime, DECISION_POINTS)
            votes = Counter(solved(maps, *answer(run)) for maps, run in runs)
            # Agreeing on the truth forges nothing, and a run without a value agrees with none.
            del votes[truth], votes[None]
            for size in (2, 3):
                agreed[name_of(deviation), size] += sum(comb(count, size) for count in votes.values())
    return [
        _acceptance(name_of(deviation), prime, size, rounds, agreed[name_of(deviation), size])
        for deviation in deviations
        for size in (2, 3)
    ]


def _round(prime: int, rng: Randomness) -> tuple[int, list[tuple[SecretMaps, Mapped]]]:
    """Random sums with den ≠ 0, their ratio, and what the secret maps of many runs make of them."""
    left, right = residues(rng, prime, DECISION_POINTS), residues(rng, prime, DECISION_POINTS)
    left[-1], right[-1] = nonzero_residue(rng, prime), nonzero_residue(rng, prime)
    den = int(left[-1]) * int(right[-1])
    truth = field.dot(left[:-1], right[:-1], prime) * pow(den, -1, prime) % prime
    return truth, hidden_runs(prime, left, right, rng)


def hidden_runs(prime: int, left: Residues, right: Residues, rng: Randomness) -> list[tuple[SecretMaps, Mapped]]:
    """What the secret maps of many runs make of these sums."""
    form = Form(numerator=DECISION_POINTS - 1, denominator=1, magnitude=prime)
    seed = new_seed(rng)
    runs = []
    for index in range(RUNS_PER_ROUND):
        maps = _secret_maps(prime, derive(seed, "small field", index))
        (t, d_left), (f, d_right) = maps.hide(form, left, right)
        runs.append((maps, Mapped(prime=prime, t=t, f=f, d_left=d_left, d_right=d_right)))
    return runs


def _secret_maps(prime: int, stream: Stream) -> SecretMaps:
    r3, r4, r5, r6, r7, r8 = (nonzero_residue(stream, prime) for _ in range(6))
    return SecretMaps(prime=prime, units=(r3, r4, r5, r6, r7, r8), stream=stream)


def solved(maps: SecretMaps, x: int, y: int) -> int | None:
    """The ratio that one run gives, None where Y is zero."""
    return maps.solve(x, y) if y % maps.prime else None


def name_of(deviation: Deviation) -> str:
    """How a deviation is called in a report."""
    return deviation.__name__.replace("_", "-")


def _acceptance(name: str, prime: int, runs: int, rounds: int, agreed: int) -> Acceptance:
    sets = comb(RUNS_PER_ROUND, runs)
    rate = float(prime) ** (1 - runs)
    # Pairs of runs agree independently of each other; triples that share two runs do not.
    variance = sets * rate * (1 - rate)
    if runs == 3:
        variance += sets * 3 * (RUNS_PER_ROUND - 3) * float(prime) ** -3
    return Acceptance(
        name=name, prime=prime, runs=runs, compared=rounds * sets, agreed=agreed, spread=sqrt(rounds * variance)
    )
