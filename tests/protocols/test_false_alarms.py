"""How far apart the two runs of an honest `paper-malicious` round are, with real encryption.

The parties raise a false alarm when noise alone makes the runs differ by more than five decimals. The paper's largest
data (458,407 rows, 15 parties, N = 100, S = 4 and 7) and its smallest (100 rows) are played; counts stand for rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats  # type: ignore[import-untyped]

from fheval import Counts
from fheval.engines import available_engines, load_engine
from fheval.metrics.registry import auc_batch
from fheval.protocols.paper_malicious import TOLERANCE, CommonRandomness
from fheval.protocols.round import DEFAULT_MAX_SAMPLES
from protocols.rounds import Cast, a_round, contributions_of, curve, pooled

ENGINES = available_engines()
PARTIES = 15
POINTS = 100

# Rows of each class: the paper's largest data is Criteo, about a quarter of it positive; 100 rows split evenly; and
# what is far too little for five decimals under the default bound on samples, with a bound that fits it.
SIZES = {"largest": (117_000, 341_407), "smallest": (50, 50), "tiny": (1, 14)}
BOUNDS = {"tiny": 1 << 10}

# Less than one false alarm in a thousand rounds.
RATE = 1e-3


def parties(size: str) -> list[Counts]:
    """The rows of each class dealt out to all parties; some get one more than others."""
    positives, negatives = SIZES[size]
    return [
        curve((positives + number) // PARTIES, (negatives + number) // PARTIES, POINTS, bend=0.4)
        for number in range(PARTIES)
    ]


@cache
def cast_of(engine: str, splits: int) -> Cast:
    loaded = load_engine(engine)
    return Cast(a_round("paper-malicious", PARTIES, decision_points=POINTS, splits=splits, engine=loaded), loaded)


def gap(engine: str, splits: int, size: str) -> float:
    """|AUC − AUC'| of one honest round, which is accepted and right."""
    bound = BOUNDS.get(size, DEFAULT_MAX_SAMPLES)
    cast = cast_of(engine, splits).next(max_samples=bound, batch=auc_batch(POINTS, bound))
    counts = parties(size)
    result: Any = cast.result_of(cast.served(contributions_of(cast.round, counts)))
    assert cast.open(result).ratio() == pytest.approx(pooled(counts).auc(), abs=TOLERANCE)
    values = [float(slots[0].real) for slots in cast.slots(result)]
    first, second = (
        CommonRandomness.derive(cast.secrets.seed, cast.round, run).ratio(*values[2 * run : 2 * run + 2])
        for run in range(2)
    )
    return abs(first - second)


def tail(gaps: npt.NDArray[np.float64]) -> float:
    """The gap that one honest round in a thousand exceeds, if the logarithms of the gaps are normally distributed.

    What is fitted is the upper half: small gaps are the luck of a single round and say nothing about large ones.
    """
    logs = np.log(np.sort(gaps)[len(gaps) // 2 :])
    ranks = (np.arange(len(gaps) // 2, len(gaps)) + 0.5) / len(gaps)
    slope, intercept, *_ = stats.linregress(stats.norm.ppf(ranks), logs)
    return float(np.exp(intercept + slope * stats.norm.ppf(1 - RATE)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", SIZES)
def test_an_honest_round_is_far_from_a_false_alarm(engine: str, size: str) -> None:
    assert gap(engine, 4, size) < TOLERANCE / 2


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("splits", "size"), [(4, "largest"), (7, "largest"), (4, "smallest"), (7, "smallest"), (4, "tiny")]
)
def test_fewer_than_one_false_alarm_in_a_thousand(
    engine: str, splits: int, size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gaps = np.array([gap(engine, splits, size) for _ in range(30)])
    with capsys.disabled():
        print(
            f"\n{engine} {size} S={splits}: median gap {np.median(gaps):.1e}, largest {gaps.max():.1e}, "
            f"margin {TOLERANCE / gaps.max():.0e}, one in a thousand {tail(gaps):.1e}"
        )
    assert tail(gaps) < TOLERANCE
