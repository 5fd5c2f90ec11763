"""What noise will do to a study, before anybody counts: what it protects, and how wrong an AUC will be."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

from fheval.privacy.accounting import epsilon_of
from fheval.privacy.expected import expected_errors, sampling_deviation
from fheval.privacy.sampling import DiscreteLaplace
from fheval.study import DEFAULT_ROWS, Study

# Beside which the rounds of a study are added up, where it names none.
_DELTA = 1e-6

# A fifth of the way from a model that guesses to one that knows: an AUC that is off by as much compares nothing.
USELESS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseForecast:
    """What noise does to a study's AUC at so many rows, in standard deviations; and what all rounds spend.

    `deviation` is that of the noise on each count of a minimum cohort, `noise` what it gives the AUC, `binning` how far
    counting at the decision points moves it, and `sampling` what chance in so many rows leaves in any case. `epsilon`
    is that of all rounds together, beside `delta` where `pure` ε does not say it better.
    """

    rows: int
    kind: Literal["laplace", "gaussian"]
    deviation: float
    noise: float
    binning: float
    sampling: float
    epsilon: float
    delta: float
    pure: bool


def noise_forecast(study: Study, rows: int | None = None) -> NoiseForecast | None:
    """What to expect of a noisy curve, of so many rows or of those that the study declares; None without noise.

    >>> study = Study.of(release="noisy-curve", epsilon=1.0, minimum_cohort=12, rounds=2)
    >>> forecast = noise_forecast(study, 1000)
    >>> forecast.kind, forecast.epsilon
    ('laplace', 2.0)
    """
    noise, cost = study.noise, study.privacy_cost
    if noise is None or cost is None:
        return None
    rows = rows or study.least_rows or DEFAULT_ROWS
    variance = noise.variance_of(study.minimum_cohort)
    moved, binning = expected_errors(study.grid, rows, variance)
    delta = study.delta or _DELTA
    every = [cost] * study.rounds
    return NoiseForecast(
        rows=rows,
        kind="laplace" if isinstance(noise, DiscreteLaplace) else "gaussian",
        deviation=sqrt(variance),
        noise=moved,
        binning=binning,
        sampling=sampling_deviation(rows),
        epsilon=epsilon_of(every, delta),
        delta=delta,
        pure=epsilon_of(every, 0.0) <= epsilon_of(every, delta),
    )


def noise_in_words(study: Study) -> list[str]:
    """What noise a study adds and why, and whom it protects against."""
    found = noise_forecast(study)
    if found is None or study.epsilon is None:
        return []
    touched, honest = study.sensitivity, study.minimum_cohort - study.colluding
    whom = "row" if touched.rows == 1 else f"cluster of up to {touched.rows} rows"
    moves = "which moves one count by one" if touched.l1 == 1 else f"which moves counts by {touched.l1} in all"
    gaussian = found.kind == "gaussian"
    terms = f"ε = {study.epsilon:g}" + (f" and δ = {study.delta:g}" if gaussian else "")
    why = "which needs no δ" if study.delta is None else "the smaller of Laplace and Gaussian"
    against = {0: "whoever is shown the result", 1: "any one party"}.get(
        study.colluding, f"any {study.colluding} parties together"
    )
    return [
        f"Differential privacy with {terms} for every {whom}, {moves}: discrete {found.kind.title()} noise, {why}, "
        f"with a deviation of {found.deviation:.3g} on each count.",
        f"Each party adds a share of it; the shares of {honest} parties are enough to protect against {against}.",
    ]


def spent_in_words(study: Study) -> list[str]:
    """What all rounds of a study with noise spend."""
    found = noise_forecast(study)
    if found is None:
        return []
    often = "round spends" if study.rounds == 1 else f"{study.rounds} rounds spend"
    return [f"Its {often} ε = {found.epsilon:.3g}" + ("." if found.pure else f" beside δ = {found.delta:g}.")]


def error_in_words(study: Study, rows: int | None = None) -> list[str]:
    """How wrong an AUC will be."""
    found = noise_forecast(study, rows)
    if found is None:
        return []
    # The error is reckoned as if it were small. One of one half is no AUC at all.
    noise = f"{found.noise:.2g}" if found.noise < 0.5 else "0.5 or more"
    told = [
        f"With {found.rows:,} rows, a fifth of them positive, and {len(study.grid)} decision points, expect an AUC to "
        f"be off by {noise} for noise, by {found.binning:.1g} for binning, and by {found.sampling:.2g} for chance in "
        "the rows themselves."
    ]
    if found.noise > found.sampling:
        told.append("Noise is the largest of these. A larger epsilon or more rows would lower it.")
    if found.noise > USELESS:
        told.append("So much noise leaves nothing of an AUC: this study is useless as it is.")
    return told
