"""What noise protects, by computation: from the probabilities of the sum, not from the formulas."""

from __future__ import annotations

from functools import reduce
from math import exp, inf

import numpy as np
import pytest

from fheval.counting import Grid
from fheval.errors import ConfigError
from fheval.privacy.accounting import (
    Cost,
    Sensitivity,
    cost_of,
    epsilon_of,
    gap,
    noise_for,
    require_budget,
)
from fheval.privacy.expected import POINTS, best_points, expected_errors
from fheval.privacy.sampling import DiscreteGaussian, DiscreteLaplace, NoiseError
from unit.test_privacy_sampling import Floats, sum_of

ONE = Sensitivity(cells=1)


def worst_ratio(probabilities: Floats, shift: int = 1) -> float:
    """The largest ln P(k)/P(k + shift) where both are far above what a table leaves out."""
    one, other = probabilities[:-shift], probabilities[shift:]
    likely = np.minimum(one, other) > 1e-13
    return float(np.abs(np.log(one[likely] / other[likely])).max())


def delta_at(probabilities: Floats, epsilon: float, shift: int) -> float:
    """The least δ beside ε for sums that move by so much: Σ max(0, P(k) − e^ε·P(k + shift))."""
    padded = np.pad(probabilities, shift)
    return float(np.maximum(padded - exp(epsilon) * np.roll(padded, shift), 0).sum())


# Laplace


@pytest.mark.parametrize(("cohort", "colluding"), [(3, 1), (12, 1), (12, 5), (15, 14)])
def test_what_the_least_cohort_leaves_after_colluders_is_epsilon(cohort: int, colluding: int) -> None:
    noise = noise_for(1.0, None, ONE, cohort - colluding)
    left = sum_of(noise, cohort - colluding)
    assert worst_ratio(left) == pytest.approx(1.0, abs=1e-9)
    # More parties than the least cohort only make it safer.
    assert worst_ratio(sum_of(noise, cohort - colluding + 2)) <= 1.0 + 1e-9


@pytest.mark.parametrize("honest", [2, 5, 11])
def test_one_honest_party_fewer_than_counted_on_is_not_enough(honest: int) -> None:
    noise = noise_for(1.0, None, ONE, honest)
    assert worst_ratio(sum_of(noise, honest - 1)) > 1.0 + 0.01


def test_several_histograms_share_epsilon() -> None:
    sensitivity = Sensitivity(rows=3, cells=4)
    noise = noise_for(1.0, None, sensitivity, 5)
    assert isinstance(noise, DiscreteLaplace)
    # Twelve units in all: as twelve cells that move by one, or four that move by three.
    assert 12 * worst_ratio(sum_of(noise, 5)) <= 1.0 + 1e-6
    assert 4 * worst_ratio(sum_of(noise, 5), shift=3) <= 1.0 + 1e-6
    assert cost_of(noise, sensitivity).epsilon == pytest.approx(1.0, rel=1e-5)


# Gaussian


def test_the_gap_to_a_discrete_gaussian_is_within_its_bound() -> None:
    """Shares as narrow as these are where there is a gap at all; the accounting never uses narrower ones."""
    for variance, shares in ((1.0, 3), (0.8, 5)):
        one = np.exp(-(np.arange(-40, 41) ** 2) / (2 * variance))
        found = reduce(np.convolve, [one / one.sum()] * shares)
        k = np.arange(len(found)) - len(found) // 2
        curators = np.exp(-(k**2) / (2 * variance * shares))
        likely = found > 1e-12
        apart = np.abs(np.log(found[likely] / (curators / curators.sum())[likely])).max()
        assert 1e-9 < apart <= gap(variance, shares)
    assert gap(10.0, 11) < 1e-40


