"""Every metric equals scikit-learn's on the pooled data, however the data are made and split among parties."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import isclose
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import metrics_oracle
from fheval import Grid, Table, UndefinedMetric, evaluate
from fheval.evaluation.tally import tally_party
from fheval.metrics.registry import METRICS
from fheval.protocols.round import Batch, Contribution, Form
from fheval.secrets import Secret, derive
from fheval.study import Study
from fheval_lab.clear import ClearEngine

POINTS = 11
THRESHOLDS = (0.0, 0.3, 0.5, 1.0)
BINARY = (
    *(name for name, metric in METRICS.items() if not metric.threshold and not metric.targets),
    *(f"{name}@{at}" for name, each in METRICS.items() if each.threshold and not each.gap_of for at in THRESHOLDS),
)
# Nothing scores above 1, and odds of 1:0 have no meaning.
BINARY = tuple(metric for metric in BINARY if metric != "net-benefit@1.0" and not metric.startswith("auc-"))
REGRESSION = tuple(name for name, metric in METRICS.items() if metric.targets and name != "concordance")
TARGETS = (-3.0, 5.0)

Party = tuple[NDArray[np.int64], NDArray[np.float64]]

# On the grid's own points an AUC has no binning, and ties are frequent.
on_grid = st.integers(0, POINTS - 1).map(lambda i: i / (POINTS - 1))
any_score = st.one_of(on_grid, st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 0.5, 1e-17, 1.0 - 2.0**-53]))


def parties_of(
    labels: st.SearchStrategy[float], scores: st.SearchStrategy[float]
) -> st.SearchStrategy[list[tuple[NDArray[np.float64], NDArray[np.float64]]]]:
    """Three to five parties: empty ones, ones of one class, and all scores equal among them."""
    rows = st.one_of(
        st.lists(st.tuples(labels, scores), max_size=12),
        labels.flatmap(lambda label: st.lists(st.tuples(st.just(label), scores), max_size=8)),
        scores.flatmap(lambda score: st.lists(st.tuples(labels, st.just(score)), max_size=8)),
    )
    return st.lists(rows, min_size=3, max_size=5).map(
        lambda all_rows: [(np.array([y for y, _ in each]), np.array([s for _, s in each])) for each in all_rows]
    )


binary_parties = parties_of(st.sampled_from([0.0, 1.0]), any_score)
grid_parties = parties_of(st.sampled_from([0.0, 1.0]), on_grid)
regression_parties = parties_of(st.floats(*TARGETS), st.floats(*TARGETS))


def ratios(batch: Batch, shares: Sequence[Contribution]) -> list[float | None]:
    """What the protocols compute, in Python's integers; the forms' promises are checked."""
    left, right = (side.tolist() for side in batch.factors(np.sum([share.table for share in shares], axis=0)))
    products = iter([a * b for a, b in zip(left, right, strict=True)])
    return [ratio(form, list(islice(products, form.terms))) for form in batch.forms]


def ratio(form: Form, products: list[int]) -> float | None:
    num, den = sum(products[: form.numerator]), sum(products[form.numerator :])
    assert 0 <= num <= form.bound
    assert 0 <= den <= form.bound
    assert num <= den or not form.proper
    return num / den if den else None


def a_study(points: int = POINTS, **others: Any) -> Study:
    return Study.of(decision_points=Grid.even(points), max_samples=64, **others)


def computed(study: Study, parties: Sequence[Party]) -> dict[str, float | None]:
    shares = [
        tally_party(study, [Table.of(*party)], derive(Secret(bytes(32)), "test")).contribution() for party in parties
    ]
    found: dict[str, float | None] = {}
    values = ratios(study.batch(), shares)
    if study.binned:
        found["binning"] = values.pop()
    for each, value in zip(study.evaluations(), values, strict=True):
        finish = each.spec.metric.finish(study.inputs(each.spec))
        found[str(each.spec)] = None if value is None else finish(value)
    return found


def pool(parties: Sequence[Party]) -> Party:
    return np.concatenate([y for y, _ in parties]), np.concatenate([s for _, s in parties])


def assert_same(metric: str, found: float | None, expected: float | None, tolerance: float) -> None:
    if found is None or expected is None:
        assert found is expected is None, metric
    else:
        assert isclose(found, expected, rel_tol=1e-9, abs_tol=tolerance), (metric, found, expected)


@settings(max_examples=50)
@given(binary_parties)
def test_metrics_of_classes_are_those_of_scikit_learn(parties: list[Party]) -> None:
    wanted = tuple(metric for metric in BINARY if metric != "auc")
    found = computed(a_study(metrics=wanted), parties)
    for metric in wanted:
        expected = metrics_oracle.pooled(metric, *pool(parties))
        assert_same(metric, found[metric], expected, metrics_oracle.resolution(metric, *pool(parties)))


@settings(max_examples=50)
@given(grid_parties)
def test_auc_is_that_of_scikit_learn_where_scores_are_decision_points(parties: list[Party]) -> None:
    found = computed(a_study(), parties)["auc"]
    y, s = pool(parties)
    # The last stretch holds what lies at 0 and what lies at the point above it.
    merged = np.where(s == 0.0, 1 / (POINTS - 1), s)
    assert_same("auc", found, metrics_oracle.pooled("auc", y, merged), 1e-12)


@settings(max_examples=50)
@given(binary_parties)
def test_auc_is_that_of_scikit_learn_to_within_the_stretches(parties: list[Party]) -> None:
    y, s = pool(parties)
    expected = metrics_oracle.pooled("auc", y, s)
    values = computed(a_study(grid="even"), parties)
    found, binning = values["auc"], values["binning"]
    if expected is None or found is None or binning is None:
        assert found is expected is binning is None
        return
    stretch = np.clip(np.ceil(s * (POINTS - 1)), 1, None)
    pairs = stretch[y == 1][:, None] == stretch[y == 0][None, :]
    assert binning == pytest.approx(pairs.mean() / 2)
    assert abs(found - expected) <= binning + 1e-12


@settings(max_examples=50)
@given(regression_parties)
def test_metrics_of_values_are_those_of_scikit_learn(parties: list[Party]) -> None:
    y, s = pool(parties)
    found = computed(a_study(2, metrics=REGRESSION, target_range=TARGETS), parties)
    span = TARGETS[1] - TARGETS[0]
    assert_same("mean", found["mean"], metrics_oracle.pooled("mean", y, s), span * 2.0**-24)
    assert_same("mae", found["mae"], metrics_oracle.pooled("mae", y, s), span * 2.0**-24)
    expected = metrics_oracle.pooled("rmse", y, s)
    assert (found["rmse"] is None) == (expected is None)
    if expected is not None and found["rmse"] is not None:
        assert abs(found["rmse"] ** 2 - expected**2) <= span**2 * 2.0**-23
    # R² divides by the spread of the true values, which must stand out from the fixed point.
    if len(y) and y.std() > 1e-3 * span:
        expected = metrics_oracle.pooled("r2", y, s)
        assert_same("r2", found["r2"], expected, 2.0**-24 * 4e3 * (1 + abs(1 - (expected or 0.0))))


@settings(max_examples=50)
@given(binary_parties, st.data())
def test_metrics_of_a_group_are_those_of_its_rows(parties: list[Party], data: st.DataObject) -> None:
    """Groups that some parties lack, that hold everyone, or that hold no one."""
    wanted = ("accuracy@0.5", "precision@0.3", "brier")
    names = data.draw(st.sampled_from([["a"], ["a", "b"], ["a", "b", ""], ["c"]]))
    groups = [np.array([data.draw(st.sampled_from(names)) for _ in y], dtype=np.str_) for y, _ in parties]
    study = a_study(metrics=wanted, group_column="g", groups=("a", "b"))
    shares = [
        tally_party(study, [Table.of(*party, groups=own)], derive(Secret(bytes(32)), "test")).contribution()
        for party, own in zip(parties, groups, strict=True)
    ]
    y, s = pool(parties)
    everyone = np.concatenate(groups)
    for each, value in zip(study.evaluations(study.groups), ratios(study.batch(), shares), strict=True):
        group = each.where.group
        chosen = np.ones(len(y), dtype=bool) if group is None else everyone == group
        expected = metrics_oracle.pooled(str(each.spec), y[chosen], s[chosen])
        assert_same(str(each.spec), value, expected, 2.0**-24)


@settings(max_examples=6)
@given(binary_parties, st.sampled_from([("padded", 1e-4), ("padded", None), ("padded-verified", None)]))
def test_a_round_gives_what_scikit_learn_gives(parties: list[Party], release: tuple[str, float | None]) -> None:
    protocol, precision = release
    # All metrics, each at one threshold, and two of the ten stretches: a round is much slower than its formulas.
    wanted = [metric for metric in BINARY if metric != "auc" and not metric.endswith(("@0.0", "@0.5", "@1.0"))]
    wanted = [metric for metric in wanted if ":" not in metric or metric.endswith((":1", ":10"))]
    options = {"protocol": protocol, "precision": precision or "exact", "engine": ClearEngine(), "max_samples": 64}
    y, s = pool(parties)
    tables = [Table.of(*party) for party in parties]
    if not len(y):
        with pytest.raises(UndefinedMetric, match="accuracy"):
            evaluate(tables, metrics=wanted, **options)  # type: ignore[arg-type]
        return
    result = evaluate(tables, metrics=wanted, **options)  # type: ignore[arg-type]
    for row in result.results:
        expected = metrics_oracle.pooled(row.metric, y, s)
        width = (row.precision if isinstance(row.precision, float) else 0.0) if precision else 0.0
        assert_same(row.metric, row.value, expected, metrics_oracle.resolution(row.metric, y, s) + 0.6 * width)
        assert (row.error is not None) == (expected is None)
        if expected is None:
            assert row.error is not None
            assert f"{row.metric} is undefined: " in row.error
