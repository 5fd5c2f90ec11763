"""What noise protects: from (ε, δ) to the noise that it takes, and from noise back to what rounds have spent.

Neighbours are two data sets of which one has a row more, or a whole cluster of rows where a study says so; exchanging
one row for another counts twice. A row lies in one cell of each histogram that it is counted in, so that `Sensitivity`
says how far the sums can move: a row touches one cell for each model, each class against the rest, all rows and its
own group.

- Discrete Laplace noise (Ghosh, Roughgarden, Sundararajan 2009): sums that move by Δ₁ in all, each with noise
  P(k) ∝ e^(−ε|k|/Δ₁), are ε-differentially private, with δ = 0 (but for the sampler's 2^−79).
- Discrete Gaussian noise (Canonne, Kamath, Steinke 2020): sums that move by Δ₂ in Euclidean distance satisfy ρ-zCDP
  with ρ = Δ₂²/2σ². In shares (Kairouz, Liu, Steinke 2021), the sum of h shares of variance σ²/h has the
  probabilities of a discrete Gaussian of variance σ² to within e^±τ, τ = 10·Σ_{k<h} e^(−2π²(σ²/h)·k/(k+1)), and
  √(2ρ) = Δ₂/σ + τ·√d does, where d is the number of sums that move. (Theirs counts all sums; those that do not
  move have the same distribution on both sides, and do not matter.)
- zCDP adds up over rounds, pure ε implies ρ = ε²/2, and ρ implies (ρ + 2√(ρ·ln(1/δ)), δ) for every δ (Bun and Steinke
  2016, propositions 1.4 and 1.3). Pure ε adds up as well, and (ε, δ) does with both.

Each honest party's noise is there or not, whatever the others do: whoever knows the shares of the dishonest takes them
off, and faces the sum of the honest ones. So if a minimum cohort of m parties took part and c of them put together what
they know, m − c shares remain, and noise is calibrated to these. A single curious member is c = 1: it knows its own
share. Parties that drop out take their noise with them, down to the minimum cohort; below it nothing is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from functools import lru_cache
from math import exp, inf, log, pi, sqrt

from fheval.errors import ConfigError
from fheval.privacy.sampling import DiscreteGaussian, DiscreteLaplace, Noise, NoiseError

# All parties derive the noise from the study, to the last bit: in decimal arithmetic, rounded to so many digits.
_DIGITS = 6
_WORKING_DIGITS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """How far the sums move when a row, or a cluster of up to `rows`, comes or goes: `cells` move for each row."""

    rows: int = 1
    cells: int

    @property
    def l1(self) -> int:
        """Δ₁: the changes of all sums added up."""
        return self.rows * self.cells

    @property
    def l2_squared(self) -> int:
        """Δ₂², at most: all rows of a cluster may lie in the same cells."""
        return self.rows**2 * self.cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a round takes from a budget: pure `epsilon` where there is such, and `rho` in any case."""

    epsilon: float | None
    rho: float


def noise_for(epsilon: float, delta: float | None, sensitivity: Sensitivity, honest: int) -> Noise:
    """The noise of smallest variance that protects (ε, δ) with so many honest parties; without δ, ε is pure.

    One histogram takes Laplace noise; where a row is counted many times over, Gaussian noise is the smaller one.

    >>> one, many = Sensitivity(cells=1), Sensitivity(cells=40)
    >>> type(noise_for(1.0, 1e-5, one, 5)).__name__, type(noise_for(1.0, 1e-5, many, 5)).__name__
    ('DiscreteLaplace', 'DiscreteGaussian')
    """
    found: list[Noise] = []
    problem: NoiseError | None = None
    for make in (_laplace, _gaussian):
        try:
            noise = make(epsilon, delta, sensitivity, honest)
        except NoiseError as error:
            problem = problem or error
        else:
            found += [noise] if noise is not None else []
    if not found:
        raise problem or NoiseError("No noise protects this study.")
    return min(found, key=lambda noise: noise.variance_of(honest))


def _laplace(epsilon: float, _delta: float | None, sensitivity: Sensitivity, honest: int) -> Noise | None:
    return DiscreteLaplace(_rounded(Decimal(epsilon) / sensitivity.l1, ROUND_FLOOR), honest)


@lru_cache(maxsize=64)
def _gaussian(epsilon: float, delta: float | None, sensitivity: Sensitivity, honest: int) -> Noise | None:
    if delta is None:
        return None
    with localcontext() as context:
        context.prec = _WORKING_DIGITS
        # ρ + 2√(ρL) = ε for L = ln(1/δ).
        logarithm = -Decimal(delta).ln()
        rho = ((logarithm + Decimal(epsilon)).sqrt() - logarithm.sqrt()) ** 2
        variance = max(sensitivity.l2_squared / (2 * rho), Decimal(honest))
    noise = DiscreteGaussian(_rounded(variance, ROUND_CEILING), honest)
    # What the shares' sum lacks of a discrete Gaussian is made up for by a little more of it.
    while cost_of(noise, sensitivity).rho > float(rho):
        noise = DiscreteGaussian(_rounded(Decimal(noise.variance) * Decimal("1.001"), ROUND_CEILING), honest)
    return noise


def _rounded(value: Decimal, direction: str) -> float:
    """To six digits, in the direction that protects."""
    with localcontext() as context:
        context.prec, context.rounding = _DIGITS, direction
        return float(+value)


def cost_of(noise: Noise, sensitivity: Sensitivity) -> Cost:
    """What a round with this noise spends, against everyone but so many honest parties as it counts on."""
    if isinstance(noise, DiscreteLaplace):
        epsilon = noise.step * sensitivity.l1
        return Cost(epsilon=epsilon, rho=epsilon**2 / 2)
    apart = gap(noise.variance / noise.honest, noise.honest)
    root = sqrt(sensitivity.l2_squared / noise.variance) + apart * sqrt(sensitivity.l1)
    return Cost(epsilon=None, rho=root**2 / 2)


def gap(variance: float, shares: int) -> float:
    """τ: the logarithm of how far the sum of so many discrete Gaussians is from a discrete Gaussian, at any place."""
    return 10 * sum(exp(-2 * pi**2 * variance * k / (k + 1)) for k in range(1, shares))


def epsilon_of(costs: Iterable[Cost], delta: float) -> float:
    """The ε, beside δ, of all these rounds together: the least that any way of adding them up gives.

    >>> round(epsilon_of([Cost(epsilon=0.1, rho=0.005)] * 2, 1e-6), 6)
    0.2
    >>> round(epsilon_of([Cost(epsilon=0.1, rho=0.005)] * 100, 1e-6), 3)
    5.757
    """
    listed = list(costs)
    pure = sum(each.epsilon for each in listed if each.epsilon is not None)
    rest = sum(each.rho for each in listed if each.epsilon is None)
    return min(pure + _epsilon_at(rest, delta), _epsilon_at(sum(each.rho for each in listed), delta))


def _epsilon_at(rho: float, delta: float) -> float:
    """ε of ρ-zCDP beside δ."""
    if not rho:
        return 0.0
    return rho + 2 * sqrt(rho * log(1 / delta)) if delta else inf


def require_budget(epsilon: float | None, delta: float | None) -> None:
    """Refuse an (ε, δ) that means nothing."""
    if epsilon is None or not 0 < epsilon < inf:
        raise ConfigError(f"epsilon is {epsilon}. Noise takes a positive number, such as 1.")
    if delta is not None and not 0 < delta < 1:
        raise ConfigError(f"delta is {delta}. Use a number far below one over the number of rows, or leave it out.")
