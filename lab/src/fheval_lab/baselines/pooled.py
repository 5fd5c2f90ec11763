"""The truth that private evaluation is measured against: the AUC of everybody's samples in one place.

It reveals every label and score to whoever computes it, and costs one sort, or one pass over the samples.
"""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.metrics import roc_auc_score

from fheval.counting.counts import Counts
from fheval.counting.grid import Grid
from fheval.errors import UndefinedMetric
from fheval_lab.baselines.data import ANY_FINITE, Parties, Samples, check_parties, pool


@dataclass(frozen=True, slots=True)
class PooledResult:
    """The AUC of pooled samples; `decision_points` is None for the exact value."""

    auc: float
    samples: int
    parties: int
    decision_points: int | None


def sklearn_auc(parties: Parties) -> PooledResult:
    """The exact AUC, ties included, by scikit-learn's `roc_auc_score` on the pooled samples.

    >>> sklearn_auc([([1, 0], [0.9, 0.4]), ([0, 1], [0.6, 0.5])]).auc
    0.75
    """
    checked = check_parties(parties, ANY_FINITE)
    pooled = pool(checked)
    require_two_classes(pooled)
    return PooledResult(
        auc=float(roc_auc_score(pooled.labels, pooled.scores)),
        samples=len(pooled),
        parties=len(checked),
        decision_points=None,
    )


def trapezoid_auc(parties: Parties, decision_points: int | Grid = 1000) -> PooledResult:
    """The trapezoidal AUC of pooled counts: what the protocols compute without pooling.

    >>> trapezoid_auc([([1, 0], [0.9, 0.4]), ([0, 1], [0.6, 0.5])], decision_points=11).auc
    0.75
    """
    counts = Counts.zero(decision_points)
    for number, (labels, scores) in enumerate(parties, start=1):
        counts += Counts.from_scores(labels, scores, decision_points, source=f"party {number}")
    return PooledResult(
        auc=counts.auc(), samples=counts.samples, parties=len(parties), decision_points=len(counts.grid)
    )


def require_two_classes(pooled: Samples) -> None:
    """Raise `UndefinedMetric` unless both labels occur."""
    positives = int(pooled.labels.sum())
    if 0 < positives < len(pooled):
        return
    missing = "1" if not positives else "0"
    raise UndefinedMetric(f"The AUC is undefined: no sample has label {missing}. Add data that has both classes.")
