"""Counts of in-memory arrays: the definition, merging, the AUC, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counting_oracle import naive_counts
from fheval.counting import Counts, Grid
from fheval.counting.chunks import Chunk
from fheval.counting.counts import bin_numbers, count_chunks
from fheval.errors import ConfigError, InputError, UndefinedMetric


def test_a_score_equal_to_a_point_is_not_above_it_and_the_last_point_counts_all() -> None:
    counts = Counts.from_scores([1, 1, 1, 0, 0], [1.0, 0.5, 0.0, 0.5, 0.0], Grid.even(3))
    assert counts.tp.tolist() == [0, 1, 3]
    assert counts.fp.tolist() == [0, 0, 2]


def test_derived_vectors_and_integers_are_those_of_the_formulas() -> None:
    counts = Counts.from_scores([1, 0, 1, 0, 1], [0.9, 0.8, 0.6, 0.3, 0.1], Grid.even(5))
    assert counts.tp.tolist() == [0, 1, 2, 2, 3]
    assert counts.fp.tolist() == [0, 1, 1, 2, 2]
    assert counts.t.tolist() == [1, 3, 4, 5]
    assert counts.f.tolist() == [1, 0, 1, 0]
    assert (counts.positives, counts.negatives, counts.samples) == (3, 2, 5)
    assert (counts.numerator(), counts.denominator()) == (5, 12)
    assert counts.auc() == 5 / 12


def test_scores_outside_an_explicit_grid_keep_the_curve_between_its_corners() -> None:
    counts = Counts.from_scores([1, 0, 1, 0], [9.0, 2.5, 1.5, -9.0], Grid.explicit([3, 2, 1]))
    assert counts.tp.tolist() == [0, 1, 2]
    assert counts.fp.tolist() == [0, 1, 2]
    assert counts.auc() == 0.5


def test_logits_are_counted_where_their_probabilities_are() -> None:
    rng = np.random.default_rng(7)
    logits = rng.normal(scale=4, size=2000)
    labels = rng.integers(0, 2, size=2000)
    probabilities = 1 / (1 + np.exp(-logits))
    for make in (Grid.wide, Grid.even, Grid.logit):
        assert np.array_equal(
            Counts.from_scores(labels, logits, make(100, scores="logit")).tp,
            Counts.from_scores(labels, probabilities, make(100)).tp,
        )


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int64, np.uint64, np.float32, np.float64, ">i4"])
def test_labels_of_any_type_count_the_same(dtype: Any) -> None:
    labels = np.array([1, 0, 0, 1, 1])
    scores = [0.2, 0.7, 0.1, 0.9, 0.4]
    assert Counts.from_scores(labels.astype(dtype), scores, 10) == Counts.from_scores(labels, scores, 10)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, ">f8", np.int8, np.bool_])
def test_scores_of_any_type_are_compared_as_float64(dtype: Any) -> None:
    scores = np.array([0.0, 1.0, 0.3, 0.1, 0.7, 0.9]).astype(dtype)
    labels = [0, 1, 0, 1, 1, 0]
    counts = Counts.from_scores(labels, scores, Grid.even(11))
    tp, fp = naive_counts(labels, [float(score) for score in scores], Grid.even(11).points.tolist())
    assert (counts.tp.tolist(), counts.fp.tolist()) == (tp, fp)


def test_strided_and_reversed_views_count_as_their_copies() -> None:
    table = np.random.default_rng(3).random((1000, 3))
    labels = (table[:, 0] > 0.5).astype(np.int64)
    expected = Counts.from_scores(labels, table[:, 2].copy(), 50)
    assert Counts.from_scores(labels, table[:, 2], 50) == expected
    assert Counts.from_scores(labels[::-1], table[::-1, 2], 50) == expected


def test_neither_order_nor_split_matters() -> None:
    rng = np.random.default_rng(5)
    labels, scores = rng.integers(0, 2, size=100_000), rng.random(100_000)
    whole = Counts.from_scores(labels, scores, 100)
    merged = Counts.zero(100)
    for part in np.array_split(rng.permutation(100_000), 7):
        merged = Counts.from_scores(labels[part], scores[part], 100) + merged
    assert merged == whole
    assert hash(merged) == hash(whole)
    assert merged != Counts.zero(100)


def test_a_large_grid_counts_exactly() -> None:
    rng = np.random.default_rng(9)
    labels, scores = rng.integers(0, 2, size=90_000), rng.random(90_000)
    counts = Counts.from_scores(labels, scores, Grid.even(40_001))
    below = np.searchsorted(np.sort(scores[labels == 1]), Grid.even(40_001).points, side="right")
    assert np.array_equal(counts.tp, labels.sum() - below)


def test_merging_needs_the_same_grid() -> None:
    with pytest.raises(InputError, match=r"Grid.wide\(10\) and at Grid.wide\(11\)"):
        Counts.zero(10) + Counts.zero(11)
    with pytest.raises(TypeError):
        Counts.zero(10) + 0  # type: ignore[operator]


@pytest.mark.parametrize(("label", "missing"), [(0, "1"), (1, "0")])
def test_an_auc_needs_both_classes(label: int, missing: str) -> None:
    with pytest.raises(UndefinedMetric, match=f"no sample has label {missing}"):
        Counts.from_scores([label] * 3, [0.1, 0.2, 0.3]).auc()


def test_the_auc_is_exact_beyond_64_bits() -> None:
    half = (1 << 61) - 1
    grid = Grid.even(3)
    counts = Counts(tp=np.array([0, half, half + 1]), fp=np.array([0, 0, half]), grid=grid)
    assert counts.numerator() == (2 * half + 1) * half
    assert counts.denominator() == 2 * (half + 1) * half
    assert counts.auc() == (2 * half + 1) * half / (2 * (half + 1) * half)


@pytest.mark.parametrize("name", ["tp", "fp"])
@pytest.mark.parametrize("values", [[0, 1], [0, 2, 1], [1, 1, 1], [-1, 0, 1], [0.0, 1.0, 2.0], [0, 0, 1 << 62]])
def test_what_cannot_be_counts_is_refused(name: str, values: Any) -> None:
    arrays = {"tp": np.zeros(3, dtype=np.int64), "fp": np.zeros(3, dtype=np.int64), name: np.array(values)}
    with pytest.raises(InputError, match=f"^{name} "):
        Counts(tp=arrays["tp"], fp=arrays["fp"], grid=Grid.even(3))


def test_counts_are_read_only_and_do_not_print() -> None:
    counts = Counts.from_scores([1, 0], [0.9, 0.1], Grid.even(10))
    assert repr(counts) == "<Counts at Grid.even(10)>"
    for array in (counts.tp, counts.fp):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        counts.grid = Grid.even(3)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("labels", "scores", "told"),
    [
        ([1, 2, 0], [0.5, 0.5, 0.5], "row 2, column 'labels': the label 2 is neither 0 nor 1"),
        ([1, -1, 0], [0.5, 0.5, 0.5], "row 2, column 'labels': the label -1 is neither 0 nor 1"),
        ([1, 0.5], [0.5, 0.5], "row 2, column 'labels': the label 0.5 is neither 0 nor 1"),
        ([np.nan, 1], [0.5, 0.5], "row 1, column 'labels': the label nan is neither 0 nor 1"),
        ([1, 0, 1], [0.5, np.nan, 0.5], "row 2, column 'scores': the score nan is not a finite number"),
        ([1, 0, 1], [0.5, 0.5, np.inf], "row 3, column 'scores': the score inf is not a finite number"),
        ([1, 0], [-1e-300, 0.5], "row 1, column 'scores': the score -1e-300 is outside [0, 1]"),
        ([1, 0], [0.5, np.nextafter(1, 2)], "row 2, column 'scores': the score 1.0000000000000002 is outside"),
        ([1, 0], [0.5], "2 labels but 1 scores"),
        ([], [], "there are no rows"),
        ([[1], [0]], [0.5, 0.5], "has 2 dimensions"),
        (["1", "0"], [0.5, 0.5], "holds values of type <U1"),
        ([1, 0], [0.5, None], "holds values of type object"),
        ([1, [0]], [0.5, 0.5], "not an array of numbers"),
        ([1, 0], [0.5, 1j], "holds values of type complex128"),
    ],
)
def test_bad_input_is_named(labels: Any, scores: Any, told: str) -> None:
    with pytest.raises(InputError) as error:
        Counts.from_scores(labels, scores)
    assert told in str(error.value)


def test_bad_input_deep_inside_an_array_is_named_with_its_source() -> None:
    labels, scores = np.zeros(200_000, dtype=np.int8), np.full(200_000, 0.5)
    scores[123_456] = 1.5
    with pytest.raises(InputError, match=r"^hospital 3, row 123457, column 'scores': the score 1\.5 is outside"):
        Counts.from_scores(labels, scores, source="hospital 3")


@pytest.mark.parametrize("grid", [Grid.even(5), Grid.wide(5), Grid.logit(5)], ids=repr)
def test_negative_zero_is_a_score_like_zero(grid: Grid) -> None:
    assert Counts.from_scores([1, 0], [-0.0, 0.0], grid).tp.tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("grid", [Grid.wide(), Grid.wide(1 << 15), Grid.logit(1000), Grid.wide(2)], ids=repr)
def test_scores_of_every_size_are_in_the_bin_that_comparing_gives(grid: Grid) -> None:
    """From the smallest floats that there are to those beside 1, where odds are at their largest."""
    small = np.concatenate([[0.0, 5e-324, 2.2e-308], 2.0 ** -np.arange(1, 1074.0), np.geomspace(1e-320, 0.5, 5000)])
    scores = np.concatenate([small, 1.0 - small, np.nextafter(1.0, 0.0) - np.arange(2000) * 2.0**-53])
    compared = np.searchsorted(grid.cuts[-2:0:-1], scores, side="left")
    assert np.array_equal(len(grid) - 2 - bin_numbers(grid, scores), compared)


@pytest.mark.parametrize(
    "grid",
    [
        Grid.wide(10, scores="logit"),
        Grid.even(10, scores="logit"),
        Grid.logit(10, scores="logit"),
        Grid.explicit([1, 0]),
    ],
)
def test_only_finite_scores_go_with_any_scale(grid: Grid) -> None:
    assert Counts.from_scores([1, 0], [1e308, -1e308], grid).samples == 2
    with pytest.raises(InputError, match="row 2, column 'scores': the score -inf is not a finite number"):
        Counts.from_scores([1, 0], [0.0, -np.inf], grid)


def test_bad_numbers_of_decision_points_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 2 decision points"):
        Counts.from_scores([1, 0], [0.5, 0.5], decision_points=1)


def test_chunks_may_be_empty_but_not_all_of_them() -> None:
    empty, full = Chunk(np.empty(0), np.empty(0)), Chunk(np.array([1]), np.array([0.5]))
    assert count_chunks([empty, full, empty], 3).samples == 1
    with pytest.raises(InputError, match="nothing here: there are no rows"):
        count_chunks([empty], 3, source="nothing here")
