"""The metrics, one entry each: what is counted, which ratio it makes, how it is finished, what it reveals.

Every metric is defined as in scikit-learn, on the pooled data. Where a threshold calls a sample positive, its score is
strictly above it, as in counting at decision points. Where scikit-learn warns and puts in a number for 0/0, the metric
is undefined here.

A linear count is made bilinear by a second factor that cancels: a/b is released as (a·b)/(b·b).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fheval.counting import Grid
from fheval.metrics.finishing import Finisher
from fheval.metrics.fixed_point import BITS, LARGEST_LOG_LOSS, RESOLUTION, Integers
from fheval.metrics.forms import Form, auc_form
from fheval.metrics.statistics import BinCounts, Confusion, Errors, Losses, Statistic

# Two tables of integers, a line for each resample and a column for each product of the form.
Sides = tuple[Integers, Integers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a metric needs to know beside the data, all of it public.

    `cut` is the threshold on the scale of the scores, `targets` the range that true and predicted values lie in.
    """

    grid: Grid
    cut: float = 0.0
    targets: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    `form` takes the number of decision points and the largest weighted number of samples, `sides` what was counted.
    `undefined` completes the sentence "It is undefined: …".
    """

    name: str
    title: str
    counted: Callable[[Setting], Statistic]
    form: Callable[[int, int], Form]
    sides: Callable[[Integers], Sides]
    undefined: str
    reveals: str
    finish: Callable[[Setting], Finisher] = lambda _: Finisher()
    threshold: bool = False
    probabilities: bool = False
    targets: bool = False


def _columns(*columns: Integers) -> Integers:
    return np.stack(columns, axis=1)


def _share_of(part: Integers, whole: Integers) -> Sides:
    return _columns(part, whole), _columns(whole, whole)


def _share_form(_: int, samples: int) -> Form:
    return Form.bounded(numerator=1, denominator=1, bound=samples * samples)


def _auc_sides(counted: Integers) -> Sides:
    positives, negatives = np.split(counted, 2, axis=1)
    # T^n = TP^n + TP^{n−1}, twice the running total less the last step.
    t = 2 * np.cumsum(positives, axis=1) - positives
    p, q = positives.sum(axis=1, keepdims=True), negatives.sum(axis=1, keepdims=True)
    return np.hstack([t, p]), np.hstack([negatives, 2 * q])


def _f1_sides(counted: Integers) -> Sides:
    tp, fp, fn, _ = counted.T
    samples, whole = counted.sum(axis=1), 2 * tp + fp + fn
    return _columns(2 * tp, whole), _columns(samples, samples)


def _both_rates(counted: Integers, twice: int) -> Sides:
    """TP·Q + TN·P over twice·P·Q."""
    tp, fp, fn, tn = counted.T
    positives, negatives = tp + fn, fp + tn
    return _columns(tp, tn, positives), _columns(negatives, positives, twice * negatives)


def _mean(counted: Integers) -> Sides:
    samples, total = counted[:, 0], counted[:, 1]
    return _columns(total, samples), _columns(samples, samples << BITS)


def _mean_square_sides(counted: Integers) -> Sides:
    samples, high, low = counted[:, 0], counted[:, 2], counted[:, 3]
    fine = samples << BITS
    return _columns(high, low, fine), _columns(fine, samples, fine)


def _unexplained_sides(counted: Integers) -> Sides:
    """n·Σe² over n·Σy² − (Σy)²."""
    samples, _, high, low, total, total_high, total_low = counted.T
    fine = samples << BITS
    return _columns(high, low, total_high, total_low, -total), _columns(fine, samples, fine, samples, total)


_EXACTLY = "an exact release is a fraction whose denominator divides "
_AT_A_THRESHOLD = "how many samples are counted stays hidden; " + _EXACTLY

_ENTRIES = (
    Metric(
        name="auc",
        title="area under the ROC curve",
        counted=lambda setting: BinCounts(setting.grid),
        form=auc_form,
        sides=_auc_sides,
        undefined="the samples are of one class only",
        reveals=_AT_A_THRESHOLD + "twice the positives times the negatives",
    ),
    Metric(
        name="accuracy",
        title="accuracy",
        counted=lambda setting: Confusion(setting.cut),
        form=_share_form,
        sides=lambda c: _share_of(c[:, 0] + c[:, 3], c.sum(axis=1)),
        undefined="there are no samples",
        reveals=_AT_A_THRESHOLD + "the number of samples",
        threshold=True,
    ),
    Metric(
        name="precision",
        title="precision, or positive predictive value",
        counted=lambda setting: Confusion(setting.cut),
        form=_share_form,
        sides=lambda c: _share_of(c[:, 0], c[:, 0] + c[:, 1]),
        undefined="no sample scores above the threshold",
        reveals=_AT_A_THRESHOLD + "the number of samples above the threshold",
        threshold=True,
    ),
    Metric(
        name="recall",
        title="recall, or sensitivity",
        counted=lambda setting: Confusion(setting.cut),
        form=_share_form,
        sides=lambda c: _share_of(c[:, 0], c[:, 0] + c[:, 2]),
        undefined="no sample is positive",
        reveals=_AT_A_THRESHOLD + "the number of positives",
        threshold=True,
    ),
    Metric(
        name="specificity",
        title="specificity",
        counted=lambda setting: Confusion(setting.cut),
        form=_share_form,
        sides=lambda c: _share_of(c[:, 3], c[:, 1] + c[:, 3]),
        undefined="no sample is negative",
        reveals=_AT_A_THRESHOLD + "the number of negatives",
        threshold=True,
    ),
    Metric(
        name="npv",
        title="negative predictive value",
        counted=lambda setting: Confusion(setting.cut),
        form=_share_form,
        sides=lambda c: _share_of(c[:, 3], c[:, 2] + c[:, 3]),
        undefined="every sample scores above the threshold",
        reveals=_AT_A_THRESHOLD + "the number of samples at or below the threshold",
        threshold=True,
    ),
    Metric(
        name="f1",
        title="F1 score",
        counted=lambda setting: Confusion(setting.cut),
        form=lambda _, samples: Form.bounded(numerator=1, denominator=1, bound=2 * samples * samples),
        sides=_f1_sides,
        undefined="no sample is positive and none scores above the threshold",
        reveals=_AT_A_THRESHOLD + "2·TP + FP + FN",
        threshold=True,
    ),
    Metric(
        name="balanced-accuracy",
        title="balanced accuracy",
        counted=lambda setting: Confusion(setting.cut),
        form=lambda _, samples: Form.bounded(numerator=2, denominator=1, bound=samples * samples // 2),
        sides=lambda c: _both_rates(c, 2),
        undefined="the samples are of one class only",
        reveals=_AT_A_THRESHOLD + "twice the positives times the negatives",
        threshold=True,
    ),
    Metric(
        name="youden-j",
        title="Youden's J",
        counted=lambda setting: Confusion(setting.cut),
        form=lambda _, samples: Form.bounded(numerator=2, denominator=1, bound=samples * samples // 2, proper=False),
        sides=lambda c: _both_rates(c, 1),
        finish=lambda _: Finisher(offset=-1.0),
        undefined="the samples are of one class only",
        reveals=_AT_A_THRESHOLD + "the positives times the negatives",
        threshold=True,
    ),
    Metric(
        name="brier",
        title="Brier score",
        counted=lambda setting: Losses("brier", setting.grid.scores == "logit"),
        form=lambda _, samples: Form.bounded(numerator=1, denominator=1, bound=samples * samples << BITS),
        sides=_mean,
        finish=lambda _: Finisher(resolution=RESOLUTION),
        undefined="there are no samples",
        reveals=_AT_A_THRESHOLD + "2^24 times the number of samples",
        probabilities=True,
    ),
    Metric(
        name="log-loss",
        title="log loss",
        counted=lambda setting: Losses("log-loss", setting.grid.scores == "logit"),
        form=lambda _, samples: Form.bounded(
            numerator=1, denominator=1, bound=LARGEST_LOG_LOSS * samples * samples << BITS, proper=False
        ),
        sides=_mean,
        finish=lambda _: Finisher(resolution=RESOLUTION),
        undefined="there are no samples",
        reveals=_AT_A_THRESHOLD + "2^24 times the number of samples",
        probabilities=True,
    ),
    Metric(
        name="mae",
        title="mean absolute error",
        counted=lambda setting: Errors(*setting.targets),
        form=lambda _, samples: Form.bounded(numerator=1, denominator=1, bound=samples * samples << BITS),
        sides=_mean,
        finish=lambda setting: Finisher(scale=_span(setting), resolution=2 * RESOLUTION),
        undefined="there are no samples",
        reveals=_AT_A_THRESHOLD + "2^24 times the number of samples",
        targets=True,
    ),
    Metric(
        name="rmse",
        title="root mean squared error",
        counted=lambda setting: Errors(*setting.targets),
        form=lambda _, samples: Form.bounded(numerator=2, denominator=1, bound=samples * samples << 2 * BITS),
        sides=_mean_square_sides,
        finish=lambda setting: Finisher(scale=_span(setting), root=True, resolution=2 * RESOLUTION),
        undefined="there are no samples",
        reveals="the mean squared error; " + _EXACTLY + "2^48 times the number of samples",
        targets=True,
    ),
    Metric(
        name="r2",
        title="coefficient of determination, R²",
        counted=lambda setting: Errors(*setting.targets),
        form=lambda _, samples: Form.bounded(
            numerator=2, denominator=3, bound=samples * samples << 2 * BITS, proper=False
        ),
        sides=_unexplained_sides,
        finish=lambda _: Finisher(offset=1.0, scale=-1.0),
        undefined="all true values are equal, or there are none",
        reveals=_AT_A_THRESHOLD + "the number of samples times the sum of squares about the mean, in fixed point",
        targets=True,
    ),
)

METRICS = {metric.name: metric for metric in _ENTRIES}


def _span(setting: Setting) -> float:
    low, high = setting.targets
    return high - low
