"""The pooled truth: exact, and as Keras' metric sees it."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from numpy.typing import NDArray

from fheval.errors import ConfigError, InputError, UndefinedMetric
from fheval_lab.baselines import optional
from fheval_lab.baselines.pooled import keras_auc, sklearn_auc, tensorflow_auc
from pairwise_auc import pairwise_auc
from published_data import published_file

WITH_TIES = [([1, 0, 0], [0.75, 0.5, 0.5]), ([1, 1, 0, 1], [0.5, 1.0, 0.75, 0.0])]

# Columns "scikit-learn" and "TensorFlow" of the paper's first two tables.
PRINTED = [
    ("_criteo_100", 0.765417, 0.764792),
    ("_criteo_1000", 0.752500, 0.752482),
    ("_criteo_10000", 0.746184, 0.746190),
    ("_criteo", 0.745416, 0.745416),
    ("_100", 0.891600, 0.891400),
    ("_1000", 0.938588, 0.938614),
    ("_10000", 0.911406, 0.911410),
    ("", 0.954052, 0.954020),
]


def spread_scores() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """500 samples on a grid of thousandths, 0 and 1 among them, so that scores fall on thresholds too."""
    index = np.arange(500)
    scores = (index * 7919 % 1001) / 1000
    return (index * 104729 % 97 < 40 + 30 * scores).astype(np.int64), scores


def test_sklearn_is_the_share_of_pairs_in_order() -> None:
    result = sklearn_auc(WITH_TIES)
    assert result.auc == pytest.approx(float(pairwise_auc(WITH_TIES)), abs=1e-15)
    assert (result.samples, result.parties, result.decision_points) == (7, 2, None)


def test_sklearn_takes_logits() -> None:
    logits = [([1, 0], [3.5, -2.0]), ([0, 1], [3.5, 40.0])]
    assert sklearn_auc(logits).auc == pytest.approx(float(pairwise_auc(logits)), abs=1e-15)


@pytest.mark.parametrize("baseline", [sklearn_auc, keras_auc])
def test_one_class_has_no_auc(baseline: object) -> None:
    assert callable(baseline)
    with pytest.raises(UndefinedMetric, match="no sample has label 1"):
        baseline([([0, 0], [0.1, 0.2]), ([0], [0.3])])


@pytest.mark.parametrize("baseline", [sklearn_auc, keras_auc])
def test_bad_data_is_named_by_party_and_row(baseline: object) -> None:
    assert callable(baseline)
    with pytest.raises(InputError, match="party 2, row 3"):
        baseline([([0, 1], [0.1, 0.2]), ([0, 1, 2], [0.3, 0.4, 0.5])])


@pytest.mark.parametrize("baseline", [sklearn_auc, keras_auc])
@pytest.mark.parametrize("parties", [[], [([], [])]])
def test_no_data_is_refused(baseline: object, parties: list[tuple[list[int], list[float]]]) -> None:
    assert callable(baseline)
    with pytest.raises(InputError):
        baseline(parties)


# Measured with tf.keras.metrics.AUC of tensorflow-cpu 2.21.0 on `spread_scores()`.
@pytest.mark.parametrize(
    ("thresholds", "measured"),
    [
        (2, 0.5),
        (3, 0.5776664018630981),
        (11, 0.6052886247634888),
        (200, 0.6059028506278992),
        (1000, 0.6059027910232544),
    ],
)
def test_keras_metric_is_met_to_single_precision(thresholds: int, measured: float) -> None:
    labels, scores = spread_scores()
    split = [(labels[start::3], scores[start::3]) for start in range(3)]
    assert keras_auc(split, thresholds).auc == pytest.approx(measured, abs=1e-7)


def test_keras_metric_needs_two_thresholds() -> None:
    with pytest.raises(ConfigError, match="at least 2 thresholds"):
        keras_auc(WITH_TIES, thresholds=1)


@pytest.mark.parametrize(("suffix", "sklearn", "tensorflow"), PRINTED)
def test_printed_columns(suffix: str, sklearn: float, tensorflow: float) -> None:
    labels = np.loadtxt(published_file(f"labels{suffix}.txt"))
    scores = np.loadtxt(published_file(f"pred_cons{suffix}.txt"))
    # Some entries are rounded to six digits, others cut off.
    assert sklearn_auc([(labels, scores)]).auc == pytest.approx(sklearn, abs=1e-6)
    assert keras_auc([(labels, scores)]).auc == pytest.approx(tensorflow, abs=1e-6)


def test_without_tensorflow_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"not installed\. Install it: pip install tensorflow-cpu .*keras_auc"):
        tensorflow_auc(WITH_TIES)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("thresholds", [2, 3, 11, 200, 1000])
def test_tensorflow_agrees(thresholds: int) -> None:
    parties = [spread_scores(), (np.array([0, 1]), np.array([0.0, 1.0]))]
    real = tensorflow_auc(parties, thresholds)
    assert keras_auc(parties, thresholds).auc == pytest.approx(real.auc, abs=2e-7)
