"""Every metric as scikit-learn, statsmodels and lifelines compute it on pooled data; None where it is undefined.

The last two are imported where they are needed: they take seconds to load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.calibration import calibration_curve

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


def _fbeta(beta: float) -> Callable[[Labels, Labels], float | None]:
    return lambda y, called: float(metrics.fbeta_score(y, called, beta=beta)) if (y | called).any() else None


def _kappa(y: Labels, called: Labels) -> float | None:
    return float(metrics.cohen_kappa_score(y, called)) if len(np.unique(np.append(y, called))) > 1 else None


def _cells(y: Labels, called: Labels) -> tuple[int, int, int, int]:
    tn, fp, fn, tp = metrics.confusion_matrix(y, called, labels=[0, 1]).ravel().tolist() if len(y) else [0] * 4
    return tp, fp, fn, tn


def _lift(y: Labels, called: Labels) -> float | None:
    tp, fp, fn, _ = _cells(y, called)
    return (tp / (tp + fp)) / ((tp + fn) / len(y)) if tp + fp and tp + fn else None


def _likelihood(y: Labels, called: Labels, *, positive: bool) -> float | None:
    """scikit-learn's where no cell is empty; it warns of others, some of which have a value."""
    tp, fp, fn, tn = _cells(y, called)
    if min(tp, fp, fn, tn):
        return float(metrics.class_likelihood_ratios(y, called)[0 if positive else 1])
    part, other = (tp, fp) if positive else (fn, tn)
    return (part / (tp + fn)) / (other / (fp + tn)) if tp + fn and other else None


def _odds_ratio(y: Labels, called: Labels) -> float | None:
    """statsmodels' where no cell is empty; it has no value for others, some of which have one."""
    tp, fp, fn, tn = _cells(y, called)
    if min(tp, fp, fn, tn):
        from statsmodels.stats.contingency_tables import Table2x2

        return float(Table2x2(np.array([[tp, fp], [fn, tn]])).oddsratio)
    return 0.0 if fp and fn else None


def _net_benefit(y: Labels, s: Values, threshold: float) -> float | None:
    tp, fp, _, _ = _cells(y, (s > threshold).astype(np.int64))
    return tp / len(y) - fp / len(y) * threshold / (1 - threshold) if len(y) else None


def _observed_expected(y: Labels, s: Values) -> float | None:
    # What is below half a unit of the fixed point counts as nothing.
    return float(y.sum() / s.sum()) if np.rint(s * 2.0**24).any() else None


def _scaled_brier(y: Labels, s: Values) -> float | None:
    prevalence = y.mean() if len(y) else 0.0
    return float(1 - np.mean((s - y) ** 2) / (prevalence * (1 - prevalence))) if 0 < prevalence < 1 else None


def _stretch(name: str, number: int) -> Callable[[Labels, Values], float | None]:
    """Observed share or mean probability of the samples in ]number/10 − 0.1, number/10], the first one closed."""

    def of(y: Labels, s: Values) -> float | None:
        inside = np.searchsorted(np.arange(1, 10) / 10, s) == number - 1
        if not inside.any():
            return None
        # It leaves out stretches that nobody is in, and one stretch is what is in it.
        ((observed,), (expected,)) = calibration_curve(y[inside], s[inside], n_bins=10)
        return float(observed if name == "observed" else expected)

    return of


def _over_expected(number: int) -> Callable[[Labels, Values], float | None]:
    def of(y: Labels, s: Values) -> float | None:
        observed, expected = (_stretch(name, number)(y, s) for name in ("observed", "expected"))
        # What is below half a unit of the fixed point counts as nothing.
        rounded = np.rint(s[np.searchsorted(np.arange(1, 10) / 10, s) == number - 1] * 2.0**20)
        return None if observed is None or expected is None or not rounded.any() else observed / expected

    return of


def _calibration_error(y: Labels, s: Values) -> float | None:
    """The root of the sum of squares whose sum is the expected calibration error."""
    inside = np.searchsorted(np.arange(1, 10) / 10, s)
    return sqrt(sum((y[inside == b].sum() - s[inside == b].sum()) ** 2 for b in range(10))) / len(y) if len(y) else None


def _brier(y: Labels, s: Values) -> float | None:
    return float(metrics.brier_score_loss(y, s, pos_label=1)) if len(y) else None


def _log_loss(y: Labels, s: Values) -> float | None:
    return float(metrics.log_loss(y, s, labels=[0, 1])) if len(y) else None


def _mean(_: Values, s: Values) -> float | None:
    return float(s.mean()) if len(s) else None


def _mae(y: Values, s: Values) -> float | None:
    return float(metrics.mean_absolute_error(y, s)) if len(y) else None


def _rmse(y: Values, s: Values) -> float | None:
    return float(metrics.root_mean_squared_error(y, s)) if len(y) else None


def _r2(y: Values, s: Values) -> float | None:
    return float(metrics.r2_score(y, s)) if len(np.unique(y)) > 1 else None


