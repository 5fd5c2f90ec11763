"""How much faster counting is than sorting: both measured in one run, on the same arrays."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from fheval.counting import Counts
from fheval.secrets import SEED_BYTES, Secret, bits, derive, symmetric_floats

# Counting takes a fraction of a second, so that one hiccup of the machine would count; the best of a few does not.
REPEATS = 5


def counting_speedup(samples: int = 10**7, decision_points: int = 1000) -> dict[str, float]:
    """Time `Counts.from_scores` and its AUC against `sklearn.metrics.roc_auc_score`, one thread each.

    The counting time is the best of five; scikit-learn runs once, after a run on few samples that pays for its
    imports.

    >>> measured = counting_speedup(samples=10_000, decision_points=100)
    >>> measured["samples"], measured["speedup"] > 0, abs(measured["difference"]) < 1e-3
    (10000, True, True)
    """
    from sklearn.metrics import roc_auc_score

    stream = derive(Secret(bytes(SEED_BYTES)), "bench/counting")
    labels = bits(stream, samples).astype(np.int64)
    scores = 0.2 * labels + 0.4 * (1.0 + symmetric_floats(stream, 1.0, samples))
    roc_auc_score(labels[:1000], scores[:1000])
    counting = [_timed(lambda: Counts.from_scores(labels, scores, decision_points).auc()) for _ in range(REPEATS)]
    sorting_seconds, exact = _timed(lambda: float(roc_auc_score(labels, scores)))
    counting_seconds, binned = min(counting)
    return {
        "samples": samples,
        "decision_points": decision_points,
        "counting_seconds": counting_seconds,
        "sklearn_seconds": sorting_seconds,
        "speedup": sorting_seconds / counting_seconds,
        "difference": binned - exact,
    }


def _timed(work: Callable[[], float]) -> tuple[float, float]:
    start = perf_counter()
    result = work()
    return perf_counter() - start, result
