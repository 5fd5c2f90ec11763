"""`evaluate` over metrics, models, classes, groups and resamples: what comes out, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import metrics_oracle
from fheval import ConfigError, Counts, InputError, Result, Table, UndefinedMetric, evaluate
from fheval.errors import CapacityError
from fheval.evaluation.run import evaluate_study
from fheval.protocols.groups import SUPPRESSED
from fheval.study import Study
from fheval_lab.clear import ClearEngine

SPECIES = ("setosa", "versicolor", "virginica")


def ask(parties: Any, **options: Any) -> Result:
    return evaluate(parties, engine=ClearEngine(), **options)


def binary(rng: np.random.Generator, rows: int, lift: float = 0.3) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    labels = rng.integers(0, 2, rows)
    return labels, np.round(lift * labels + (1 - lift) * rng.random(rows), 2)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_the_single_case_is_what_it_was(rng: np.random.Generator) -> None:
    parties = [binary(rng, 50) for _ in range(3)]
    result = ask(parties, decision_points=101, precision="exact")
    pooled = sum((Counts.from_scores(*each, 101) for each in parties), start=Counts.zero(101))
    assert result.auc == pooled.auc()
    fields = result.to_dict()
    assert fields["auc"] == result.auc
    assert fields["results"] == [
        {"metric": "auc", "model": None, "class": None, "group": None, "value": result.auc}
        | {"low": None, "high": None, "binning": result.binning, "precision": "exact"}
    ]
    assert "confidence" not in fields
    json.dumps(fields, allow_nan=False)


def test_counts_and_rows_give_the_same_auc(rng: np.random.Generator) -> None:
    parties = [binary(rng, 50) for _ in range(3)]
    counted = [Counts.from_scores(*parties[0], 40), *parties[1:]]
    tables = [Table.of(*each) for each in parties]
    assert (
        ask(counted, decision_points=40, precision="exact").auc
        == ask(tables, decision_points=40, precision="exact").auc
    )


def test_metrics_that_are_undefined_leave_the_others_alone() -> None:
    parties = [([1, 1], [0.2, 0.1]), ([1], [0.4]), ([1, 1], [0.3, 0.0])]
    result = ask(parties, metrics=["auc", "recall", "precision", "specificity", "accuracy"])
    found = {row.metric: row for row in result.results}
    assert (found["recall@0.5"].value, found["accuracy@0.5"].value) == pytest.approx((0.0, 0.0), abs=1e-4)
    for metric, reason in (("auc", "one class"), ("precision@0.5", "above the threshold"), ("specificity@0.5", "neg")):
        error = found[metric].error
        assert error is not None
        assert error.startswith(f"{metric} is undefined")
        assert reason in error
        with pytest.raises(UndefinedMetric, match=f"{metric} is undefined"):
            result.value(metric)
    assert result.to_dict()["auc"] is None


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_a_round_without_any_defined_metric_names_them_all(protocol: str) -> None:
    with pytest.raises(UndefinedMetric, match=r"balanced-accuracy@0\.5 is undefined.*precision@0\.9 is undefined"):
        ask([([1], [0.2])] * 3, metrics=["balanced-accuracy", "precision@0.9"], protocol=protocol)


def test_r_squared_of_equal_values_is_undefined_in_a_verified_round_too() -> None:
    parties = [([3.0, 3.0], [2.0, 2.5])] * 3
    result = ask(parties, metrics=["mae", "r2"], target_range=(0, 10), protocol="padded-verified")
    assert result.value("mae") == pytest.approx(0.75, abs=1e-5)
    with pytest.raises(UndefinedMetric, match="r2 is undefined: all true values are equal"):
        result.value("r2")
    with pytest.raises(UndefinedMetric, match="r2"):
        ask(parties, metrics=["r2"], target_range=(0, 10), protocol="padded-verified")


def test_the_precision_of_a_row_says_how_far_its_value_may_be_off(rng: np.random.Generator) -> None:
    parties = [(rng.uniform(20, 80, 30), rng.uniform(20, 80, 30)) for _ in range(3)]
    y, s = (np.concatenate([each[i] for each in parties]) for i in range(2))
    metrics = ["mae", "rmse", "r2"]
    result = ask(parties, metrics=metrics, target_range=(0, 100), precision=1e-3)
    for row in result.results:
        expected = metrics_oracle.pooled(row.metric, y, s)
        assert row.value is not None
        assert isinstance(row.precision, float)
        assert abs(row.value - (expected or 0.0)) <= 0.6 * row.precision
    assert result.value("mae") != pytest.approx(metrics_oracle.pooled("mae", y, s), abs=1e-6)
    mae, rmse, r2 = result.results
    assert mae.precision == pytest.approx(0.1, rel=1e-3)  # of a range of 100
    assert isinstance(rmse.precision, float)
    assert rmse.value is not None
    assert rmse.precision == pytest.approx(1e-3 * 100**2 / (2 * rmse.value), rel=0.01)
    assert r2.precision == 1e-3


def test_an_exact_release_of_a_fixed_point_metric_says_its_resolution() -> None:
    result = ask([([1, 0], [0.3, 0.6])] * 3, metrics=["accuracy", "brier"], precision="exact")
    accuracy, brier = result.results
    assert accuracy.precision == "exact"
    assert brier.precision == 2.0**-24


def test_models_are_told_apart(rng: np.random.Generator) -> None:
    labels = [rng.integers(0, 2, 40) for _ in range(3)]
    scores = [{"old": rng.random(40), "new": np.clip(0.4 * y + 0.6 * rng.random(40), 0, 1)} for y in labels]
    result = ask(list(zip(labels, scores, strict=True)), metrics=["auc", "brier"], precision="exact")
    assert [(row.metric, row.model) for row in result.results] == [
        ("auc", "old"),
        ("auc", "new"),
        ("brier", "old"),
        ("brier", "new"),
    ]
    for model in ("old", "new"):
        pooled = np.concatenate(labels), np.concatenate([each[model] for each in scores])
        assert result.value("brier", model=model) == pytest.approx(metrics_oracle.pooled("brier", *pooled), abs=2**-24)
    assert "auc" not in result.to_dict()
    with pytest.raises(ConfigError, match="no single AUC"):
        assert result.auc


def test_classes_are_told_from_the_rest_and_averaged(rng: np.random.Generator) -> None:
    parties, pooled_labels, pooled_scores = [], [], []
    for _ in range(3):
        numbers = rng.integers(0, 3, 60)
        raw = rng.integers(1, 20, (60, 3)) + 20 * np.eye(3, dtype=np.int64)[numbers]
        scores = raw / raw.sum(axis=1, keepdims=True)
        parties.append((np.array(SPECIES)[numbers], {"": scores}))
        pooled_labels.append(numbers)
        pooled_scores.append(scores)
    y, s = np.concatenate(pooled_labels), np.concatenate(pooled_scores)
    result = ask(parties, metrics=["auc", "recall@0.4"], classes=SPECIES, decision_points=8000, precision="exact")
    for number, name in enumerate(SPECIES):
        one = (y == number).astype(np.int64)
        expected = metrics_oracle.pooled("recall@0.4", one, s[:, number])
        assert result.value("recall@0.4", label=name) == expected
    macro = roc_auc_score(y, s, multi_class="ovr", average="macro")
    assert result.value("auc", label="macro") == pytest.approx(macro, abs=1e-4)
    assert [row.label for row in result.results[:4]] == [*SPECIES, "macro"]


def test_numbers_may_be_classes(rng: np.random.Generator) -> None:
    numbers = np.array([0, 1, 2, 2, 1, 0])
    parties = [Table.of(numbers, np.eye(3)[numbers])] * 3
    result = ask(parties, metrics=["accuracy"], classes=[0, 1, 2], precision="exact")
    assert [row.value for row in result.results] == [1.0, 1.0, 1.0, 1.0]
    with pytest.raises(InputError, match=r"row 3, column 'labels': the label '2' is none of the classes"):
        ask([(numbers, np.eye(2)[np.minimum(numbers, 1)])] * 3, classes=[0, 1])


def test_groups_are_evaluated_by_themselves(rng: np.random.Generator) -> None:
    parties = []
    for _ in range(4):
        labels, scores = binary(rng, 120)
        parties.append(Table.of(labels, scores, groups=rng.choice(["F", "M"], 120)))
    result = ask(parties, metrics=["accuracy"], group_column="sex", precision="exact")
    y = np.concatenate([each.labels.values for each in parties])
    s = np.concatenate([each.scores[""][0].values for each in parties])
    g = np.concatenate([each.groups.values for each in parties if each.groups is not None])
    assert [row.group for row in result.results] == [None, "sex=F", "sex=M"]
    for group in ("F", "M"):
        expected = metrics_oracle.pooled("accuracy@0.5", y[g == group], s[g == group])
        assert result.value("accuracy@0.5", group=f"sex={group}") == expected
    assert result.value("accuracy@0.5") == metrics_oracle.pooled("accuracy@0.5", y, s)


def with_small_group(rng: np.random.Generator, small: int) -> list[Table]:
    parties = []
    for number in range(4):
        labels, scores = binary(rng, 100)
        groups = rng.choice(["F", "M"], 100)
        groups[: small if number == 0 else 0] = "X"
        parties.append(Table.of(labels, scores, groups=groups))
    return parties


def test_a_small_group_is_neither_released_nor_left_over(rng: np.random.Generator) -> None:
    result = ask(with_small_group(rng, 5), group_column="sex")
    # Five people at one party are not even named; F or M goes with them.
    assert [(row.group, row.value is None) for row in result.results] == [
        (None, False),
        ("sex=M", False),
        ("sex=F", True),
    ]
    assert result.results[2].note == SUPPRESSED


def test_a_group_that_one_party_holds_enough_of_is_suppressed_by_name(rng: np.random.Generator) -> None:
    result = ask(with_small_group(rng, 30), group_column="sex", metrics=["recall"])
    notes = {row.group: row.note for row in result.results if row.value is None}
    assert set(notes) == {"sex=F", "sex=X"}
    assert "too few parties" in str(notes["sex=X"])


def test_a_group_counts_clusters_where_clusters_are_resampled(rng: np.random.Generator) -> None:
    parties = []
    for _ in range(3):
        labels, scores = binary(rng, 60)
        # Thirty rows of F belong to two patients.
        groups, clusters = ["F"] * 30 + ["M"] * 30, [0, 1] * 15 + list(range(2, 32))
        parties.append(Table.of(labels, scores, groups=groups, clusters=clusters))
    by_rows = ask(parties, group_column="sex")
    assert [row.group for row in by_rows.results if row.value is not None] == [None, "sex=F", "sex=M"]
    by_patients = ask(parties, group_column="sex", by_cluster=True)
    assert [row.group for row in by_patients.results] == [None, "sex=M"]


def test_intervals_and_the_difference_of_two_models(rng: np.random.Generator) -> None:
    parties = []
    for _ in range(3):
        labels = rng.integers(0, 2, 150)
        good = np.clip(0.5 * labels + 0.5 * rng.random(150), 0, 1)
        parties.append((labels, {"good": good, "same": good, "bad": rng.random(150)}))
    result = ask(parties, ci=0.9, replicates=60, decision_points=40)
    assert result.confidence == 0.9
    for row in result.results:
        assert row.low is not None
        assert row.high is not None
        assert row.value is not None
        assert row.low <= row.value + 1e-4
        assert row.value - 1e-4 <= row.high
    rows = {row.model: row for row in result.results}
    assert list(rows) == ["good", "same", "bad", "good - same", "good - bad", "same - bad"]
    # The same rows weigh the same for both models: nothing but the rounding is left of the difference.
    same = rows["good - same"]
    assert abs(same.high or 1.0) <= 1e-4
    assert abs(same.low or 1.0) <= 1e-4
    assert same.precision == 2e-4
    assert rows["good - bad"].p_value == pytest.approx(2 / 61)
    assert rows["good"].p_value is None


def test_resamples_in_which_a_metric_is_undefined_are_left_out_and_said(rng: np.random.Generator) -> None:
    labels = np.zeros(30, dtype=np.int64)
    labels[0] = 1
    parties = [(labels, rng.random(30)), (labels * 0, rng.random(30)), (labels * 0, rng.random(30))]
    (row,) = ask(parties, ci=0.95, replicates=100, decision_points=20).results
    # One positive is missing from about 37 of 100 resamples.
    assert row.note is not None
    assert 15 < int(row.note.split()[4]) < 60
    assert row.low is not None


def test_what_cannot_be_asked_is_refused() -> None:
    pair = ([1, 0], [0.5, 0.2])
    refused: dict[str, dict[str, Any]] = {
        "no metric 'accurracy'": {"metrics": ["accurracy"]},
        "takes no threshold": {"metrics": ["auc@0.5"]},
        "not a threshold": {"metrics": ["f1@half"]},
        "no probability": {"metrics": ["f1@1.5"]},
        "target range": {"metrics": ["mae"]},
        "no range of values": {"metrics": ["mae"], "target_range": (1, 1)},
        "named twice": {"metrics": ["f1", "f1@0.5"]},
        "do not carry an interval": {"ci": 0.99, "replicates": 100},
        "makes no sense": {"ci": 1.0},
        "computes one AUC a round": {"metrics": ["f1"], "protocol": "paper-semi-honest"},
        "no group column": {"group_column": "sex"},
        "no cluster column": {"ci": 0.95, "by_cluster": True},
        "1 columns of scores for model ''": {"classes": ["0", "1"]},
        "fewer decision points": {"ci": 0.95, "replicates": 6000, "decision_points": 190},
        "compares groups": {"metrics": ["recall-gap"]},
    }
    for message, options in refused.items():
        with pytest.raises((ConfigError, CapacityError), match=message):
            ask([pair] * 3, **options)
    with pytest.raises(ConfigError, match="carry an AUC and nothing else"):
        ask([Counts.from_scores(*pair)] * 3, metrics=["f1"])
    for parties in (b"abc", "abc"):
        with pytest.raises(ConfigError, match="come as a list"):
            ask(parties)


@pytest.mark.parametrize(
    ("labels", "scores", "message", "options"),
    [
        ([0, 2], [0.1, 0.2], r"party-1, row 2, column 'labels': the label 2 is neither 0 nor 1", {"metrics": ["f1"]}),
        ([0, 1], [0.1, 1.2], r"row 2, column 'scores': the score 1\.2 is outside \[0, 1\]", {"metrics": ["brier"]}),
        ([0, 1], [0.1, np.nan], "row 2, column 'scores': the score nan", {"metrics": ["f1"]}),
        ([0, 7], [0.1, 0.2], "the value 7.0 is outside the target range", {"metrics": ["mae"], "target_range": (0, 5)}),
        ([0, 1], [0.1], "2 labels but 1 scores", {"metrics": ["f1"]}),
        (
            ["no", "yes"],
            [0.1, 0.2],
            r"the label 'no' is neither 0 nor 1; say which is positive, or name the classes",
            {"metrics": ["f1"]},
        ),
        ([], [], "there are no rows", {"metrics": ["f1"]}),
    ],
)
def test_bad_rows_are_named(labels: Any, scores: Any, message: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=message):
        ask([(labels, scores)] * 3, **options)


class Untouchable:
    """Rows that nobody may look at."""

    def __iter__(self) -> Iterator[Table]:
        raise AssertionError("The rows were read.")


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
@pytest.mark.parametrize("group_column", [None, "site"])
def test_more_decision_points_than_fit_are_refused_before_anybody_counts(
    protocol: str, group_column: str | None
) -> None:
    study = Study.of(decision_points=60_000, models=("",), protocol=protocol, group_column=group_column)
    with pytest.raises(CapacityError, match="Use fewer decision points"):
        evaluate_study(study, [Untouchable()] * 3, engine=ClearEngine())


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_bands_of_probability_are_those_that_a_study_names(protocol: str) -> None:
    """A model that gives nobody more than a tenth: everybody would be in the first of ten stretches."""
    rng = np.random.default_rng(6)
    scores = np.ceil(rng.beta(1, 30, (3, 400)) * 500) / 500
    parties = [((rng.random(400) < own).astype(np.int64), own) for own in scores]
    labels, pooled = (np.concatenate(each) for each in zip(*parties, strict=True))
    bands = {"0-0.01": pooled <= 0.01, "0.01-0.02": (pooled > 0.01) & (pooled <= 0.02), "0.9-1": pooled > 0.9}
    asked = [f"{kind}:{band}" for band in bands for kind in ("observed", "expected", "o/e")]
    result = evaluate(parties, metrics=asked, protocol=protocol, engine=ClearEngine(), max_samples=1 << 11)
    found = {row.metric: row for row in result.results}
    for band, inside in bands.items():
        if not inside.any():
            assert "no sample is in this band" in str(found[f"observed:{band}"].error)
            continue
        observed, expected = labels[inside].mean(), pooled[inside].mean()
        assert found[f"observed:{band}"].value == pytest.approx(observed, abs=1e-4)
        assert found[f"expected:{band}"].value == pytest.approx(expected, abs=1e-4)
        assert found[f"o/e:{band}"].value == pytest.approx(observed / expected, abs=1e-3)


@pytest.mark.parametrize(
    "name", ["observed:0.2-0.1", "observed:0.1", "o/e:-0.1-0.2", "brier:0.1-0.2", "expected:0.1-1.2"]
)
def test_what_is_no_band_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"no band of probabilities|no metric"):
        Study.of(metrics=[name])


def test_the_expected_calibration_error_lies_between_bounds_that_are_told() -> None:
    rng = np.random.default_rng(7)
    scores = rng.random((3, 500))
    parties = [((rng.random(500) < own**2).astype(np.int64), own) for own in scores]
    options = {"engine": ClearEngine(), "max_samples": 1 << 11}
    told = evaluate(parties, metrics=["calibration-error"], **options).value("calibration-error")  # type: ignore[arg-type]
    curve = evaluate(parties, release="curve", allow_curves=True, **options).value("ece")  # type: ignore[arg-type]
    assert told <= curve <= told * 10**0.5