@pytest.mark.parametrize("cells", [1, 16])
@pytest.mark.parametrize("honest", [2, 11])
def test_gaussian_noise_gives_delta_at_epsilon(cells: int, honest: int) -> None:
    """The sum of cells that each move by one is as telling as one that moves by √cells: nearly a Gaussian there."""
    epsilon, delta = 1.0, 1e-5
    sensitivity = Sensitivity(cells=cells)
    noise = _gaussian_only(epsilon, delta, sensitivity, honest)
    cost = cost_of(noise, sensitivity)
    assert cost.epsilon is None
    assert epsilon_of([cost], delta) <= epsilon + 1e-9
    shift = round(cells**0.5)
    assert delta_at(sum_of(noise, honest), epsilon, shift) < delta
    # With half of the honest parties gone it is not kept.
    assert delta_at(sum_of(noise, honest // 2), epsilon, shift) > delta


def _gaussian_only(epsilon: float, delta: float, sensitivity: Sensitivity, honest: int) -> DiscreteGaussian:
    from fheval.privacy import accounting

    noise = accounting._gaussian(epsilon, delta, sensitivity, honest)
    assert isinstance(noise, DiscreteGaussian)
    return noise


def test_many_narrow_shares_are_widened() -> None:
    """At ε = 8 a curator needs a variance below one; a share of it for each of 50 parties would be no noise at all."""
    noise = _gaussian_only(8.0, 1e-5, ONE, 50)
    assert noise.variance >= 50
    assert epsilon_of([cost_of(noise, ONE)], 1e-5) <= 8.0


# Which of the two


def test_the_smaller_variance_is_chosen() -> None:
    chosen = [noise_for(1.0, 1e-5, Sensitivity(cells=cells), 5) for cells in (1, 2, 5, 10, 15, 40)]
    kinds = [type(noise).__name__ for noise in chosen]
    assert kinds == ["DiscreteLaplace"] * 4 + ["DiscreteGaussian"] * 2
    for cells, noise in zip((1, 2, 5, 10, 15, 40), chosen, strict=True):
        both = noise_for(1.0, None, Sensitivity(cells=cells), 5), _gaussian_only(1.0, 1e-5, Sensitivity(cells=cells), 5)
        assert noise.variance_of(5) == min(each.variance_of(5) for each in both)


def test_without_delta_epsilon_is_pure_whatever_it_costs() -> None:
    assert isinstance(noise_for(1.0, None, Sensitivity(cells=100), 5), DiscreteLaplace)


def test_what_no_noise_protects_is_refused() -> None:
    with pytest.raises(NoiseError, match="Raise epsilon"):
        noise_for(1e-3, None, Sensitivity(rows=10, cells=10), 5)


def test_all_parties_derive_the_same_bits() -> None:
    """Six digits, rounded in the direction that protects."""
    noise = _gaussian_only(1.0, 1e-5, Sensitivity(cells=20), 11)
    assert noise.variance == float(f"{noise.variance:.6g}")
    assert noise_for(1.0, None, Sensitivity(cells=3), 11) == DiscreteLaplace(0.333333, 11)


# Over rounds


def test_pure_epsilon_adds_up_and_rho_wins_in_the_long_run() -> None:
    one = Cost(epsilon=1.0, rho=0.5)
    assert epsilon_of([one] * 3, 1e-6) == 3.0
    small = Cost(epsilon=0.05, rho=0.05**2 / 2)
    assert epsilon_of([small] * 1000, 1e-6) < 50 / 2
    assert epsilon_of([small] * 1000, 0.0) == pytest.approx(50)
    assert epsilon_of([], 1e-6) == 0.0


def test_pure_and_concentrated_rounds_add_up_together() -> None:
    pure, gaussian = Cost(epsilon=0.5, rho=0.125), Cost(epsilon=None, rho=0.02)
    both = epsilon_of([pure, gaussian], 1e-5)
    assert 0.5 < both <= 0.5 + epsilon_of([gaussian], 1e-5)
    assert epsilon_of([pure, gaussian], 0.0) == inf


def test_composition_holds_by_computation() -> None:
    """Two rounds of pure ε: the worst pair of outcomes has the ratio e^2ε, and no pair a larger one."""
    one = sum_of(DiscreteLaplace(0.5, 3), 3)
    assert 2 * worst_ratio(one) <= epsilon_of([cost_of(DiscreteLaplace(0.5, 3), ONE)] * 2, 1e-6) + 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [(None, None), (0.0, None), (inf, None), (1.0, 0.0), (1.0, 1.0)])
def test_a_budget_that_means_nothing_is_refused(epsilon: float | None, delta: float | None) -> None:
    with pytest.raises(ConfigError):
        require_budget(epsilon, delta)


# Expected errors


@pytest.mark.parametrize("place", [Grid.even, Grid.wide, Grid.logit])
def test_more_rows_carry_more_bins_and_give_smaller_errors(place: object) -> None:
    sizes = (100, 1_000, 10_000, 100_000, 1_000_000)
    chosen = [best_points(place, rows, 1.84) for rows in sizes]  # type: ignore[arg-type]
    assert chosen == sorted(chosen)
    assert set(chosen) <= set(POINTS)
    errors = [expected_errors(place(count), rows, 1.84) for count, rows in zip(chosen, sizes, strict=True)]  # type: ignore[operator]
    assert [sum(each) for each in errors] == sorted((sum(each) for each in errors), reverse=True)


def test_the_expected_deviation_is_that_of_noise_on_made_up_counts() -> None:
    """By drawing noise on counts that are as expected."""
    from fheval.privacy import expected
    from fheval.secrets import Secret, derive

    grid, rows, noise = Grid.even(21), 20_000, DiscreteLaplace(0.5, 1)
    told, _ = expected._errors(grid, (1.0, 1.5), rows, noise.variance_of(1))
    positives = expected._shares(grid, 1.0, 1.5) * rows * expected.SHARE
    negatives = expected._shares(grid, -1.0, 1.5) * rows * (1 - expected.SHARE)
    found = []
    for run in range(400):
        drawn = noise.share(derive(Secret(bytes(32)), "expected", run), 40)
        p, q = positives + drawn[:20], negatives + drawn[20:]
        found.append(float(p @ (q.sum() - np.cumsum(q) + q / 2)) / (p.sum() * q.sum()))
    assert np.std(found) == pytest.approx(told, rel=0.15)
