"""One run over each of several small fields: they agree on a wrong fraction as often as chance has it, no more."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest

from fheval.errors import VerificationFailed
from fheval.field import Residues
from fheval.protocols import padded_verified
from fheval.protocols.release import exact_ratio
from fheval.protocols.round import Form
from fheval.secrets import Randomness
from fheval_lab.attacks.several_fields import BOUND, PRIMES, SPARED, agreement_rates, fractions
from fheval_lab.attacks.small_field import DEVIATIONS, Answer

pytestmark = pytest.mark.slow


def test_every_deviation_is_accepted_as_often_as_random_elements_are() -> None:
    rates = agreement_rates(rounds=40)
    assert len(rates) == len(SPARED) * len(DEVIATIONS)
    assert [rate for rate in rates if not rate.holds] == []
    # A deviation that is never accepted measures nothing.
    assert all(rate.rate > 0 for rate in rates)


def test_what_is_expected_is_what_a_verification_accepts() -> None:
    form = Form(numerator=1, denominator=1, magnitude=BOUND)
    possible = fractions()
    for num, den in possible:
        residues = [num * pow(den, -1, prime) % prime for prime in PRIMES]
        assert exact_ratio(form, residues, PRIMES) == Fraction(num, den)
    # All elements of the smallest field beside the residues of 1/2 elsewhere: 1/2 alone passes.
    half = [pow(2, -1, prime) for prime in PRIMES]
    passed = []
    for element in range(PRIMES[0]):
        try:
            passed.append(exact_ratio(form, [element, *half[1:]], PRIMES))
        except VerificationFailed:
            continue
    assert passed == [Fraction(1, 2)]


def test_the_proven_bound_is_above_what_chance_gives() -> None:
    """In the fields that the protocol uses; 8/(t − 1) says little where t is 100."""
    primes = padded_verified.enough_primes(2**47, runs=1)
    by_chance = Fraction(3 * 2**94, 10 * prod(primes))
    assert 2.0 ** -padded_verified.soundness_bits(2**47, primes, 1) > by_chance


def test_an_honest_answer_gives_the_truth_and_nothing_else() -> None:
    def honest(rng: Randomness, prime: int, slots: int) -> Answer:
        return lambda run: (7 * run.x, 7 * run.y)

    assert [rate.rate for rate in agreement_rates(rounds=3, deviations=[honest])] == [0, 0]


def test_without_secret_maps_halving_forges(monkeypatch: pytest.MonkeyPatch) -> None:
    """X is then c·(num + den), and (X + Y)/2Y halves the fraction in every field alike; many halves are in bounds."""

    def halve(rng: Randomness, prime: int, slots: int) -> Answer:
        return lambda run: (run.x + run.y, 2 * run.y)

    caught = agreement_rates(rounds=20, deviations=[halve])[0]
    assert caught.rate < 1e-3
    monkeypatch.setattr(padded_verified.SecretMaps, "hide", _unhidden)
    monkeypatch.setattr(padded_verified.SecretMaps, "solve", _unsolved)
    forged = agreement_rates(rounds=20, deviations=[halve])[0]
    assert forged.rate > 1e-3
    assert not forged.holds


def _unhidden(
    self: padded_verified.SecretMaps, form: Form, left: Residues, right: Residues
) -> tuple[list[Residues], list[Residues]]:
    return [left, left[form.numerator :]], [right, right[form.numerator :]]


def _unsolved(self: padded_verified.SecretMaps, x: int, y: int) -> int:
    return (x * pow(y, -1, self.prime) - 1) % self.prime
