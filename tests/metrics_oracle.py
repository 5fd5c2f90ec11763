"""Every metric as scikit-learn computes it on pooled data; None where its denominator is zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

Labels = NDArray[np.int64]
Values = NDArray[np.float64]


def _one_class(y: Labels) -> bool:
    return len(np.unique(y)) < 2


def _auc(y: Labels, s: Values) -> float | None:
    return None if _one_class(y) else float(metrics.roc_auc_score(y, s))


def _accuracy(y: Labels, called: Labels) -> float | None:
    return float(metrics.accuracy_score(y, called)) if len(y) else None


def _precision(y: Labels, called: Labels) -> float | None:
    return float(metrics.precision_score(y, called)) if (called == 1).any() else None


def _recall(y: Labels, called: Labels) -> float | None:
    return float(metrics.recall_score(y, called)) if (y == 1).any() else None


def _specificity(y: Labels, called: Labels) -> float | None:
    return float(metrics.recall_score(y, called, pos_label=0)) if (y == 0).any() else None


def _npv(y: Labels, called: Labels) -> float | None:
    return float(metrics.precision_score(y, called, pos_label=0)) if (called == 0).any() else None


def _f1(y: Labels, called: Labels) -> float | None:
    return float(metrics.f1_score(y, called)) if (y | called).any() else None


def _balanced(y: Labels, called: Labels) -> float | None:
    return None if _one_class(y) else float(metrics.balanced_accuracy_score(y, called))


def _youden(y: Labels, called: Labels) -> float | None:
    return None if _one_class(y) else float(metrics.balanced_accuracy_score(y, called, adjusted=True))


def _brier(y: Labels, s: Values) -> float | None:
    return float(metrics.brier_score_loss(y, s, pos_label=1)) if len(y) else None


def _log_loss(y: Labels, s: Values) -> float | None:
    return float(metrics.log_loss(y, s, labels=[0, 1])) if len(y) else None


def _mae(y: Values, s: Values) -> float | None:
    return float(metrics.mean_absolute_error(y, s)) if len(y) else None


def _rmse(y: Values, s: Values) -> float | None:
    return float(metrics.root_mean_squared_error(y, s)) if len(y) else None


def _r2(y: Values, s: Values) -> float | None:
    return float(metrics.r2_score(y, s)) if len(np.unique(y)) > 1 else None


AT_THRESHOLD: dict[str, Callable[[Labels, Labels], float | None]] = {
    "accuracy": _accuracy,
    "precision": _precision,
    "recall": _recall,
    "specificity": _specificity,
    "npv": _npv,
    "f1": _f1,
    "balanced-accuracy": _balanced,
    "youden-j": _youden,
}
OF_SCORES: dict[str, Callable[[Labels, Values], float | None]] = {"auc": _auc, "brier": _brier, "log-loss": _log_loss}
OF_VALUES: dict[str, Callable[[Values, Values], float | None]] = {"mae": _mae, "rmse": _rmse, "r2": _r2}


def pooled(metric: str, y: NDArray[np.generic], s: Values) -> float | None:
    """A metric such as "f1@0.3" on labels, or true values, and scores, or predictions."""
    name, _, threshold = metric.partition("@")
    if name in OF_VALUES:
        return OF_VALUES[name](y.astype(np.float64), s)
    labels = y.astype(np.int64)
    if name in OF_SCORES:
        return OF_SCORES[name](labels, s)
    return AT_THRESHOLD[name](labels, (s > float(threshold)).astype(np.int64))
