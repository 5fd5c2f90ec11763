"""Harrell's C over all parties, against its definition over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fheval import ConfigError, Grid, InputError, Table, UndefinedMetric, evaluate
from fheval.study import Study
from fheval_lab.clear import ClearEngine

LONGEST = 8.0
Party = tuple[NDArray[np.float64], NDArray[np.float64]]


def harrell(signed: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """Of the pairs whose earlier time is that of an event, the share with the higher score first; ties by half.

    Who was watched until the time of an event, without one, outlived it.
    """
    times, event = np.abs(signed), signed > 0
    pairs = event[:, None] & (times[:, None] < times[None, :])
    pairs |= event[:, None] & (times[:, None] == times[None, :]) & ~event[None, :]
    higher = np.sign(scores[:, None] - scores[None, :])
    return float(((1 + higher) / 2)[pairs].mean())


def survivors(rng: np.random.Generator, rows: int, *, stepwise: bool) -> Party:
    """Exponential times whose rate grows with the score, censored at random and at the end of the study."""
    scores = rng.random(rows)
    times, until = rng.exponential(4 * np.exp(-2 * scores)), rng.uniform(0, 1.3 * LONGEST, rows)
    event = (times <= until) & (times < LONGEST)
    seen = np.clip(np.minimum(times, until), 1e-3, LONGEST)
    if stepwise:
        # In the middle of a step, and on the points of a grid: nothing is lost by counting.
        seen, scores = np.floor(seen / 0.05) * 0.05 + 0.025, np.ceil(scores * 20) / 20
        seen = np.minimum(seen, LONGEST - 0.025)
    return np.where(event, seen, -seen), scores


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_it_is_exact_where_times_and_scores_fall_on_steps(protocol: str) -> None:
    rng = np.random.default_rng(2)
    parties = [survivors(rng, rows, stepwise=True) for rows in (60, 1, 35, 80)]
    result = evaluate(
        [*parties, Table.of([], [])] if protocol == "padded" else parties,
        metrics=["concordance"],
        target_range=(0, LONGEST),
        decision_points=Grid.even(21),
        protocol=protocol,
        precision="exact",
        engine=ClearEngine(),
    )
    signed, scores = (np.concatenate(each) for each in zip(*parties, strict=True))
    assert result.value("concordance") == pytest.approx(harrell(signed, scores), abs=1e-12)


def test_steps_cost_little() -> None:
    rng = np.random.default_rng(3)
    parties = [survivors(rng, 500, stepwise=False) for _ in range(4)]
    result = evaluate(parties, metrics=["concordance"], target_range=(0, LONGEST), grid="even", engine=ClearEngine())
    signed, scores = (np.concatenate(each) for each in zip(*parties, strict=True))
    assert result.value("concordance") == pytest.approx(harrell(signed, scores), abs=4e-3)


def test_without_an_event_it_is_undefined_and_without_a_range_refused() -> None:
    with pytest.raises(ConfigError, match="public range"):
        Study.of(metrics="concordance")
    options = {"metrics": ["concordance"], "target_range": (0, 8), "engine": ClearEngine()}
    with pytest.raises(UndefinedMetric, match="watched for longer"):
        evaluate([([-1.0, -2.0], [0.1, 0.2])] * 3, **options)  # type: ignore[arg-type]
    for label in (9.0, -9.0):
        with pytest.raises(InputError, match="outside the target range"):
            evaluate([([1.0, label], [0.1, 0.2])] * 3, **options)  # type: ignore[arg-type]


def test_an_interval_is_that_of_drawing_rows_anew() -> None:
    """Resamples have fewer steps than the value, and are moved: they scatter as lifelines' do, about the value."""
    lifelines = pytest.importorskip("lifelines.utils")
    rng = np.random.default_rng(4)
    parties = [survivors(rng, 150, stepwise=False) for _ in range(4)]
    options = {"metrics": ["concordance"], "target_range": (0, LONGEST), "max_samples": 1 << 11}
    result = evaluate(parties, ci=0.9, engine=ClearEngine(), **options)  # type: ignore[arg-type]
    (row,) = result.results
    assert row.value == pytest.approx(evaluate(parties, engine=ClearEngine(), **options).value("concordance"), abs=2e-4)  # type: ignore[arg-type]
    signed, scores = (np.concatenate(each) for each in zip(*parties, strict=True))
    drawn = []
    for _ in range(300):
        again = rng.integers(0, len(signed), len(signed))
        drawn.append(lifelines.concordance_index(np.abs(signed[again]), -scores[again], signed[again] > 0))
    low, high = np.quantile(drawn, [0.05, 0.95])
    assert row.low is not None
    assert row.high is not None
    assert row.high - row.low == pytest.approx(high - low, rel=0.35)
    assert (row.low + row.high) / 2 == pytest.approx((low + high) / 2, abs=0.4 * (high - low))
