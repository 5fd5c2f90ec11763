"""The two statistical tests that the experiments rest on."""

from __future__ import annotations

import numpy as np
import pytest

from fheval.secrets import symmetric_floats
from fheval_lab.attacks.chance import IMPLAUSIBLE, binomial_tails, same_distribution, uniform
from fheval_lab.attacks.consortium import fresh_stream


@pytest.mark.parametrize(
    ("successes", "tries", "rate", "at_most", "at_least"),
    [
        (0, 10, 0.1, 0.3486784401, 1.0),
        (3, 10, 0.5, 0.171875, 0.9453125),
        (10, 10, 0.5, 1.0, 0.5**10),
        (0, 5, 0.0, 1.0, 1.0),
        (1, 5, 0.0, 1.0, 0.0),
        (5, 5, 1.0, 1.0, 1.0),
        # Far out in the tail, where 1 − at_most would be nothing but rounding: about 0.001^8·C(100, 8)·0.999^92.
        (8, 100, 0.001, 1.0, 1.71477e-13),
    ],
)
def test_binomial_tails(successes: int, tries: int, rate: float, at_most: float, at_least: float) -> None:
    assert binomial_tails(successes, tries, rate) == pytest.approx((at_most, at_least), rel=1e-3, abs=1e-18)


def test_samples_of_one_distribution_are_not_told_apart() -> None:
    rng = fresh_stream()
    for _ in range(20):
        assert same_distribution(symmetric_floats(rng, 1.0, 900), symmetric_floats(rng, 1.0, 1100)) > IMPLAUSIBLE


def test_samples_of_two_distributions_are_told_apart() -> None:
    one, other = symmetric_floats(fresh_stream(), 1.0, 4000).reshape(2, -1)
    assert same_distribution(one, other + 0.3) < IMPLAUSIBLE
    assert same_distribution(one, 0.7 * other) < IMPLAUSIBLE


def test_uniform_and_not() -> None:
    values = (symmetric_floats(fresh_stream(), 1.0, 2000) + 1) / 2
    assert uniform(values) > IMPLAUSIBLE
    assert uniform(np.sqrt(values)) < IMPLAUSIBLE
    assert uniform(np.full(50, 0.5)) < IMPLAUSIBLE


def test_chance_is_spread_evenly_where_there_is_nothing_to_find() -> None:
    """A probability that is right is itself uniform."""
    rng = fresh_stream()
    chances = [uniform((symmetric_floats(rng, 1.0, 400) + 1) / 2) for _ in range(400)]
    assert 0.35 < float(np.median(chances)) < 0.68
    assert 5 < sum(chance < 0.1 for chance in chances) < 80
