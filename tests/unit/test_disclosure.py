"""What a study gives away: the estimate against formulas and against candidates that are counted out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from math import ceil, floor
from typing import Any

import numpy as np
import pytest

from fheval import disclosure
from fheval.disclosure import (
    LEAST_CANDIDATES,
    RevealsMore,
    disclosed_by,
    disclosure_in_words,
    require_as_declared,
    study_in_words,
)
from fheval.metrics.registry import METRICS
from fheval.study import Study


def a_study(metrics: Sequence[str], **others: Any) -> Study:
    return Study.of(**{"metrics": metrics, "precision": 1e-3, "rounds": 1, **others})


# Against formulas


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(("rows", "precision"), [(1000, 1e-4), (1000, 1e-2), (10**6, 1e-5)])
def test_ratios_with_one_denominator(count: int, rows: int, precision: float) -> None:
    """k recalls leave Σ_P (pP)^k = p^k·P^(k+1)/(k + 1); a tenth of the rows are positive in the worst case."""
    study = a_study([f"recall@{each / 10}" for each in range(1, 1 + count)], precision=precision)
    positives = rows / 10
    together = precision**count * positives ** (count + 1) / (count + 1)
    alone = precision * positives**2 / 2
    assert disclosed_by(study, rows).candidates == pytest.approx(min(together, alone), rel=0.02)


def test_an_accuracy_where_the_number_of_rows_is_known() -> None:
    assert disclosed_by(a_study(["accuracy"]), 5000).candidates == pytest.approx(1e-3 * 5000, rel=0.01)


def test_an_auc_says_little() -> None:
    assert disclosed_by(a_study(["auc"], precision=1e-4), 1000).reveals == "ratios"
    assert disclosed_by(a_study(["auc"], precision=1e-9), 1000).reveals == "counts"


def test_rounds_over_the_same_rows_add_up() -> None:
    """Ten windows of a width p, laid at random over one value, have 2p/11 in common on average."""
    ten, finer = a_study(["accuracy"], rounds=10), a_study(["accuracy"], precision=2e-3 / 11)
    assert disclosed_by(ten, 5000).candidates == pytest.approx(disclosed_by(finer, 5000).candidates)


# Against candidates that are counted out


def counted_out(windows: dict[str, tuple[Fraction, Fraction]], rows: int) -> int:
    """How many confusion matrices over so many rows have all metrics within their windows."""
    found = 0
    for positives in range(1, rows):
        negatives = rows - positives
        tps: Sequence[int] = range(positives + 1)
        fps: Sequence[int] = range(negatives + 1)
        if "recall" in windows:
            low, high = windows["recall"]
            tps = range(ceil(low * positives), floor(high * positives) + 1)
        if "specificity" in windows:
            low, high = windows["specificity"]
            fps = range(negatives - floor(high * negatives), negatives - ceil(low * negatives) + 1)
        found += sum(
            all(low <= ratio <= high for ratio, (low, high) in _values(windows, tp, fp, positives, negatives))
            for tp, fp in product(tps, fps)
        )
    return found


def _values(windows: dict[str, tuple[Fraction, Fraction]], tp: int, fp: int, positives: int, negatives: int) -> Any:
    fn, tn = positives - tp, negatives - fp
    parts = {
        "recall": (tp, positives),
        "specificity": (tn, negatives),
        "precision": (tp, tp + fp),
        "npv": (tn, tn + fn),
        "accuracy": (tp + tn, positives + negatives),
        "f1": (2 * tp, 2 * tp + fp + fn),
    }
    for name, window in windows.items():
        top, bottom = parts[name]
        yield (Fraction(top, bottom) if bottom else Fraction(-1)), window


@pytest.mark.parametrize(
    ("metrics", "rows", "precision"),
    [
        (["recall", "specificity"], 600, 0.02),
        (["recall", "specificity", "accuracy"], 400, 0.04),
        (["recall", "specificity", "precision", "npv", "accuracy", "f1"], 400, 0.05),
    ],
)
def test_the_estimate_is_near_the_number_of_candidates(metrics: list[str], rows: int, precision: float) -> None:
    """For data like those that are reckoned with; the worst of them makes the estimate the lower of the two."""
    cells = {(share, rates): (share, rates) for share in (0.1, 0.5, 0.9) for rates in ((0.9, 0.1), (0.7, 0.3))}
    width = Fraction(precision)
    counted = []
    for share, (high, low) in cells:
        positives = round(share * rows)
        tp, fp = round(high * positives), round(low * (rows - positives))
        windows = {name: (Fraction(0), Fraction(1)) for name in metrics}
        truth = [value for value, _ in _values(windows, tp, fp, positives, rows - positives)]
        windows = {name: (value - width / 2, value + width / 2) for name, value in zip(metrics, truth, strict=True)}
        counted.append(counted_out(windows, rows))
    estimate = disclosed_by(a_study(metrics, precision=precision), rows).candidates
    # The accuracy by itself leaves p·n and is among what is tried.
    alone = precision * rows if "accuracy" in metrics else estimate
    assert estimate <= min(*counted, alone) * 2
    assert estimate >= min(*counted, alone) / 4


# What follows from it


@pytest.mark.parametrize(
    "metrics",
    [
        ["recall"],
        ["accuracy"],
        ["precision", "recall", "f1"],
        ["auc", "recall@0.3", "recall@0.5"],
        ["balanced-accuracy", "npv"],
        ["youden-j", "accuracy", "recall"],
    ],
    ids="+".join,
)
@pytest.mark.parametrize("rows", [1000, 10**5])
@pytest.mark.parametrize("rounds", [1, 10])
def test_the_precision_that_is_proposed_passes_and_half_of_it_does_not(
    metrics: list[str], rows: int, rounds: int
) -> None:
    needed = disclosed_by(a_study(metrics, rounds=rounds), rows).precision_needed
    assert needed is not None
    assert disclosed_by(a_study(metrics, rounds=rounds, precision=needed), rows).reveals == "ratios"
    assert disclosed_by(a_study(metrics, rounds=rounds, precision=needed / 2), rows).reveals == "counts"


def test_more_of_anything_reveals_no_less() -> None:
    some = disclosed_by(a_study(["recall@0.5"]), 10**5).candidates
    for more in (
        a_study(["recall@0.5", "recall@0.6"]),
        a_study(["recall@0.5"], models=["old", "new"]),
        a_study(["recall@0.5"], rounds=5),
        a_study(["recall@0.5"], interval=0.95),
        a_study(["recall@0.5"], group_column="sex"),
        a_study(["recall@0.5"], precision=1e-4),
    ):
        assert disclosed_by(more, 10**5).candidates <= some


def test_exact_fractions_and_curves_are_counts() -> None:
    for study in (
        Study.of(metrics=["recall"], protocol="padded-verified"),
        Study.of(release="curve"),
    ):
        assert disclosed_by(study, 10**6).reveals == "counts"


def test_losses_and_errors_reveal_no_counts() -> None:
    found = disclosed_by(a_study(["brier", "log-loss"]), 1000)
    assert (found.reveals, found.precision_needed) == ("ratios", None)


def test_a_mean_may_be_one_of_zeros_and_ones() -> None:
    found = disclosed_by(a_study(["mean:right"], target_range=(0, 1)), 5000)
    assert found.candidates == pytest.approx(1e-3 * 5000, rel=0.01)
    assert found.reveals == "counts"


def test_a_study_that_says_ratios_and_gives_counts_is_refused() -> None:
    metrics = ["precision", "recall", "accuracy"]
    with pytest.raises(RevealsMore, match=r"A precision of .* would keep them open"):
        require_as_declared(a_study(metrics, least_rows=1000, precision=1e-4))
    informed = a_study(metrics, least_rows=1000, precision=1e-4, reveals="counts")
    assert require_as_declared(informed).reveals == "counts"
    needed = require_as_declared(informed).precision_needed
    assert (
        require_as_declared(a_study(metrics, least_rows=1000, precision=needed)).candidates >= LEAST_CANDIDATES * 0.99
    )


def test_a_committee_in_words() -> None:
    """Nobody leads it, whether or not there are spares."""
    named = "ash", "birch", "cedar", "elm"
    for leaders, seats in ((named[:3], "ash, birch and cedar"), (named, "the first 3 that are there of ash, birch")):
        told = " ".join(study_in_words(Study.of(name="together", protocol="committee", leaders=leaders)))
        assert f"The committee is {seats}" in told
        assert "unless all 3 of them work together" in told
        assert "Its first two blind" in told
        assert "led by" not in told
    nobody = " ".join(study_in_words(Study.of(name="together", protocol="committee", committee=2)))
    assert "The committee is 2 members, whom the study has to name as its leaders" in nobody
    assert "blind" not in nobody


def test_in_words() -> None:
    study = a_study(["auc", "recall@0.3"], name="sepsis", models=["old", "new"], interval=0.95, least_rows=5000)
    told = " ".join(study_in_words(study))
    for word in (
        "sepsis",
        "auc and recall@0.3",
        "old and new",
        "95 % interval",
        "200",
        "padded",
        "5,000",
        "once",
        "members",
    ):
        assert word in told
    said = " ".join(disclosure_in_words(disclosed_by(study)))
    assert "5,000 rows" in said


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.threshold])
def test_every_metric_at_a_threshold_is_reckoned_with(name: str) -> None:
    """At 1e-9 any of them gives the counts away; and some precision does not, unless it says too much for any."""
    groups: dict[str, Any] = {} if METRICS[name].gap_of is None else {"group_column": "sex", "groups": ("F", "M")}
    found = disclosed_by(a_study([name], precision=1e-9, **groups), 1000)
    assert found.reveals == "counts"
    assert found.candidates < 1
    assert (
        found.precision_needed is None
        or disclosed_by(a_study([name], precision=found.precision_needed, **groups), 1000).reveals == "ratios"
    )


def test_shares_of_positives_in_stretches_of_probability_are_reckoned_with() -> None:
    assert disclosed_by(a_study(["observed:3", "expected:3"], precision=1e-4), 1000).reveals == "counts"
    assert disclosed_by(a_study(["observed:3", "expected:3"], precision=1e-3), 10**5).reveals == "ratios"


def test_binning_errors_are_numbers_as_well() -> None:
    """The few pairs of a small study: its AUC alone leaves some candidates, with its error there are none."""
    assert disclosed_by(a_study(["auc"]), 1000).numbers == 2
    found = disclosed_by(a_study(["auc"], precision=1e-4), 100).candidates
    pairs = 2 * 0.1 * 0.9 * 100**2
    assert found == pytest.approx(100 * (1e-4 * pairs) ** 2, rel=0.01)


def test_rounding_to_the_nearest_tells_no_more_in_the_next_round() -> None:
    asked: dict[str, Any] = {"protocol": "padded-verified", "precision": 0.01}
    often, once = (disclosed_by(a_study(["accuracy"], rounds=rounds, **asked), 1000) for rounds in (10, 1))
    assert often.candidates == once.candidates
    assert "sees exact fractions" in " ".join(disclosure_in_words(often))


# Which numbers are looked at together


def one_by_one(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every few metrics, and with them all that depend on nothing else: ranks of what they depend on."""
    found: list[tuple[str, ...]] = []
    for chosen in (some for count in range(1, 5) for some in combinations(names, count)):
        space = np.vstack([disclosure._depends_on(name) for name in chosen])
        rank = np.linalg.matrix_rank(space, tol=1e-6)
        within = [
            name
            for name in names
            if np.linalg.matrix_rank(np.vstack([space, disclosure._depends_on(name)]), tol=1e-6) == rank
        ]
        found.append(tuple(within))
    return list(dict.fromkeys(found))


def test_no_set_of_metrics_is_left_out() -> None:
    names = ("recall", "precision", "accuracy", "f1", "specificity", "kappa", "npv")
    assert list(disclosure._said_together(names)) == one_by_one(names)


def test_many_metrics_at_one_threshold_take_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen of them can be chosen in 2,516 ways, which depend on 17 sets of counts."""
    steps = 0
    reduce_rows = disclosure._reduced

    def counted(rows: disclosure._Matrix) -> disclosure._Matrix:
        nonlocal steps
        steps += 1
        return reduce_rows(rows)

    monkeypatch.setattr(disclosure, "_reduced", counted)
    disclosure._said_together.cache_clear()
    names = [name for name, metric in METRICS.items() if metric.threshold and metric.gap_of is None]
    disclosed_by(a_study([f"{name}@0.3" for name in names]), 5000)
    assert steps < 20_000
