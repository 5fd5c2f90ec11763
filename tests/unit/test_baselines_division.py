"""Outsourced division: what the approximations give, what they need, and where they end."""

from __future__ import annotations

import numpy as np
import pytest

from division_oracle import in_plaintext
from fheval.errors import ConfigError, EngineError, PrecisionError
from fheval_lab.baselines.division import (
    CKKS_DIVISION,
    TOLERANCE,
    Approximation,
    Method,
    depth_needed,
    divide,
    effort_needed,
)
from fheval_lab.clear import ClearEngine

AUC = 0.75


def approximation(method: Method, effort: int, spread: float, *, scaled: bool = True) -> Approximation:
    return Approximation(method=method, effort=effort, low=1e10 / spread, high=1e10, scaled=scaled)


def dens_within(spread: float) -> np.ndarray:
    return np.geomspace(1e10 / spread, 1e10, 200)


def largest_error(chosen: Approximation, dens: np.ndarray) -> float:
    return float(np.abs(in_plaintext(chosen, AUC * dens, dens) / AUC - 1).max())


@pytest.mark.parametrize("spread", [4.0, 10.0, 1e3])
def test_newton_needs_as_many_steps_as_stated(spread: float) -> None:
    steps = effort_needed("newton", spread)
    assert largest_error(approximation("newton", steps, spread), dens_within(spread)) <= TOLERANCE
    assert largest_error(approximation("newton", steps - 1, spread), dens_within(spread)) > TOLERANCE


@pytest.mark.parametrize("spread", [4.0, 10.0, 1e3])
def test_no_polynomial_of_a_lower_degree_does(spread: float) -> None:
    """Interpolation is not the best polynomial, so it may need a little more than the bound says, never less."""
    degree = effort_needed("chebyshev", spread)
    assert largest_error(approximation("chebyshev", degree - 1, spread), dens_within(spread)) > TOLERANCE
    assert largest_error(approximation("chebyshev", degree * 5 // 4 + 2, spread), dens_within(spread)) <= TOLERANCE


@pytest.mark.parametrize("method", ["chebyshev", "newton"])
def test_the_range_of_the_paper_does_not_fit_the_deepest_set(method: Method) -> None:
    assert depth_needed(method, effort_needed(method, 1e7)) > CKKS_DIVISION.depth
    assert depth_needed(method, effort_needed(method, 4.0)) <= CKKS_DIVISION.depth


@pytest.mark.parametrize(("method", "effort"), [("chebyshev", 27), ("newton", 5)])
def test_a_den_outside_its_bounds_gives_a_wrong_number_and_no_error(method: Method, effort: int) -> None:
    below, above = in_plaintext(approximation(method, effort, 10.0), [AUC * 1e6, AUC * 1e11], [1e6, 1e11])
    assert below < AUC / 2
    assert abs(above - AUC) > 1


def test_newton_under_an_evaluator_is_newton_in_plaintext() -> None:
    dens = [2.5e9, 5e9, 1e10]
    nums = [AUC * den for den in dens]
    chosen = approximation("newton", 5, 4.0)
    result = divide(ClearEngine(), chosen, nums, dens)
    assert result.aucs == pytest.approx(in_plaintext(chosen, nums, dens).tolist(), abs=1e-12)
    assert result.aucs == pytest.approx([AUC] * 3, abs=TOLERANCE)
    assert result.depth == depth_needed("newton", 5)


def test_one_step_more_than_the_levels_carry_is_refused() -> None:
    with pytest.raises(EngineError, match="no level left"):
        divide(ClearEngine(), approximation("newton", 7, 4.0), [AUC * 1e10], [1e10])


def test_newton_on_numbers_that_were_not_scaled_is_refused() -> None:
    with pytest.raises(PrecisionError, match="Scale num and den"):
        divide(ClearEngine(), approximation("newton", 5, 10.0, scaled=False), [AUC * 1e10], [1e10])


def test_chebyshev_needs_openfhe() -> None:
    with pytest.raises(EngineError, match="openfhe"):
        divide(ClearEngine(), approximation("chebyshev", 13, 4.0), [AUC * 1e10], [1e10])


@pytest.mark.parametrize(("low", "high", "effort"), [(0.0, 1.0, 3), (2.0, 1.0, 3), (1.0, 2.0, 0)])
def test_nonsense_is_refused(low: float, high: float, effort: int) -> None:
    with pytest.raises(ConfigError):
        Approximation(method="newton", effort=effort, low=low, high=high)
