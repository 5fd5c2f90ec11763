"""The default grid on the battery of score distributions: how far off, and never by more than the bound δ."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fheval import evaluate
from fheval.counting import Counts, Grid
from fheval.counting.counts import binning_error
from fheval_lab.battery import battery, measure
from fheval_lab.clear import ClearEngine

# Scores below 1e-13, and clumps of a boosted tree at 0.1 % and 0.3 % that lie within one stretch: δ says so.
WORST = 5e-3


def test_the_battery_is_wide_enough() -> None:
    names = [each.name for each in battery()]
    assert len(names) == len(set(names))
    assert sum(not each.held_out for each in battery()) >= 24
    assert sum(each.held_out for each in battery()) >= 8


def test_a_party_sees_how_far_binning_takes_its_own_auc() -> None:
    every = {each.name: each for each in battery()}
    labels, scores = every["logistic divided by 100, 50.0%"].make()
    for grid in (Grid.even(100), Grid.wide()):
        assert binning_error(labels, scores, grid) == pytest.approx(measure(labels, scores, grid).error, abs=1e-12)
    assert binning_error(labels, scores, Grid.even(100)) > 0.4
    assert binning_error(np.ones(3, dtype=int), np.array([0.1, 0.2, 0.3]), Grid.wide()) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["padded", "committee", "padded-verified"])
def test_what_is_released_lies_within_binning_and_precision_on_every_distribution(protocol: str) -> None:
    """A whole round over five parties, with default settings but for logits."""
    for each in battery():
        labels, scores = each.make()
        parties = list(zip(np.array_split(labels, 5), np.array_split(scores, 5), strict=True))
        result = evaluate(parties, scores=each.scale, protocol=protocol, engine=ClearEngine())
        width = 0.0 if result.precision == "exact" else float(result.precision)
        assert result.binning is not None
        assert abs(result.auc - roc_auc_score(labels, scores)) <= result.binning + width + 1e-12, each.name


@pytest.mark.slow
def test_the_default_grid_is_right_on_every_distribution() -> None:
    errors = {}
    for each in battery():
        labels, scores = each.make()
        found = measure(labels, scores, Grid.wide(scores=each.scale))
        assert found.error <= found.bound + 1e-12
        assert Counts.from_scores(labels, scores, Grid.wide(scores=each.scale)).samples == len(labels)
        errors[each.name] = found.error
    assert max(errors.values()) <= WORST
    assert sum(error <= 1e-3 for error in errors.values()) >= len(errors) - 3
    assert sum(error <= 1e-4 for error in errors.values()) >= 0.75 * len(errors)
