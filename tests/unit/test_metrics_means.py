"""`mean:COLUMN`: the mean of any bounded number of a row, over all parties, and columns compared on the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fheval import ConfigError, InputError, Table, evaluate
from fheval.study import Study
from fheval_lab.clear import ClearEngine

RNG = np.random.default_rng(5)
ROWS = (40, 0, 25, 1)


def tables() -> list[Table]:
    """Two readers' marks of the same images, the second a little higher; labels play no part."""
    found = []
    for rows in ROWS:
        first = RNG.uniform(2.0, 7.0, rows)
        marks = {"first": first, "second": np.clip(first + RNG.normal(0.5, 0.3, rows), 0, 10)}
        found.append(Table.of(np.full(rows, 7), marks))
    return found


def pooled(parties: list[Table], column: str) -> np.ndarray:
    return np.concatenate([party.scores[column][0].values for party in parties])


def test_means_of_columns_and_their_paired_difference() -> None:
    parties = tables()
    result = evaluate(
        parties, metrics=["mean:first", "mean:second"], target_range=(0, 10), ci=0.95, engine=ClearEngine()
    )
    for column in ("first", "second"):
        assert result.value("mean", model=column) == pytest.approx(pooled(parties, column).mean(), abs=6e-4)
    (paired,) = (row for row in result.results if row.model == "first - second")
    assert paired.value == pytest.approx((pooled(parties, "first") - pooled(parties, "second")).mean(), abs=12e-4)
    # The marks differ by 1.4 (one standard deviation), their difference on one image by 0.3: paired, half a mark shows.
    assert paired.low is not None
    assert paired.high is not None
    assert paired.high < 0
    assert paired.high - paired.low < 0.3


def test_values_outside_of_the_public_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"outside the target range \[0, 5\]"):
        evaluate(tables(), metrics=["mean:first"], target_range=(0, 5), engine=ClearEngine())


@pytest.mark.parametrize("asked", [{"metrics": ["mean:a", "auc"]}, {"metrics": "mean:a", "models": ["b"]}])
def test_means_go_with_nothing_else(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="names a column to average"):
        Study.of(target_range=(0, 1), **asked)


def test_a_mean_needs_a_public_range() -> None:
    with pytest.raises(ConfigError, match="needs the public range"):
        Study.of(metrics="mean:dice")
