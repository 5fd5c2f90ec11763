"""The metrics, one entry each: what is counted, which ratio it makes, how it is finished, when it is undefined.

Every metric is defined as in scikit-learn, on the pooled data. Where a threshold calls a sample positive, its score is
strictly above it, as in counting at decision points. Where scikit-learn warns and puts in a number for 0/0, the metric
is undefined here.

A linear count is made bilinear by a second factor that cancels: a/b is released as (a·b)/(b·b).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from math import sqrt
from typing import NamedTuple

import numpy as np

from fheval.counting import Counts, Grid
from fheval.errors import ConfigError
from fheval.metrics.fixed_point import BITS, LARGEST_LOG_LOSS, RESOLUTION, Integers
from fheval.metrics.statistics import BinCounts, Confusion, Errors, Loss, Losses, Statistic
from fheval.protocols.round import Contribution, Form

# Two tables of integers, a line for each resample and a column for each product of the form.
Sides = tuple[Integers, Integers]

# From the number of decision points and the largest weighted number of samples to the form.
Shape = Callable[[int, int], Form]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a metric needs to know beside the data, all of it public.

    `cut` is the threshold on the scale of the scores, `targets` the range that true and predicted values lie in.
    """

    grid: Grid
    cut: float = 0.0
    targets: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finisher:
    """From the released ratio to the metric: offset + scale·ratio, or offset + scale·√ratio.

    `resolution` is what fixed-point counting leaves open of the ratio, before it is rounded for release.
    """

    offset: float = 0.0
    scale: float = 1.0
    root: bool = False
    resolution: float = 0.0

    def __call__(self, ratio: float) -> float:
        """Finish a ratio; rounding may have put one of zero a little below."""
        return self.offset + self.scale * (sqrt(max(ratio, 0.0)) if self.root else ratio)

    def width(self, ratio: float, precision: float) -> float:
        """How wide the interval is that the metric lies in, for a ratio that was rounded to `precision`.

        >>> Finisher(scale=2.0).width(0.7, 1e-4)
        0.0002
        >>> round(Finisher(root=True).width(0.0, 1e-4), 6)
        0.007071
        """
        around = precision + self.resolution
        if not self.root:
            return abs(self.scale) * around
        return abs(self(ratio + around / 2) - self(ratio - around / 2))


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    `sides` takes what was counted. `undefined` completes the sentence "It is undefined: …".
    """

    name: str
    counted: Callable[[Inputs], Statistic]
    form: Shape
    sides: Callable[[Integers], Sides]
    undefined: str
    finish: Callable[[Inputs], Finisher] = lambda _: Finisher()
    threshold: bool = False
    probabilities: bool = False
    targets: bool = False


class Cells(NamedTuple):
    """The cells of a confusion matrix, each with a number for every resample."""

    tp: Integers
    fp: Integers
    fn: Integers
    tn: Integers

    @property
    def positives(self) -> Integers:
        return self.tp + self.fn

    @property
    def negatives(self) -> Integers:
        return self.fp + self.tn

    @property
    def samples(self) -> Integers:
        return self.positives + self.negatives


def _form(numerator: int, denominator: int, bound: Callable[[int], int], *, proper: bool = True) -> Shape:
    """A form with these numbers of products, and a bound on both that follows from the number of samples."""
    return lambda _, samples: Form.bounded(
        numerator=numerator, denominator=denominator, bound=bound(samples), proper=proper
    )


def auc_form(decision_points: int, max_samples: int) -> Form:
    """AUC over N decision points: N − 1 trapezoids over 2PQ, which is at most max_samples²/2."""
    return Form.bounded(numerator=decision_points - 1, denominator=1, bound=max_samples * max_samples // 2)


def auc_contribution(counts: Counts) -> Contribution:
    """left = (T^1 … T^{N−1}, P), right = (F^1 … F^{N−1}, 2Q)."""
    return Contribution(
        left=np.append(counts.t, counts.positives).astype(np.int64),
        right=np.append(counts.f, 2 * counts.negatives).astype(np.int64),
    )


def _columns(*columns: Integers) -> Integers:
    return np.stack(columns, axis=1)


def _auc_sides(counted: Integers) -> Sides:
    positives, negatives = np.split(counted, 2, axis=1)
    # T^n = TP^n + TP^{n−1}, twice the running total less the last step.
    t = 2 * np.cumsum(positives, axis=1) - positives
    p, q = positives.sum(axis=1, keepdims=True), negatives.sum(axis=1, keepdims=True)
    return np.hstack([t, p]), np.hstack([negatives, 2 * q])


def _at_threshold(
    name: str, form: Shape, sides: Callable[[Cells], Sides], undefined: str, finisher: Finisher | None = None
) -> Metric:
    return Metric(
        name,
        lambda setting: Confusion(setting.cut),
        form,
        lambda counted: sides(Cells(*counted.T)),
        undefined,
        lambda _: finisher or Finisher(),
        threshold=True,
    )


def _share(name: str, part_and_whole: Callable[[Cells], Sides], undefined: str) -> Metric:
    """A part of the samples over a whole that contains it."""

    def sides(cells: Cells) -> Sides:
        part, whole = part_and_whole(cells)
        return _columns(part, whole), _columns(whole, whole)

    return _at_threshold(name, _form(1, 1, lambda n: n * n), sides, undefined)


def _mean_loss(name: Loss, form: Shape) -> Metric:
    return Metric(
        name,
        lambda setting: Losses(name, setting.grid.scores == "logit"),
        form,
        _mean,
        _NO_SAMPLES,
        lambda _: Finisher(resolution=RESOLUTION),
        probabilities=True,
    )


def _of_errors(
    name: str, form: Shape, sides: Callable[[Integers], Sides], undefined: str, finish: Callable[[Inputs], Finisher]
) -> Metric:
    return Metric(name, lambda setting: Errors(*setting.targets), form, sides, undefined, finish, targets=True)


def _f1(cells: Cells) -> Sides:
    whole = 2 * cells.tp + cells.fp + cells.fn
    return _columns(2 * cells.tp, whole), _columns(cells.samples, cells.samples)


def _both_rates(cells: Cells, twice: int) -> Sides:
    """TP·Q + TN·P over twice·P·Q."""
    p, q = cells.positives, cells.negatives
    return _columns(cells.tp, cells.tn, p), _columns(q, p, twice * q)


def _mean(counted: Integers) -> Sides:
    samples, total = counted[:, 0], counted[:, 1]
    return _columns(total, samples), _columns(samples, samples << BITS)


def _mean_square(counted: Integers) -> Sides:
    samples, high, low = counted[:, 0], counted[:, 2], counted[:, 3]
    fine = samples << BITS
    return _columns(high, low, fine), _columns(fine, samples, fine)


def _unexplained(counted: Integers) -> Sides:
    """n·Σe² over n·Σy² − (Σy)²."""
    samples, _, high, low, total, total_high, total_low = counted.T
    fine = samples << BITS
    return _columns(high, low, total_high, total_low, -total), _columns(fine, samples, fine, samples, total)


def _within_targets(setting: Inputs) -> Finisher:
    low, high = setting.targets
    return Finisher(scale=high - low, resolution=2 * RESOLUTION)


_NO_SAMPLES = "there are no samples"
_ONE_CLASS = "the samples are of one class only"

_ENTRIES = (
    Metric("auc", lambda setting: BinCounts(setting.grid), auc_form, _auc_sides, _ONE_CLASS),
    _share("accuracy", lambda c: (c.tp + c.tn, c.samples), _NO_SAMPLES),
    _share("precision", lambda c: (c.tp, c.tp + c.fp), "no sample scores above the threshold"),
    _share("recall", lambda c: (c.tp, c.positives), "no sample is positive"),
    _share("specificity", lambda c: (c.tn, c.negatives), "no sample is negative"),
    _share("npv", lambda c: (c.tn, c.fn + c.tn), "every sample scores above the threshold"),
    _at_threshold(
        "f1", _form(1, 1, lambda n: 2 * n * n), _f1, "no sample is positive and none scores above the threshold"
    ),
    _at_threshold("balanced-accuracy", _form(2, 1, lambda n: n * n // 2), lambda c: _both_rates(c, 2), _ONE_CLASS),
    _at_threshold(
        "youden-j",
        _form(2, 1, lambda n: n * n // 2, proper=False),
        lambda c: _both_rates(c, 1),
        _ONE_CLASS,
        Finisher(offset=-1.0),
    ),
    _mean_loss("brier", _form(1, 1, lambda n: n * n << BITS)),
    _mean_loss("log-loss", _form(1, 1, lambda n: LARGEST_LOG_LOSS * n * n << BITS, proper=False)),
    _of_errors("mae", _form(1, 1, lambda n: n * n << BITS), _mean, _NO_SAMPLES, _within_targets),
    _of_errors(
        "rmse",
        _form(2, 1, lambda n: n * n << 2 * BITS),
        _mean_square,
        _NO_SAMPLES,
        lambda setting: replace(_within_targets(setting), root=True),
    ),
    _of_errors(
        "r2",
        _form(2, 3, lambda n: n * n << 2 * BITS, proper=False),
        _unexplained,
        "all true values are equal, or there are none",
        lambda _: Finisher(offset=1.0, scale=-1.0),
    ),
)

METRICS = {metric.name: metric for metric in _ENTRIES}


DEFAULT_THRESHOLD = 0.5

_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Spec:
    """A metric's name and, where it has one, the threshold above which a score is called positive."""

    name: str
    threshold: float | None = None

    @property
    def metric(self) -> Metric:
        return METRICS[self.name]

    def __str__(self) -> str:
        return self.name if self.threshold is None else f"{self.name}@{self.threshold!r}"

    def setting(self, grid: Grid, targets: tuple[float, float] | None) -> Inputs:
        """Check that threshold, scores and targets go with the metric, and put them together."""
        metric = self.metric
        if metric.probabilities and grid.scores == "any":
            raise ConfigError(
                f"{self} needs probabilities or logits, and listed decision points take any score. Use an even grid."
            )
        if metric.targets and targets is None:
            raise ConfigError(f"{self} needs the public range of the true and predicted values. Give a target range.")
        return Inputs(
            grid=grid,
            cut=0.0 if self.threshold is None else _cut(self, self.threshold, grid),
            targets=targets or (0.0, 1.0),
        )


