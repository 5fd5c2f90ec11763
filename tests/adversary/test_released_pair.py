"""The pair that `padded` releases says nothing about 2PQ beyond the ratio; without each of its noises it would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fheval.protocols.release import Blinding, RoundedRelease
from fheval.secrets import Randomness, SystemRandomness
from fheval_lab.attacks.released_pair import (
    Guess,
    LeakRate,
    attack_released_pair,
    by_common_divisor,
    by_continued_fraction,
    by_divisibility,
    by_grid,
    candidate_denominators,
    default_release,
    guess_denominator,
    guess_size,
    released,
)

Draw = Callable[[RoundedRelease, Randomness], Blinding]
HONEST: Draw = RoundedRelease.draw


def drawing(**fixed: Any) -> Draw:
    return lambda release, rng: replace(HONEST(release, rng), **fixed)


def on_a_coarse_grid(release: RoundedRelease, rng: Randomness) -> Blinding:
    drawn = HONEST(release, rng)
    return replace(drawn, scale=drawn.scale >> 64 << 64)


def of_fixed_size(release: RoundedRelease, rng: Randomness) -> Blinding:
    drawn = HONEST(release, rng)
    return replace(drawn, scale=release.smallest << release.spare_bits // 2, tilt=0)


def test_no_attack_does_better_than_what_is_conceded() -> None:
    found = attack_released_pair()
    assert [rate.name for rate in found if not rate.holds] == []
    assert [rate.tries for rate in found] == [1000] * 5
    assert [rate.conceded < 0.003 for rate in found] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("guess", "perfect_model", "draw", "least"),
    [
        # K itself has factors, so that other candidates divide Z as well; one in eight right, out of 500, is plenty.
        (by_divisibility, False, drawing(noise_x=0, noise_z=0), 0.1),
        (by_common_divisor, True, drawing(noise_x=0, noise_z=0), 0.9),
        (by_continued_fraction, False, drawing(tilt=0), 0.9),
        (by_continued_fraction, False, drawing(tilt=0, noise_x=0, noise_z=0), 0.9),
        (by_grid, False, on_a_coarse_grid, 0.1),
    ],
)
def test_without_the_noise_it_succeeds(
    monkeypatch: pytest.MonkeyPatch, guess: Guess, perfect_model: bool, draw: Draw, least: float
) -> None:
    monkeypatch.setattr(RoundedRelease, "draw", draw)
    rate = guess_denominator(guess, perfect_model=perfect_model, rounds=300)
    assert rate.right / rate.tries > least
    assert not rate.holds


def test_without_spare_bits_the_size_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoundedRelease, "draw", of_fixed_size)
    rate = guess_size(rounds=300)
    assert rate.right > 290
    assert not rate.holds


def test_the_pair_is_the_one_that_the_leader_divides() -> None:
    release, rng = default_release(), SystemRandomness()
    den = 2 * 300 * 700
    num = den * 3 // 4
    for _ in range(50):
        x, z = released(release, num, den, rng)
        ratio = release.ratio([x % prime for prime in release.primes], [z % prime for prime in release.primes])
        assert ratio is not None
        assert float(ratio) == pytest.approx(0.75, abs=0.51e-4)


def test_candidates_are_the_products_of_both_classes() -> None:
    assert candidate_denominators(6) == [2 * 1 * 5, 2 * 2 * 4, 2 * 3 * 3]


def test_a_fraction_is_found_from_its_quotient() -> None:
    """A K that multiplies both changes nothing."""
    scale = 10**40 + 7
    guessed = by_continued_fraction(scale * 377, scale * 1000, [998, 1000, 1001, 2000], SystemRandomness())
    assert guessed == 1000


@pytest.mark.parametrize(("right", "holds"), [(0, True), (2, True), (8, True), (30, False)])
def test_more_than_chance_does_not_hold(right: int, holds: bool) -> None:
    assert LeakRate(name="any", tries=1000, right=right, conceded=0.002).holds is holds
