"""`padded-verified`: as `padded`, against a malicious aggregator, verified by exact algebra.

What parties upload is first passed through secret linear maps that all of them derive from the common seed, anew for
every run ρ, prime and form: units r_3 … r_8 and vectors u, w with 1 + u·w ≠ 0. With L, R the sums of the left and
right integers, num and den the index sets of their products,

    t = (r_3·L_num ; r_5·L_den)    f = (r_4·R_num ; r_6·R_den)
    T̂ = t + u(w·t)                 F̂ = f − w(u·f)/(1 + u·w)        T̂·F̂ = t·f = r_3r_4·num + r_5r_6·den
    D_T, D_F = r_7·L_den, r_8·R_den, mixed likewise                 D_T·D_F = r_7r_8·den

and the aggregator returns X = c·(T̂·F̂) and Y = c·(D_T·D_F), c a fresh unit per run, prime and form. The parties solve
each run for num/den, a field element that must be the same in all runs of a prime; then the primes together must give
a fraction of small integers.

The secret change of basis mixes all slots, so that there is none to guess: whatever else the aggregator returns, a run
gives an element as good as random. One more prime than the fraction needs is therefore as good a check as one more run
over each of them, and costs a party far less: by default there is one run for each prime. Whoever opens the answer,
the leader and the checkers that a study names, sees the exact fraction. The others are told it in the decimals of the
study's precision, rounded to the nearest, so that another round over the same rows tells them the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import log2

import numpy as np

from fheval import field
from fheval.engines import Engine
from fheval.engines.parameters import bfv_linear, plain_moduli
from fheval.errors import CapacityError, UndefinedMetric, VerificationFailed
from fheval.field import Residues
from fheval.protocols import base, curve, padded, padding
from fheval.protocols.base import Option, Protocol, Seat, View, Words
from fheval.protocols.groups import party_declare
from fheval.protocols.padded import PaddedCounts, PaddedResult, SlotLayout
from fheval.protocols.padding import SlotPlan
from fheval.protocols.release import MOST_PRIMES, exact_primes, exact_ratio
from fheval.protocols.round import (
    AGGREGATOR,
    Contribution,
    Form,
    PartySecrets,
    Round,
    Verdict,
    digits_within,
    in_decimals,
)
from fheval.secrets import Secret, Stream, derive, nonzero_residue, residues
from fheval.wire import Message, decode

NAME = "padded-verified"

# Each run is worth 46 bits; who asks for more wants to fill other people's memory.
RUNS = Option(name="runs", help="runs that must agree, for each prime", default=1, most=8)

# How many secret multiples of the counts are uploaded with them, where counts are released: 46 bits each.
TAGS = 2

# A wrong fraction is accepted with a probability of at most 2^-80.
LEAST_SOUNDNESS_BITS = 80
# A run in which the aggregator deviates gives any one element of F_t with a probability of at most 8/(t − 1).
_DEGREE = 8


def lay_out(round_: Round) -> SlotLayout:
    """The slots of all runs; refuses, before anyone sends anything, what would not fit."""
    runs = RUNS.of(round_)
    RUNS.check(runs)
    primes = enough_primes(max(form.bound for form in round_.forms), runs)
    lengths = [n for form in round_.forms for n in (form.terms, form.denominator)] * runs
    groups = [[np.arange(start, stop)] for start, stop in pairwise(np.cumsum([0, *lengths]))]
    plan = SlotPlan.of(groups, bfv_linear(primes[0]).slots)
    return SlotLayout(primes=primes, plan=plan, uploaded=2 * sum(lengths), released=tuple(groups), runs=runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretMaps:
    """The secret maps of one form in one run over one prime field."""

    prime: int
    units: tuple[int, int, int, int, int, int] = dataclasses.field(repr=False)
    stream: Stream = dataclasses.field(repr=False)

    @classmethod
    def derive(cls, seed: Secret[bytes], round_: Round, run: int, prime: int, form: int) -> SecretMaps:
        """r_3 … r_8, and the stream that u and w come from."""
        stream = derive(seed, "padded-verified/maps", round_.digest, run, prime, form)
        r3, r4, r5, r6, r7, r8 = (nonzero_residue(stream, prime) for _ in range(6))
        return cls(prime=prime, units=(r3, r4, r5, r6, r7, r8), stream=stream)

    def hide(self, form: Form, left: Residues, right: Residues) -> tuple[list[Residues], list[Residues]]:
        """Party: (T̂, D_T) and (F̂, D_F) from its own integers; being linear, the maps commute with the sum."""
        r3, r4, r5, r6, r7, r8 = self.units
        lengths = (form.numerator, form.denominator)
        t = field.multiply(left, np.repeat(np.array([r3, r5], dtype=np.uint64), lengths), self.prime)
        f = field.multiply(right, np.repeat(np.array([r4, r6], dtype=np.uint64), lengths), self.prime)
        t_hat, f_hat = mix(t, f, self.prime, self.stream)
        d_left = field.multiply(left[form.numerator :], r7, self.prime)
        d_right = field.multiply(right[form.numerator :], r8, self.prime)
        d_left, d_right = mix(d_left, d_right, self.prime, self.stream)
        return [t_hat, d_left], [f_hat, d_right]

    def solve(self, x: int, y: int) -> int:
        """num/den = (X/Y − r_5r_6/(r_7r_8))·r_7r_8/(r_3r_4) as a field element."""
        r3, r4, r5, r6, r7, r8 = self.units
        quotient = x * pow(y, -1, self.prime)
        return (quotient * r7 * r8 - r5 * r6) * pow(r3 * r4, -1, self.prime) % self.prime


def mix(t: Residues, f: Residues, prime: int, stream: Stream) -> tuple[Residues, Residues]:
    """T̂ = t + u(w·t) and F̂ = f − w(u·f)/(1 + u·w), with u and w uniform among those with 1 + u·w ≠ 0.

    >>> from fheval.secrets import Secret, derive
    >>> t, f = np.array([1, 2, 3], dtype=np.uint64), np.array([4, 5, 6], dtype=np.uint64)
    >>> field.dot(*mix(t, f, 101, derive(Secret(bytes(32)), "example")), 101) == field.dot(t, f, 101)
    True
    """
    while True:
        u, w = residues(stream, prime, len(t)), residues(stream, prime, len(t))
        determinant = (1 + field.dot(u, w, prime)) % prime
        if determinant:
            break
    t_hat = field.add(t, field.multiply(u, field.dot(w, t, prime), prime), prime)
    factor = field.dot(u, f, prime) * pow(determinant, -1, prime) % prime
    f_hat = field.subtract(f, field.multiply(w, factor, prime), prime)
    return t_hat, f_hat


def soundness_bits(bound: int, primes: Sequence[int], runs: int) -> float:
    """What a fraction other than num/den is accepted with, as a power of one half; `bound` is that of the form.

    A wrong fraction that agrees with num/den modulo some primes differs from it by a multiple of their product, which
    is at most bound². So a forger may follow the protocol for as many primes as have a product up to bound², and must
    fool all runs of the others. Modulo these few, no more than 2·bound²/product + 1 fractions look alike: neighbours
    among them span triangles of area product/2 or more, which lie side by side in a square of area bound².

    >>> soundness_bits(2**47, plain_moduli(4), runs=1), soundness_bits(2**47, plain_moduli(3), runs=3)
    (82.8, 125.8)
    """
    ascending = sorted(primes)
    product, spared = 1, 0
    while spared < len(ascending) and product * ascending[spared] <= bound * bound:
        product *= ascending[spared]
        spared += 1
    fooled = runs * (len(ascending) - spared)
    return round(fooled * log2((ascending[0] - 1) / _DEGREE) - log2(2 * bound * bound // product + 1), 1)


def soundness_of(round_: Round, layout: SlotLayout) -> float:
    """What any wrong fraction of this round is accepted with: the bounds of all its ratios together."""
    each = soundness_bits(max(form.bound for form in round_.forms), layout.primes, RUNS.of(round_))
    return round(each - log2(len(round_.forms)), 1)


def enough_primes(bound: int, runs: int) -> tuple[int, ...]:
    """The fewest primes that give the fraction and 80 bits of soundness.

    >>> [len(enough_primes(2**47, runs)) for runs in (1, 2, 3)]
    [4, 3, 3]
    """
    for count in range(len(exact_primes(bound, plain_moduli)), MOST_PRIMES + 1):
        primes = plain_moduli(count)
        if soundness_bits(bound, primes, runs) >= LEAST_SOUNDNESS_BITS:
            return primes
    raise CapacityError(f"Verified fractions up to 2^{bound.bit_length()} need more than {MOST_PRIMES} primes.")


def party_submit(round_: Round, secrets: PartySecrets, me: str, own: Contribution, nonce: bytes) -> PaddedCounts:
    """Step 1, party: its integers through the secret maps of every run and prime, then padded.

    Learns: nothing.
    """
    layout = lay_out(round_)
    hidden = []
    factors = round_.factors_by_form(own)
    for prime in layout.primes:
        lefts: list[Residues] = []
        rights: list[Residues] = []
        for run in range(RUNS.of(round_)):
            for index, (form, (own_left, own_right)) in enumerate(zip(round_.forms, factors, strict=True)):
                maps = SecretMaps.derive(secrets.seed, round_, run, prime, index)
                left, right = maps.hide(
                    form, field.from_integers(own_left, prime), field.from_integers(own_right, prime)
                )
                lefts += left
                rights += right
        hidden.append(np.concatenate(lefts + rights))
    values = padding.party_pad(round_, secrets, nonce, layout.primes, hidden)
    declared = party_declare(round_, secrets, own, nonce)
    return PaddedCounts(round=round_.id, sender=me, nonce=nonce, values=values, declared=declared)


class Aggregator(padded.Aggregator):
    """As in `padded`, with one unit c for both answers of a form in a run, fresh for every prime."""

    lay_out = staticmethod(lay_out)


def leader_open(
    engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], result: PaddedResult
) -> Verdict:
    """Step 6 and the verification, leader or checker.

    Learns: the exact fraction; or that the aggregator deviated. Says so to no one.
    """
    padded.require_answered(round_, roster, result)
    layout = lay_out(round_).reading(round_, result.groups)
    if not padded.fits(layout, result.ciphertexts):
        raise VerificationFailed
    answers = padding.leader_decrypt(engine, secrets, layout.primes, layout.plan, result.ciphertexts)
    if not any(value for answer in answers for value in answer):
        raise UndefinedMetric(
            "The metric is undefined: the aggregator's answer is zero throughout. Either the parties together hold "
            "samples of one class only, and one with the other class must join, or the aggregator answered nothing."
        )
    read = round_.forms_of(result.groups)
    ratios = tuple(
        verify(round_, secrets.seed, layout.primes, index, [_pairs(round_, place, len(read), each) for each in answers])
        for place, index in enumerate(read)
    )
    if all(ratio is None for ratio in ratios):
        raise UndefinedMetric
    bits = soundness_of(round_, layout)
    return Verdict(ratios=ratios, groups=result.groups, roster=result.roster, verified=True, soundness_bits=bits)


def verify(
    round_: Round, seed: Secret[bytes], primes: Sequence[int], index: int, pairs: Sequence[Sequence[tuple[int, int]]]
) -> Fraction | None:
    """The fraction that all runs of all primes agree on, or `VerificationFailed`; None where den is zero.

    A malicious aggregator can feign a zero by answering nothing for a form, but no value. `pairs` are X and Y of every
    run, for each prime.
    """
    form = round_.forms[index]
    if not any(y for run_pairs in pairs for _, y in run_pairs):
        if form.proper and any(x for run_pairs in pairs for x, _ in run_pairs):
            raise VerificationFailed
        return None
    residues_of_ratio = []
    for prime, run_pairs in zip(primes, pairs, strict=True):
        if not all(y for _, y in run_pairs):
            raise VerificationFailed
        solved = {
            SecretMaps.derive(seed, round_, run, prime, index).solve(x, y) for run, (x, y) in enumerate(run_pairs)
        }
        if len(solved) != 1:
            raise VerificationFailed
        residues_of_ratio.append(solved.pop())
    return exact_ratio(form, residues_of_ratio, primes)


def _pairs(round_: Round, place: int, forms: int, answer: Sequence[int]) -> list[tuple[int, int]]:
    """X and Y of one of so many forms in every run."""
    starts = [2 * (run * forms + place) for run in range(RUNS.of(round_))]
    return [(answer[start], answer[start + 1]) for start in starts]


class PaddedVerified(padded.Padded):
    """`padded-verified`, for a malicious aggregator."""

    name = NAME
    words = Words(
        summary="kilobytes a party; a forged result is refused; those who open it see the exact fraction",
        aggregator="may do anything: a forged result is refused",
        upload=padded.Padded.words.upload,
        leader_upload=padded.Padded.words.leader_upload,
        views=(
            padded.Padded.words.views[0],
            View(
                role="leader",
                who="the leader, one of them",
                sees="its own rows and the exact fractions, whatever decimals the others are told; it makes the keys "
                "and can derive every pad, and gets nobody's upload, but their sum under a pad of the aggregator's",
            ),
        ),
        together=f"{padding.TOGETHER} Any party that tells the aggregator the secret maps lets it pass off a forgery.",
        steps=(
            "It passes them through secret linear maps, others for each of several prime numbers, that all parties can "
            "derive and the aggregator cannot.",
            *padded.Padded.words.steps[:2],
            "The leader opens the blinded answers and undoes the maps. Modulo every prime the very same fraction must "
            "come out; otherwise there is no result. The aggregator is told neither.",
        ),
    )
    resists = True
    opens_exactly = True
    default_precision: float | None = None
    options = (RUNS,)
    aggregator: type[base.Aggregator] = Aggregator
    counts: Protocol | None = curve.CountsRelease(NAME, tags=TAGS)

    def lay_out(self, round_: Round) -> SlotLayout:
        return lay_out(round_)

    def submit(self, seat: Seat, nonce: bytes) -> Message:
        return party_submit(seat.round, seat.secrets, seat.me, seat.own, nonce)

    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Verdict:
        return leader_open(engine, round_, secrets, roster, decode(answer, PaddedResult, sender=AGGREGATOR))

    def told(self, round_: Round, verdict: Verdict) -> Verdict:
        """In the decimals of the study, where it has any."""
        if round_.precision is None:
            return verdict
        digits = digits_within(Fraction(str(round_.precision)))
        ratios = tuple(None if ratio is None else in_decimals(ratio, digits) for ratio in verdict.ratios)
        return dataclasses.replace(verdict, ratios=ratios)

    def soundness_bits(self, round_: Round) -> float:
        return soundness_of(round_, lay_out(round_))


PROTOCOL = PaddedVerified()