def parse_spec(text: str) -> Spec:
    """Read a metric's name, with a threshold behind an @ where it takes one.

    >>> parse_spec("f1@0.3")
    Spec(name='f1', threshold=0.3)
    >>> str(parse_spec("accuracy"))
    'accuracy@0.5'
    """
    name, at, behind = text.strip().partition("@")
    if name not in METRICS:
        raise ConfigError(f"There is no metric {name!r}. Choose among: {', '.join(METRICS)}.")
    if not METRICS[name].threshold:
        if at:
            raise ConfigError(f"{name} takes no threshold. Leave out what follows the @.")
        return Spec(name)
    try:
        threshold = float(behind) if at else DEFAULT_THRESHOLD
    except ValueError:
        raise ConfigError(f"{behind!r} in {text!r} is not a threshold. Use a number, such as {name}@0.5.") from None
    if not math.isfinite(threshold):
        raise ConfigError(f"{behind!r} in {text!r} is not a finite threshold. Use a number, such as {name}@0.5.")
    return Spec(name, threshold + 0.0)  # + 0.0 makes one zero of two


def _cut(spec: Spec, threshold: float, grid: Grid) -> float:
    """The threshold on the scale of the scores: for logits its own logit, the same on every platform."""
    if grid.scores == "any":
        return threshold
    if not 0.0 <= threshold <= 1.0:
        raise ConfigError(f"The threshold of {spec} is no probability. Use one between 0 and 1.")
    if grid.scores == "probability":
        return threshold
    if threshold in (0.0, 1.0):
        return math.inf if threshold else -math.inf
    with localcontext() as context:
        context.prec = _DIGITS
        exact = Decimal(threshold)
        return float((exact / (1 - exact)).ln())
