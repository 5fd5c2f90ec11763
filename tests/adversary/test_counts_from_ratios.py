"""Whole counts are found behind fine ratios, and never where `study check` lets a study pass as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import count, product

import pytest

from fheval.disclosure import LEAST_CANDIDATES, disclosed_by
from fheval.secrets import Secret, SystemRandomness, derive
from fheval.study import Study
from fheval_lab.attacks import counts_from_ratios
from fheval_lab.attacks.counts_from_ratios import (
    FIVE,
    RATIOS,
    absent_partys_counts,
    attack_released_numbers,
    attack_study,
    matrices,
    released_windows,
    right_answers,
    smallest_denominator,
    smallest_numerator,
    some_matrices,
    value,
)

RNG = SystemRandomness()
SETS: tuple[tuple[str, ...], ...] = (
    ("recall",),
    ("accuracy",),
    ("f1",),
    ("precision", "recall"),
    ("f1", "accuracy"),
    ("recall", "specificity"),
    ("recall", "specificity", "accuracy"),
    ("precision", "npv", "f1"),
    FIVE,
    (*FIVE, "f1"),
)


@pytest.fixture(autouse=True)
def the_same_studies_each_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test fails by chance, however rarely a study that passes gives its counts away."""
    drawn = count()
    monkeypatch.setattr(
        counts_from_ratios,
        "fresh_stream",
        lambda: derive(Secret(bytes(32)), "test/studies", request.node.name, next(drawn)),
    )


def needed(names: Sequence[str], rows: int, thresholds: int = 1, rounds: int = 1) -> float:
    found = precision_that_passes(names, rows, thresholds, rounds)
    assert found is not None
    return found


def precision_that_passes(names: Sequence[str], rows: int, thresholds: int = 1, rounds: int = 1) -> float | None:
    asked = [f"{name}@{0.3 + number / 10:g}" for number in range(thresholds) for name in names]
    return disclosed_by(Study.of(metrics=asked, rounds=rounds), rows).precision_needed


# The ways, against trying everything


def test_all_matrices_that_fit_are_found() -> None:
    rows = 30
    (truth,) = some_matrices(rows, 1, RNG)
    for names in (("recall", "specificity"), ("precision", "npv", "accuracy"), tuple(RATIOS)):
        windows = released_windows([truth], names, 0.05, 1, RNG)[0]
        everything = [
            (tp, fp, p - tp, rows - p - fp)
            for p in range(1, rows)
            for tp, fp in product(range(p + 1), range(rows - p + 1))
        ]
        fitting = [
            each
            for each in everything
            if all(
                sum(a * b for a, b in zip(RATIOS[name][1], each, strict=True)) and low <= value(name, each) <= high
                for name, (low, high) in windows.items()
            )
        ]
        assert sorted(matrices(windows, rows)) == sorted(fitting)
        assert truth in fitting


def test_the_smallest_counts_are_found() -> None:
    windows = [(Fraction(72, 100), Fraction(74, 100)), (Fraction(31, 100), Fraction(32, 100))]
    fitting = [
        (den, a, b)
        for den in range(1, 60)
        for a, b in product(range(den + 1), repeat=2)
        if windows[0][0] <= Fraction(a, den) <= windows[0][1] and windows[1][0] <= Fraction(b, den) <= windows[1][1]
    ]
    assert smallest_denominator(windows, 60) == min(fitting)
    exact = [(Fraction(7, 9), Fraction(7, 9)), (Fraction(7, 18), Fraction(7, 18))]
    assert smallest_numerator(exact, 20) == (7, 2, 11)
    assert list(right_answers((Fraction(8, 10), Fraction(8, 10)), (Fraction(3, 4), Fraction(3, 4)), 10)) == [(8, 3)]


# Against studies


def test_five_ratios_at_a_thousand_rows_give_the_confusion_matrix_at_four_decimals() -> None:
    found = attack_study(FIVE, 1000, 1e-4)
    assert found.said == "counts"
    assert found.candidates < 1
    assert found.found >= 18
    assert attack_study(FIVE, 1000, needed(FIVE, 1000)).found == 0


def test_an_absent_partys_own_counts_are_the_difference_of_two_rounds() -> None:
    assert absent_partys_counts(FIVE, 1000, 1e-4).found >= 16
    assert absent_partys_counts(FIVE, 1000, needed(FIVE, 1000)).found == 0


def test_several_rounds_over_the_same_rows_say_more() -> None:
    """What one round hides, a hundred do not, and the check knows."""
    once = needed(("accuracy",), 1000)
    assert attack_study(("accuracy",), 1000, once).found == 0
    often = attack_study(("accuracy",), 1000, once, rounds=100)
    assert often.said == "counts"
    assert often.found > 10
    assert attack_study(("accuracy",), 3000, needed(("accuracy",), 3000, rounds=40), rounds=40).found == 0


def test_without_the_check_studies_pass_whose_counts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of `fheval attack` can fail."""
    assert [line.name for line in attack_released_numbers() if not line.holds] == []
    monkeypatch.setattr("fheval.disclosure.LEAST_CANDIDATES", LEAST_CANDIDATES / 1e9)
    assert [line for line in attack_released_numbers() if not line.holds] != []


@pytest.mark.parametrize("names", SETS, ids="+".join)
@pytest.mark.parametrize("rows", [100, 300, 1000])
def test_no_counts_are_found_where_the_check_lets_a_study_pass(names: tuple[str, ...], rows: int) -> None:
    precision = precision_that_passes(names, rows)
    if precision is None:
        # Ten positives: no rounding hides how many of them were found.
        assert (rows, attack_study(names, rows, 0.5).said) == (100, "counts")
        return
    line = attack_study(names, rows, precision)
    assert (line.said, line.found) == ("ratios", 0)


@pytest.mark.parametrize("names", SETS, ids="+".join)
@pytest.mark.parametrize("rows", [100, 1000, 10**4, 10**5, 10**6])
@pytest.mark.parametrize("thresholds", [1, 2, 4])
@pytest.mark.slow
def test_nor_over_a_spread_of_studies(names: tuple[str, ...], rows: int, thresholds: int) -> None:
    if thresholds * len(names) > 8:
        pytest.skip("up to eight ratios")
    least = precision_that_passes(names, rows, thresholds)
    if least is None:
        pytest.skip("no precision passes")
    for factor in (1, 1.5, 5):
        precision = min(0.5, least * factor)
        line = attack_study(names, rows, precision, thresholds=thresholds)
        assert (line.said, line.found) == ("ratios", 0)


@pytest.mark.parametrize("names", SETS, ids="+".join)
@pytest.mark.slow
def test_how_far_the_check_and_the_attack_are_apart(names: tuple[str, ...]) -> None:
    """A hundredth of what the check wants is too fine for every study: the counts are found in some of twenty tries."""
    line = attack_study(names, 1000, needed(names, 1000) / 100)
    assert line.found > 0
    assert counts_from_ratios.attack_study(names, 1000, needed(names, 1000) / 1000).found >= 5
