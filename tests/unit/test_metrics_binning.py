"""The error beside every AUC: what counting at decision points may have done to it, and never less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import metrics_oracle
from fheval import Grid, Result, Table, evaluate
from fheval.report.wording import binning_in_words, shown_with_binning
from fheval_lab.clear import ClearEngine

ENGINE = ClearEngine()
Party = tuple[NDArray[np.int64], NDArray[np.float64]]


def rows(kind: str, seed: int, count: int = 400) -> Party:
    """Scores that binning treats badly, each kind in its own way."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(count) < 0.1).astype(np.int64)
    labels[:2] = 0, 1
    logits = rng.normal(size=count) + 1.5 * labels
    scores = {
        "crowded at zero": 1e-3 / (1 + np.exp(-logits)),
        "crowded at one": 1 - 1e-9 / (1 + np.exp(logits)),
        "all in one bin, upside down": np.where(labels, 0.5001, 0.5002),
        "all in one bin": np.where(labels, 0.5002, 0.5001),
        "all equal": np.full(count, 0.3),
        "ties": np.round(1 / (1 + np.exp(-logits)), 1),
        "perfect": np.where(labels, 0.9, 0.1),
        "float32": (1 / (1 + np.exp(-logits))).astype(np.float32).astype(np.float64),
    }[kind]
    return labels, scores


KINDS = [
    "crowded at zero", "crowded at one", "all in one bin, upside down", "all in one bin", "all equal", "ties",
    "perfect", "float32",
]  # fmt: skip


def of_parties(kind: str, **asked: Any) -> tuple[Result, float]:
    """What is released, and the AUC of the pooled scores themselves."""
    parties = [rows(kind, seed) for seed in range(3)]
    truth = metrics_oracle.pooled("auc", *(np.concatenate(each) for each in zip(*parties, strict=True)))
    assert truth is not None
    return evaluate(parties, engine=ENGINE, **asked), truth


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grid", [Grid.even(20), Grid.logit(20), Grid.even(2), None], ids=str)
@pytest.mark.parametrize("asked", [{}, {"precision": 1e-2}, {"precision": "exact"}, {"protocol": "padded-verified"}])
def test_the_auc_of_the_scores_lies_within_binning_and_precision(
    kind: str, grid: Grid | None, asked: dict[str, Any]
) -> None:
    result, truth = of_parties(kind, decision_points=grid, **asked)
    width = 0.0 if result.precision == "exact" else float(result.precision)
    assert result.binning is not None
    assert abs(result.auc - truth) <= result.binning + width + 1e-12


def test_the_bound_is_reached() -> None:
    """All pairs of positives and negatives within one bin, and all of them the wrong way round."""
    result, truth = of_parties("all in one bin, upside down", decision_points=Grid.even(20), precision="exact")
    assert (result.auc, truth, result.binning) == (0.5, 0.0, 0.5)


def test_its_own_rounding_is_added_to_it() -> None:
    """The release rounds the error as well, at times to too little: what is shown never is."""
    exact, _ = of_parties("float32", decision_points=20, precision="exact")
    assert exact.binning is not None
    for _ in range(20):
        rounded, _ = of_parties("float32", decision_points=20, precision=1e-2)
        assert rounded.binning is not None
        assert exact.binning <= rounded.binning <= exact.binning + 1.02e-2


def test_nothing_is_left_open_where_every_score_is_a_decision_point() -> None:
    result, truth = of_parties("perfect", decision_points=11, precision="exact")
    assert (result.auc, result.binning) == (truth, 0.0)


@pytest.mark.parametrize("protocol", ["paper-semi-honest", "paper-malicious"])
def test_a_protocol_of_one_number_says_that_the_error_is_unknown(protocol: str) -> None:
    result, _ = of_parties("float32", decision_points=20, protocol=protocol)
    assert result.binning is None
    assert result.to_dict()["binning"] is None
    assert "is not known" in str(binning_in_words(result))


def test_models_classes_intervals_and_averages_have_theirs() -> None:
    names = np.array(["a", "b", "c"])
    tables = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scores = {model: rng.random((90, 3)) for model in ("old", "new")}
        tables.append(Table.of(names[rng.integers(0, 3, 90)], scores))
    result = evaluate(
        tables,
        classes=names.tolist(),
        metrics=["auc", "recall@0.3"],
        ci=0.8,
        replicates=20,
        decision_points=10,
        engine=ENGINE,
    )
    found = {(row.metric, row.model, row.label): row.binning for row in result.results}
    assert found["recall@0.3", "old", "a"] is None
    for model in ("old", "new"):
        of_classes = [found["auc", model, name] for name in names]
        assert found["auc", model, "macro"] == pytest.approx(np.mean(of_classes))  # type: ignore[arg-type]
    both = found["auc", "old", "a"], found["auc", "new", "a"]
    assert None not in both
    assert found["auc", "old - new", "a"] == sum(both)  # type: ignore[arg-type]


def test_a_curve_gives_the_same_error() -> None:
    curve, _ = of_parties("float32", decision_points=20, release="curve", allow_curves=True)
    ratio, _ = of_parties("float32", decision_points=20, precision="exact")
    assert curve.binning == ratio.binning


def test_in_words_where_it_exceeds_the_rounding_and_not_elsewhere() -> None:
    coarse, _ = of_parties("float32", decision_points=5)
    assert "Use more decision points" in str(binning_in_words(coarse))
    assert " ± 0." in shown_with_binning(coarse)
    fine, _ = of_parties("perfect", decision_points=11)
    assert binning_in_words(fine) is None
    assert shown_with_binning(fine).endswith(" ± 0.0001")
