"""Counting against a naive second implementation and scikit-learn, on scores chosen to be awkward."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from counting_oracle import naive_auc, naive_counts
from fheval.counting import Counts, Grid

sizes = st.integers(min_value=2, max_value=130)
grids = st.one_of(
    sizes.map(Grid.wide),
    sizes.map(Grid.even),
    sizes.map(Grid.logit),
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40, unique=True).map(
        lambda points: Grid.explicit(sorted(points, reverse=True))
    ),
)
logit_grids = st.one_of(
    sizes.map(lambda n: Grid.wide(n, scores="logit")),
    sizes.map(lambda n: Grid.even(n, scores="logit")),
    sizes.map(lambda n: Grid.logit(n, scores="logit")),
)


@st.composite
def samples(draw: st.DrawFn, grid: Grid, max_size: int = 60) -> tuple[list[int], list[float]]:
    """Labels and scores that sit on decision points, one float beside them, or anywhere allowed."""
    low, high = max(grid.score_range[0], -1e7), min(grid.score_range[1], 1e7)
    cuts = [cut for cut in grid.cuts.tolist() if low <= cut <= high] or [low]
    on_a_cut = st.sampled_from(cuts)
    beside_a_cut = st.tuples(on_a_cut, st.sampled_from([-np.inf, np.inf])).map(lambda p: float(np.nextafter(*p)))
    score = st.one_of(on_a_cut, beside_a_cut, st.floats(low, high), st.floats(low, high, width=32))
    rows = draw(st.lists(st.tuples(st.integers(0, 1), score), min_size=1, max_size=max_size))
    labels, scores = zip(*rows, strict=True)
    return list(labels), [min(max(value, low), high) for value in scores]


@given(st.data(), st.one_of(grids, logit_grids))
def test_counts_are_those_of_the_definition(data: st.DataObject, grid: Grid) -> None:
    labels, scores = data.draw(samples(grid))
    counts = Counts.from_scores(labels, scores, grid)
    tp, fp = naive_counts(labels, scores, grid.cuts.tolist())
    assert (counts.tp.tolist(), counts.fp.tolist()) == (tp, fp)
    if 0 < sum(labels) < len(labels):
        assert counts.auc() == float(naive_auc(tp, fp))


@given(st.data(), grids)
def test_float32_scores_are_compared_as_float64(data: st.DataObject, grid: Grid) -> None:
    labels, scores = data.draw(samples(grid))
    narrow = np.array(scores, dtype=np.float32)
    counts = Counts.from_scores(labels, narrow, grid)
    tp, fp = naive_counts(labels, narrow.astype(np.float64).tolist(), grid.cuts.tolist())
    assert (counts.tp.tolist(), counts.fp.tolist()) == (tp, fp)


@given(st.data(), grids)
def test_parts_merge_to_the_whole_in_any_order(data: st.DataObject, grid: Grid) -> None:
    labels, scores = data.draw(samples(grid))
    party = data.draw(st.lists(st.integers(0, 4), min_size=len(labels), max_size=len(labels)))
    parts = []
    for m in range(5):
        rows = [i for i, owner in enumerate(party) if owner == m]
        part = Counts.from_scores([labels[i] for i in rows], [scores[i] for i in rows], grid) if rows else None
        parts.append(part or Counts.zero(grid))
    order = data.draw(st.permutations(parts))
    assert reduce(add, order) == Counts.from_scores(labels, scores, grid)


def floats_around(points: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """All floats of [0, 1] within `reach` steps of a decision point."""
    up = down = points
    found = [points]
    for _ in range(reach):
        up, down = np.nextafter(up, 2.0), np.nextafter(down, -1.0)
        found += [up, down]
    return np.clip(np.concatenate(found), 0.0, 1.0)


@pytest.mark.parametrize("start", range(2, 3000, 500))
def test_every_even_grid_is_exact_at_the_floats_around_its_points(start: int) -> None:
    for n in range(start, start + 500, 7):
        grid = Grid.even(n)
        scores = floats_around(grid.points, 3)
        counts = Counts.from_scores(np.ones(len(scores), dtype=np.int8), scores, grid)
        above = len(scores) - np.searchsorted(np.sort(scores), grid.points, side="right")
        above[-1] = len(scores)
        assert np.array_equal(counts.tp, above)


def crowded(count: int) -> Grid:
    """Points of which several share a cell, some of them neighbouring floats, between points far away."""
    close = np.geomspace(1e-9, 1e-3, count)
    neighbours = [1.0]
    for _ in range(20):
        neighbours.append(float(np.nextafter(neighbours[-1], 2.0)))
    return Grid.explicit(sorted({-1e6, *close.tolist(), *neighbours, 1e6}, reverse=True))


LARGEST = float(np.finfo(np.float64).max)
AWKWARD = [
    *(kind(n) for kind in (Grid.wide, Grid.logit) for n in (2, 3, 4, 10, 999, 1000, 5003, 65536)),
    *(kind(n, scores="logit") for kind in (Grid.wide, Grid.logit, Grid.even) for n in (2, 3, 4, 101, 1000)),
    crowded(50),
    crowded(500),
    Grid.explicit([LARGEST, 1.0, 0.0, -LARGEST]),
    Grid.explicit([LARGEST, LARGEST / 2, 0.0, -LARGEST / 2, -LARGEST]),
    Grid.explicit([1.0, 15e-324, 10e-324, 5e-324, 0.0]),
    Grid.explicit(np.linspace(5, -3, 1000)),
]


@pytest.mark.parametrize("grid", AWKWARD, ids=repr)
def test_every_grid_is_exact_at_the_floats_around_its_cuts(grid: Grid) -> None:
    low, high = grid.score_range
    cuts = np.clip(grid.cuts, low, high)
    spread = np.linspace(-1, 1, 2001) * 40 if low < 0 else np.linspace(0, 1, 2001) ** 8
    near = [cuts]
    with np.errstate(over="ignore"):
        for reach in ((high,), (high, high), (low,), (low, low)):
            near.append(reduce(np.nextafter, reach, cuts))
    tails = np.array([5e-324, 1e-310, 1e-45, 1e-38, 1 - 2**-53, 0.5, high, max(low, 0.0)])
    scores = np.clip(np.concatenate([*near, spread, 1 - spread, tails]), low, high)
    counts = Counts.from_scores(np.ones(len(scores), dtype=np.int8), scores, grid)
    above = len(scores) - np.searchsorted(np.sort(scores), grid.cuts, side="right")
    above[0], above[-1] = 0, len(scores)
    assert np.array_equal(counts.tp, above)


def test_rounded_scores_are_counted_as_exactly_as_others() -> None:
    """All on a point of the even grid, and few of them: both ways to settle a doubt."""
    grid = Grid.even(1001)
    rng = np.random.default_rng(5)
    for scores in (rng.random(5000).round(3), np.where(rng.random(5000) < 0.02, 0.25, rng.random(5000))):
        counts = Counts.from_scores(np.ones(5000, dtype=np.int8), scores, grid)
        assert counts.tp[1:-1].tolist() == [int((scores > point).sum()) for point in grid.points[1:-1]]


@settings(max_examples=50)
@given(st.data(), st.integers(3, 200))
def test_with_one_score_a_bin_the_auc_is_scikit_learns(data: st.DataObject, n: int) -> None:
    bins = data.draw(st.lists(st.integers(0, n - 2), min_size=2, max_size=50, unique=True))
    labels = data.draw(st.lists(st.integers(0, 1), min_size=len(bins), max_size=len(bins)))
    labels[:2] = [0, 1]
    scores = [(place + 0.5) / (n - 1) for place in bins]
    assert Counts.from_scores(labels, scores, Grid.even(n)).auc() == pytest.approx(
        roc_auc_score(labels, scores), abs=1e-12
    )


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 300))
def test_binning_moves_the_auc_by_at_most_half_of_the_pairs_that_share_a_bin(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.concatenate(([0, 1], rng.integers(0, 2, size=300)))
    scores = np.clip(rng.normal(0.4 + 0.2 * labels, 0.2), 0, 1)
    counts = Counts.from_scores(labels, scores, Grid.even(n))
    sharing = int((np.diff(counts.tp) * counts.f).sum())
    bound = sharing / counts.denominator()
    assert abs(counts.auc() - roc_auc_score(labels, scores)) <= bound + 1e-12
