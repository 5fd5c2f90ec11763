"""The AUC metric of TensorFlow (Keras): the real one where it is installed, and what it computes without it.

`tf.keras.metrics.AUC` with n thresholds places them at −ε, 1/(n−1), …, (n−2)/(n−1), 1 + ε with ε = 1e-7, and since
they are evenly spaced it sorts scores into buckets: bucket ⌈s·(n−1)⌉ − 1, or 0 for a score of 0, in single
precision. A score counts as positive at threshold i when its bucket is i or above. The area under the curve of
rates is then summed by trapezoids ("interpolation"). `keras_auc` does the same and keeps counts as integers, so
that it differs from the metric by the rounding of its last steps to single precision, about 1e-7.

Both reveal every label and score to whoever computes them, and cost one pass over the samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fheval.errors import ConfigError
from fheval_lab.baselines.data import Parties, Samples, check_parties, pool
from fheval_lab.baselines.optional import require
from fheval_lab.baselines.pooled import require_two_classes

# The paper, after Sun et al., uses 1,000; Keras' own default is 200.
PAPER_THRESHOLDS = 1000


@dataclass(frozen=True, slots=True)
class KerasResult:
    """The value of Keras' AUC metric on the pooled samples; `library` says who computed it."""

    auc: float
    thresholds: int
    samples: int
    parties: int
    library: str


def keras_auc(parties: Parties, thresholds: int = PAPER_THRESHOLDS) -> KerasResult:
    """What Keras' metric computes, in numpy.

    >>> keras_auc([([1, 0], [0.9, 0.4]), ([0, 1], [0.6, 0.5])]).auc
    0.75
    """
    checked = _checked(parties, thresholds)
    pooled = pool(checked)
    buckets = _buckets(pooled.scores, thresholds)
    true_positives = _at_or_above(buckets[pooled.labels == 1], thresholds)
    false_positives = _at_or_above(buckets[pooled.labels == 0], thresholds)
    # Thresholds rise with the index, so rates fall: a step to the right is previous minus next.
    heights = true_positives[:-1] + true_positives[1:]
    widths = false_positives[:-1] - false_positives[1:]
    area = sum(int(height) * int(width) for height, width in zip(heights, widths, strict=True))
    auc = area / (2 * int(true_positives[0]) * int(false_positives[0]))
    return _result(auc, thresholds, checked, library="numpy")


def tensorflow_auc(parties: Parties, thresholds: int = PAPER_THRESHOLDS) -> KerasResult:
    """The metric itself, updated with one party's samples after another."""
    checked = _checked(parties, thresholds)
    tensorflow = require(
        "tensorflow",
        baseline="TensorFlow's own AUC",
        install="pip install tensorflow-cpu (there is no wheel for every Python), or use keras_auc, which needs none",
    )
    metric = tensorflow.keras.metrics.AUC(num_thresholds=thresholds)
    for part in checked:
        metric.update_state(part.labels, part.scores)
    return _result(float(metric.result()), thresholds, checked, library=f"tensorflow {tensorflow.__version__}")


def _checked(parties: Parties, thresholds: int) -> list[Samples]:
    if thresholds < 2:
        raise ConfigError(f"Keras' AUC needs at least 2 thresholds, not {thresholds}. The paper uses 1000.")
    checked = check_parties(parties)
    require_two_classes(pool(checked))
    return checked


def _buckets(scores: NDArray[np.float64], thresholds: int) -> NDArray[np.int64]:
    scaled = scores.astype(np.float32) * np.float32(thresholds - 1)
    buckets: NDArray[np.int64] = np.maximum(np.ceil(scaled) - 1, 0).astype(np.int64)
    return buckets


def _at_or_above(buckets: NDArray[np.int64], thresholds: int) -> NDArray[np.int64]:
    per_bucket = np.bincount(buckets, minlength=thresholds)
    counts: NDArray[np.int64] = np.cumsum(per_bucket[::-1], dtype=np.int64)[::-1]
    return counts


def _result(auc: float, thresholds: int, checked: list[Samples], *, library: str) -> KerasResult:
    return KerasResult(
        auc=auc,
        thresholds=thresholds,
        samples=sum(len(part) for part in checked),
        parties=len(checked),
        library=library,
    )
