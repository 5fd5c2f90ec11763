"""The truth that private evaluation is measured against: the AUC of everybody's samples in one place.

By scikit-learn it is exact. The AUC metric of TensorFlow (Keras), `tf.keras.metrics.AUC` with n thresholds, places them
at −ε, 1/(n−1), …, (n−2)/(n−1), 1 + ε with ε = 1e-7, and since they are evenly spaced it sorts scores into buckets:
bucket ⌈s·(n−1)⌉ − 1, or 0 for a score of 0, in single precision. A score counts as positive at threshold i when its
bucket is i or above. The area under the curve of rates is then summed by trapezoids ("interpolation"). `keras_auc` does
the same and keeps counts as integers, so that it differs from the metric by the rounding of its last steps to single
precision, about 1e-7.

All of them reveal every label and score to whoever computes them, and cost one sort, or one pass over the samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fheval.errors import ConfigError, UndefinedMetric
from fheval_lab.baselines.data import ANY_FINITE, Parties, Samples, check_parties, pool
from fheval_lab.baselines.optional import require

# The paper, after Sun et al., uses 1,000; Keras' own default is 200.
PAPER_THRESHOLDS = 1000


@dataclass(frozen=True, slots=True)
class PooledResult:
    """The AUC of pooled samples; `decision_points` is None for the exact value, `library` says who computed it."""

    auc: float
    samples: int
    parties: int
    decision_points: int | None
    library: str


def sklearn_auc(parties: Parties) -> PooledResult:
    """The exact AUC, ties included, by scikit-learn's `roc_auc_score` on the pooled samples.

    >>> sklearn_auc([([1, 0], [0.9, 0.4]), ([0, 1], [0.6, 0.5])]).auc
    0.75
    """
    pooled = _with_two_classes(check_parties(parties, ANY_FINITE))
    return PooledResult(
        float(roc_auc_score(pooled.labels, pooled.scores)), len(pooled), len(parties), None, "scikit-learn"
    )


def keras_auc(parties: Parties, thresholds: int = PAPER_THRESHOLDS) -> PooledResult:
    """What Keras' metric computes, in numpy.

    >>> keras_auc([([1, 0], [0.9, 0.4]), ([0, 1], [0.6, 0.5])]).auc
    0.75
    """
    pooled = _with_two_classes(_checked(parties, thresholds))
    scaled = pooled.scores.astype(np.float32) * np.float32(thresholds - 1)
    buckets = np.maximum(np.ceil(scaled) - 1, 0).astype(np.int64)
    true_positives = _at_or_above(buckets[pooled.labels == 1], thresholds)
    false_positives = _at_or_above(buckets[pooled.labels == 0], thresholds)
    # Thresholds rise with the index, so rates fall: a step to the right is previous minus next.
    heights = true_positives[:-1] + true_positives[1:]
    widths = false_positives[:-1] - false_positives[1:]
    area = sum(int(height) * int(width) for height, width in zip(heights, widths, strict=True))
    auc = area / (2 * int(true_positives[0]) * int(false_positives[0]))
    return PooledResult(auc, len(pooled), len(parties), thresholds, "numpy")


def tensorflow_auc(parties: Parties, thresholds: int = PAPER_THRESHOLDS) -> PooledResult:
    """The metric itself, updated with one party's samples after another."""
    checked = _checked(parties, thresholds)
    samples = len(_with_two_classes(checked))
    tensorflow = require(
        "tensorflow",
        baseline="TensorFlow's own AUC",
        install="pip install tensorflow-cpu (there is no wheel for every Python), or use keras_auc, which needs none",
    )
    metric = tensorflow.keras.metrics.AUC(num_thresholds=thresholds)
    for part in checked:
        metric.update_state(part.labels, part.scores)
    library = f"tensorflow {tensorflow.__version__}"
    return PooledResult(float(metric.result()), samples, len(parties), thresholds, library)


def _checked(parties: Parties, thresholds: int) -> list[Samples]:
    if thresholds < 2:
        raise ConfigError(f"Keras' AUC needs at least 2 thresholds, not {thresholds}. The paper uses 1000.")
    return check_parties(parties)


def _with_two_classes(checked: list[Samples]) -> Samples:
    """Pool the samples; raise `UndefinedMetric` unless both labels occur."""
    pooled = pool(checked)
    positives = int(pooled.labels.sum())
    if 0 < positives < len(pooled):
        return pooled
    missing = "1" if not positives else "0"
    raise UndefinedMetric(f"The AUC is undefined: no sample has label {missing}. Add data that has both classes.")


def _at_or_above(buckets: NDArray[np.int64], thresholds: int) -> NDArray[np.int64]:
    per_bucket = np.bincount(buckets, minlength=thresholds)
    counts: NDArray[np.int64] = np.cumsum(per_bucket[::-1], dtype=np.int64)[::-1]
    return counts