def _concordance(signed: Values, s: Values) -> float | None:
    """Harrell's C of times that have a minus where there was no event."""
    from lifelines.utils import concordance_index

    times, event = np.abs(signed), signed > 0
    longer = (times[None, :] > times[:, None]) | ((times[None, :] == times[:, None]) & ~event[None, :])
    return float(concordance_index(times, -s, event)) if (event[:, None] & longer).any() else None


def _own_auc(y: Labels, s: Values) -> tuple[float, float]:
    """A party's AUC and its variance after DeLong, over all pairs, which is not taken for less than 1/(256·n)."""
    above = s[y == 1][:, None] - s[y == 0][None, :]
    kernel = (above > 0) + 0.5 * (above == 0)
    variance = kernel.mean(axis=1).var(ddof=1) / len(kernel) + kernel.mean(axis=0).var(ddof=1) / kernel.shape[1]
    return float(metrics.roc_auc_score(y, s)), max(float(variance), 1 / (256 * len(y)))


def among_parties(metric: str, parties: Sequence[tuple[NDArray[np.generic], Values]]) -> float | None:
    """How much parties' own AUCs differ, by a meta-analysis with fixed effects; a class of one sample is too small."""
    from statsmodels.stats.meta_analysis import combine_effects

    labelled = [(y.astype(np.int64), s) for y, s in parties]
    own = [_own_auc(y, s) for y, s in labelled if min(y.sum(), len(y) - y.sum()) > 1]
    if not own:
        return None
    aucs, variances = np.array(own).T
    weights = 1 / variances
    if len(np.unique(aucs)) == 1:
        # statsmodels divides by the spread.
        mean, q = float(aucs[0]), 0.0
    else:
        found = combine_effects(aucs, variances)
        mean, q = float(found.mean_effect_fe), float(found.q)
    if metric == "auc-mean":
        return mean
    if metric == "auc-spread":
        return sqrt(max(q, 0.0) / weights.sum())
    # Where a party has no AUC of its own, what chance explains is taken for a little more.
    chance = len(own) * (len(parties) - 1) / len(parties)
    return max(0.0, 1 - chance / q) if q > 0 else 0.0


AT_THRESHOLD: dict[str, Callable[[Labels, Labels], float | None]] = {
    "accuracy": _accuracy,
    "precision": _precision,
    "recall": _recall,
    "specificity": _specificity,
    "npv": _npv,
    "f1": _f1,
    "f2": _fbeta(2.0),
    "f0.5": _fbeta(0.5),
    "kappa": _kappa,
    "lift": _lift,
    "lr+": partial(_likelihood, positive=True),
    "lr-": partial(_likelihood, positive=False),
    "dor": _odds_ratio,
    "balanced-accuracy": _balanced,
    "youden-j": _youden,
}
OF_SCORES: dict[str, Callable[[Labels, Values], float | None]] = {
    "auc": _auc,
    "brier": _brier,
    "log-loss": _log_loss,
    "o/e": _observed_expected,
    "scaled-brier": _scaled_brier,
    "calibration-error": _calibration_error,
    **{f"o/e:{number}": _over_expected(number) for number in range(1, 11)},
    **{f"{name}:{number}": _stretch(name, number) for name in ("observed", "expected") for number in range(1, 11)},
}
OF_VALUES: dict[str, Callable[[Values, Values], float | None]] = {
    "concordance": _concordance,
    "mean": _mean,
    "mae": _mae,
    "rmse": _rmse,
    "r2": _r2,
}


AMONG_PARTIES = ("auc-mean", "auc-spread", "auc-i2")
KNOWN = {*AT_THRESHOLD, *OF_SCORES, *OF_VALUES, *AMONG_PARTIES, "net-benefit"}


def pooled(metric: str, y: NDArray[np.generic], s: Values) -> float | None:
    """A metric such as "f1@0.3" on labels, or true values, and scores, or predictions."""
    name, _, threshold = metric.partition("@")
    if name in OF_VALUES:
        return OF_VALUES[name](y.astype(np.float64), s)
    labels = y.astype(np.int64)
    if name in OF_SCORES:
        return OF_SCORES[name](labels, s)
    if name == "net-benefit":
        return _net_benefit(labels, s, float(threshold))
    return AT_THRESHOLD[name](labels, (s > float(threshold)).astype(np.int64))


def resolution(metric: str, y: NDArray[np.generic], s: Values) -> float:
    """How far fixed-point counting may take a metric from its value on these rows."""
    if metric == "calibration-error":
        # Half a unit of each probability, in all stretches.
        return 2.0**-20
    if metric.startswith("o/e:"):
        inside = s[np.searchsorted(np.arange(1, 10) / 10, s) == int(metric[4:]) - 1]
        off = len(inside) * 2.0**-21
        expected = float(inside.sum())
        return float(len(inside)) * off / expected / max(expected - off, 2.0**-21) if expected else 0.0
    if metric.startswith("expected"):
        return 2.0**-20
    if metric == "scaled-brier":
        return 2.0**-24 * len(y) ** 2
    if metric == "o/e":
        # Each probability is off by half a unit at most.
        expected, off = float(s.sum()), len(s) * 2.0**-25
        return float(y.sum()) * off / expected / max(expected - off, 2.0**-25) if expected else 0.0
    return 2.0**-24 * (4 if metric.startswith("net-benefit") else 1)
