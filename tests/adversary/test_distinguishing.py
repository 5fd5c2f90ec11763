"""Telling whether a row was there, over 10,000 runs: within (ε, δ), and beyond it when one honest share is missing."""

from __future__ import annotations

import numpy as np
import pytest

from fheval.privacy.accounting import Sensitivity, noise_for
from fheval.privacy.sampling import DiscreteGaussian, DiscreteLaplace
from fheval.secrets import Secret, Stream, derive
from fheval.study import Study
from fheval_lab.attacks.distinguishing import distinguish, round_with
from unit.test_privacy_sampling import sum_of

RUNS = 10_000


def stream(*labels: str | int) -> Stream:
    """A fixed one, so that no claim is refuted by chance in one run of the suite and not in another."""
    return derive(Secret(bytes(32)), "distinguishing", *labels)


def study(cohort: int, colluding: int) -> Study:
    return Study.of(release="noisy-curve", epsilon=1.0, minimum_cohort=cohort, colluding=colluding)


@pytest.mark.parametrize(("cohort", "colluding"), [(3, 1), (5, 1), (5, 3), (12, 1)])
def test_an_attack_on_the_least_cohort_with_all_colluders_stays_within_epsilon(cohort: int, colluding: int) -> None:
    """Dropouts down to the least cohort, and as many colluders as were named: what remains is what was counted on."""
    noise = study(cohort, colluding).noise
    assert noise is not None
    found = distinguish(round_with(noise, cohort), cohort - colluding, 0.0, stream(cohort, colluding), runs=RUNS)
    # It gets close, so that it would see more: 10,000 runs tell ε to within about a tenth.
    assert 0.75 < found.epsilon <= 1.0


@pytest.mark.parametrize(("cohort", "colluding"), [(3, 1), (5, 3), (4, 1)])
def test_it_exceeds_epsilon_when_one_honest_share_is_taken_out(cohort: int, colluding: int) -> None:
    noise = study(cohort, colluding).noise
    assert noise is not None
    found = distinguish(round_with(noise, cohort), cohort - colluding - 1, 0.0, stream("without", cohort), runs=RUNS)
    assert found.epsilon > 1.0


def test_more_parties_than_the_least_cohort_only_hide_more() -> None:
    noise = study(3, 1).noise
    assert noise is not None
    least, more = (distinguish(round_with(noise, 6), honest, 0.0, stream("more"), runs=RUNS) for honest in (2, 5))
    assert more.epsilon < least.epsilon <= 1.0


def test_without_any_noise_a_row_is_certain() -> None:
    noise = DiscreteLaplace(1.0, 2)
    found = distinguish(round_with(noise, 3), 0, 0.0, stream("none"), runs=RUNS)
    assert (found.with_row, found.without_row) == (RUNS // 2, 0)
    assert found.epsilon > 5


def test_gaussian_noise_stays_within_epsilon_and_delta() -> None:
    noise = noise_for(1.0, 1e-5, Sensitivity(cells=16), 4)
    assert isinstance(noise, DiscreteGaussian)
    # Sixteen cells that move by one are as telling as one that moves by four, of which one step costs a quarter.
    found = distinguish(round_with(noise, 5), 4, 1e-5, stream("gaussian"), runs=RUNS)
    assert found.epsilon <= 0.25


@pytest.mark.parametrize("honest", [2, 4, 11])
def test_the_worst_set_of_outcomes_by_computation(honest: int) -> None:
    """What no number of runs shows exactly: over all sets of outcomes, with all honest shares and without one."""
    noise = DiscreteLaplace(1.0, honest)

    def worst(shares: int) -> float:
        likely = sum_of(noise, shares)
        kept = likely > 1e-13
        both = kept[1:] & kept[:-1]
        return float(np.abs(np.log(likely[1:][both] / likely[:-1][both])).max())

    assert worst(honest) == pytest.approx(1.0, abs=1e-9)
    assert worst(honest - 1) > 1.0
