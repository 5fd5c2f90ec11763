"""From counts under noise to a curve that can be drawn and asked anything, with what the noise leaves open.

Post-processing costs no privacy. Everything is computed from one pair of monotone curves of whole numbers, so that all
numbers are consistent with each other, none is negative, and no rate is above one.

*Monotone.* Noisy counts, added up from the highest score down, need not rise. Isotonic regression (pool adjacent
violators) gives the closest running totals that do, kept between zero and the total. Why the running totals and not the
counts: counts that are cut off at zero gain half of the noise of every empty bin, which draws an AUC towards one half
(by 0.006 in place of 0.0001, on 1,000 rows of CelebA at ε = 1 and 50 bins), while running totals are off by as much
above as below.

*Intervals.* A count x_b is a draw of sampling, with variance x_b, under noise of known variance v. A number f of the
curves has about the variance Σ_b (∂f/∂y_b)²·(x_b + v), over all noisy counts y_b: the delta method. Isotonic regression
replaces stretches of the running totals by their means, so that derivatives pass through it by averaging over each
stretch. How often these intervals cover the truth is measured in tests/unit/test_noisy_coverage.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fheval.errors import UndefinedMetric
from fheval.evaluation.curves import CURVE_METRICS, Curve, read_curves
from fheval.metrics.fixed_point import Floats, Integers
from fheval.metrics.registry import Columns, Histogram, Inputs, Spec, parse_spec
from fheval.metrics.statistics import CALIBRATION_BINS, PROBABILITY_BITS
from fheval.privacy.sampling import Noise
from fheval.protocols.round import Reading
from fheval.study import Slice, Study

# Metrics at a threshold are ratios of forms in whole numbers; shares of samples are taken in these units.
_UNITS = 1 << 26
_STEP = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class Monotone:
    """Noisy counts as rising running totals, from zero to their total.

    `levels` and `sizes` are the stretches that isotonic regression made of all running totals but the last.
    """

    noisy: Integers
    levels: Floats
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, noisy: Integers) -> Monotone:
        """Pool adjacent violators.

        >>> Monotone.of(np.array([3, -2, 1, 5])).running.tolist()
        [0, 2, 2, 2, 7]
        """
        levels: list[float] = []
        sizes: list[int] = []
        for value in np.cumsum(noisy)[:-1].tolist():
            level, size = float(value), 1
            while levels and levels[-1] > level:
                level = (levels[-1] * sizes[-1] + level * size) / (sizes[-1] + size)
                size += sizes.pop()
                levels.pop()
            levels.append(level)
            sizes.append(size)
        return cls(noisy, np.array(levels), np.array(sizes, dtype=np.intp))

    @property
    def total(self) -> int:
        return max(int(self.noisy.sum()), 0)

    @property
    def running(self) -> Integers:
        """From zero to the total, one entry more than there are counts; whole numbers rise where numbers do."""
        inner = np.rint(np.clip(np.repeat(self.levels, self.sizes), 0, self.total)).astype(np.int64)
        return np.concatenate([[0], inner, [self.total]])

    def variance(self, gradients: Floats, noise: float) -> Floats:
        """Σ_b (∂f/∂y_b)²·(x_b + v) for each line of derivatives by the running totals, the first of which is zero."""
        inner, last = gradients[:, 1:-1], gradients[:, -1:]
        if not len(self.levels):
            by_total = last
        else:
            starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
            sums = np.add.reduceat(inner, starts, axis=1)
            # A stretch below zero was cut off, and moves nothing; one above the total moves with it.
            above, below = self.levels >= self.total, self.levels <= 0
            last = last + sums[:, above].sum(axis=1, keepdims=True)
            means = np.where(above | below, 0.0, sums / self.sizes)
            by_total = np.concatenate([np.repeat(means, self.sizes, axis=1), last], axis=1)
        by_count = np.cumsum(by_total[:, ::-1], axis=1)[:, ::-1]
        found: Floats = (by_count**2) @ (np.diff(self.running) + noise)
        return found


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NoisyCurve(Curve):
    """A curve of counts under noise; `tp` and `fp` are monotone, and `at` has their thresholds.

    `noise` is the variance of the noise on each count, `level` that of intervals. The calibration is that of the bins,
    each as if all of its samples were in its middle.
    """

    at: Floats
    positives: Monotone
    negatives: Monotone
    noise: float
    level: float

    @property
    def thresholds(self) -> Floats:
        return self.at

    def to_dict(self) -> dict[str, object]:
        """As of any curve, with the noisy counts themselves, in which nothing was mended."""
        return {
            **Curve.to_dict(self),
            "noisy_positives": self.positives.noisy.tolist(),
            "noisy_negatives": self.negatives.noisy.tolist(),
            "noise_deviation": sqrt(self.noise),
        }

    def deviations(self, by_tp: Floats, by_fp: Floats) -> Floats:
        """The standard error of each number whose derivatives by TP and FP at every threshold are a line."""
        variances = self.positives.variance(by_tp, self.noise) + self.negatives.variance(by_fp, self.noise)
        return np.sqrt(variances)

    def around(self, value: Floats, deviation: Floats, least: float = 0.0, most: float = 1.0) -> tuple[Floats, Floats]:
        """Intervals within what is possible."""
        reach = NormalDist().inv_cdf((1 + self.level) / 2) * deviation
        return np.clip(value - reach, least, most), np.clip(value + reach, least, most)

    def roc_band(self) -> tuple[Floats, Floats]:
        """Between what the true positive rate lies at every threshold."""
        self._require_classes("The ROC curve")
        size, total = len(self.tp), self.tp[-1]
        by_tp = np.eye(size) / total
        by_tp[:, -1] -= self.tp / total**2
        return self.around(self.tp / total, self.deviations(by_tp, np.zeros((size, size))))

    def precision_band(self) -> tuple[Floats, Floats]:
        """Between what the precision lies, where `precision_recall` has one."""
        called = (self.tp + self.fp).astype(np.float64)
        (some,) = np.nonzero(called)
        by_tp, by_fp = (np.zeros((len(some), len(called))) for _ in range(2))
        lines = np.arange(len(some))
        by_tp[lines, some] = self.fp[some] / called[some] ** 2
        by_fp[lines, some] = -self.tp[some] / called[some] ** 2
        return self.around(self.tp[some] / called[some], self.deviations(by_tp, by_fp))

    def reliability_band(self) -> tuple[Floats, Floats]:
        """Between what the share of positives lies, of every stretch of probability that `reliability` has."""
        if self.calibration is None:
            raise UndefinedMetric("There is no calibration of scores that are not probabilities.")
        samples, positives, _ = self.calibration.reshape(3, CALIBRATION_BINS).astype(np.float64)
        stretch = _stretches(self.at)
        lines = []
        for number in np.flatnonzero(samples):
            (inside,) = np.nonzero(stretch == number)
            line = np.zeros(len(self.at))
            # What lies within is a running total less an earlier one.
            line[inside[-1] + 1] += 1
            line[inside[0]] -= 1
            lines.append(line)
        some = samples > 0
        n, p = samples[some][:, np.newaxis], positives[some][:, np.newaxis]
        within = np.array(lines).reshape(-1, len(self.at))
        deviation = self.deviations((n - p) / n**2 * within, -p / n**2 * within)
        return self.around((p / n)[:, 0], deviation)

    def net_benefit_band(self) -> tuple[Floats, Floats]:
        """Between what the net benefit lies, at every threshold that `net_benefit` has."""
        points, benefit, _ = self.net_benefit()
        size, samples = len(self.tp), int(self.tp[-1] + self.fp[-1])
        by_tp = np.eye(size)[size - len(points) :] / samples
        by_fp = -(points / (1 - points))[:, np.newaxis] * by_tp
        for line in (by_tp, by_fp):
            line[:, -1] -= benefit / samples
        return self.around(benefit, self.deviations(by_tp, by_fp), -np.inf)

    def auc_deviation(self) -> float:
        """∂A/∂P_b = (U_b − A)/P, where U_b is the share of negatives below bin b and half of those in it."""
        auc = self.auc()
        p, q = np.diff(self.tp).astype(np.float64), np.diff(self.fp).astype(np.float64)
        below = (self.fp[-1] - self.fp[1:] + q / 2) / self.fp[-1]
        above = (self.tp[1:] - p / 2) / self.tp[-1]
        by_tp, by_fp = (_by_running(each) for each in ((below - auc) / self.tp[-1], (above - auc) / self.fp[-1]))
        return float(self.deviations(by_tp, by_fp)[0])

    def average_precision_deviation(self) -> float:
        """Of Σ_n (TP_n − TP_{n−1})·TP_n/(TP_n + FP_n)/P."""
        tp, fp, total = self.tp.astype(np.float64), self.fp.astype(np.float64), float(self.tp[-1])
        called = np.maximum(tp + fp, 1)
        precision, steps = tp / called, np.diff(tp, prepend=0.0)
        by_tp = (precision - np.append(precision[1:], 0.0) + steps * fp / called**2) / total
        by_tp[-1] -= self.average_precision() / total
        by_fp = -steps * tp / called**2 / total
        return float(self.deviations(by_tp[np.newaxis], by_fp[np.newaxis])[0])

    def kolmogorov_smirnov_deviation(self) -> float:
        """Of the distance at the threshold where it is largest."""
        false_rate, true_rate = self.roc()
        place = int(np.argmax(np.abs(true_rate - false_rate)))
        by_tp, by_fp = np.zeros((2, 1, len(self.tp)))
        for line, rate, total in ((by_tp, true_rate, self.tp[-1]), (by_fp, false_rate, self.fp[-1])):
            line[0, place] += 1 / total
            line[0, -1] -= rate[place] / total
        return float(self.deviations(by_tp, by_fp)[0])

    def at_threshold(self, spec: Spec, inputs: Inputs, place: int) -> tuple[float, float]:
        """A metric of the confusion matrix at one of the thresholds, and its standard error."""
        tp, fp, p, q = (int(each) for each in (self.tp[place], self.fp[place], self.tp[-1], self.fp[-1]))
        samples = p + q
        if not samples:
            raise UndefinedMetric(f"{spec} is undefined: {spec.metric.undefined}.")
        cells = np.array([tp, p - tp, fp, q - fp])
        finish = spec.metric.finish(inputs)
        value = _of_cells(spec, inputs, finish, cells)
        # The metric does not change when all counts grow alike: it depends on shares, in fine units.
        shares = np.rint(cells / samples * _UNITS).astype(np.int64)
        steps = np.eye(4, dtype=np.int64) * _STEP
        more = np.array([_of_cells(spec, inputs, finish, shares + step) for step in steps])
        less = np.array([_of_cells(spec, inputs, finish, np.maximum(shares - step, 0)) for step in steps])
        by_cell = (more - less) / (np.minimum(shares, _STEP) + _STEP) * _UNITS / samples
        by_tp, by_fp = np.zeros((2, 1, len(self.tp)))
        for line, (inside, outside) in ((by_tp, by_cell[:2]), (by_fp, by_cell[2:])):
            line[0, place] += inside - outside
            line[0, -1] += outside
        return value, float(self.deviations(by_tp, by_fp)[0])


def _by_running(by_count: Floats) -> Floats:
    """Derivatives by running totals, from those by counts: the total before a count takes what the next one gives."""
    return np.concatenate([[0.0], by_count - np.append(by_count[1:], 0.0)])[np.newaxis]


def _of_cells(spec: Spec, inputs: Inputs, finish: Callable[[float], float], cells: Integers) -> float:
    """A metric at its threshold, of positives above and below, and negatives above and below."""
    reading = _reading(spec, inputs)
    # Behind the counts comes the one that linear ratios are multiplied by.
    table = np.append(cells, 1)[np.newaxis]
    products = reading.left.of_integers(table)[0].astype(np.float64) * reading.right.of_integers(table)[0]
    top, bottom = products[: reading.form.numerator].sum(), products[reading.form.numerator :].sum()
    if not bottom:
        raise UndefinedMetric(f"{spec} is undefined: {spec.metric.undefined}.")
    return finish(float(top / bottom))


@lru_cache(maxsize=256)
def _reading(spec: Spec, inputs: Inputs) -> Reading:
    return spec.metric.reading(Columns([Histogram.at(None, [inputs.cut])]), inputs, samples=1)


def noisy_curve(study: Study, where: Slice, counts: Integers, noise: Noise, parties: int) -> NoisyCurve:
    """The curve of one slice, from the noisy counts that so many parties added up."""
    positives, negatives = (Monotone.of(half) for half in np.split(counts, 2))
    at = thresholds_of(study)
    tp, fp = positives.running, negatives.running
    return NoisyCurve(
        where=where,
        grid=study.grid,
        tp=tp,
        fp=fp,
        calibration=None if study.grid.scores == "any" else _calibration(at, np.diff(tp), np.diff(fp)),
        at=at,
        positives=positives,
        negatives=negatives,
        noise=noise.variance_of(parties),
        level=study.interval or 0.0,
    )


def thresholds_of(study: Study) -> Floats:
    """The decision points and the metrics' own thresholds, highest first, as they are said."""
    known = study.grid.cuts[1:-1].tolist()
    more = {study.inputs(spec).cut: spec.threshold for spec in study.specs if spec.threshold is not None}
    named = more | dict(zip(known, study.grid.points[1:-1].tolist(), strict=True))
    first, last = study.grid.points[[0, -1]].tolist()
    return np.array([first, *(named[cut] for cut in study.histogram.cuts.tolist()), last], dtype=np.float64)


def place_of(study: Study, cut: float) -> int:
    """Which of the thresholds a cut is."""
    return 1 + int(np.flatnonzero(study.histogram.cuts == cut)[0])


def _stretches(at: Floats) -> NDArray[np.intp]:
    """In which tenth of probability the middle of each bin lies."""
    middles = (at[:-1] + at[1:]) / 2
    return np.minimum((middles * CALIBRATION_BINS).astype(np.intp), CALIBRATION_BINS - 1)


def _calibration(at: Floats, positives: Integers, negatives: Integers) -> Integers:
    stretch, samples = _stretches(at), positives + negatives
    units = np.rint(samples * (at[:-1] + at[1:]) / 2 * (1 << PROBABILITY_BITS))
    parts = (np.bincount(stretch, each, CALIBRATION_BINS) for each in (samples, positives, units))
    return np.concatenate([np.rint(part).astype(np.int64) for part in parts])


def curves_of(study: Study, groups: Sequence[str], counts: Sequence[int], parties: int) -> list[Curve]:
    """The curves of a round in which so many parties released counts, under noise or not."""
    noise = study.noise
    if noise is None:
        return read_curves(study, groups, counts)
    slices = study.slices(groups)
    parts = np.split(np.array(counts, dtype=np.int64), len(slices))
    return [noisy_curve(study, where, part, noise, parties) for where, part in zip(slices, parts, strict=True)]


class Estimated(NamedTuple):
    """A number of a noisy curve and, where there is a standard error, the interval around it."""

    value: float
    low: float | None = None
    high: float | None = None


# What follows from every noisy curve, beside what a study asks for.
FROM_ANY = ("auc", "average-precision", "ks", "ece")


def estimated(study: Study, curve: NoisyCurve, name: str) -> Estimated:
    """One of `FROM_ANY`, or a metric at a threshold; `UndefinedMetric` where there is none."""
    if name == "ece":
        # Noise in empty stretches counts as miscalibration; there is no standard error that means much.
        return Estimated(curve.expected_calibration_error())
    if name in _DEVIATIONS:
        value, deviation = CURVE_METRICS[name](curve), _DEVIATIONS[name](curve)
        least, most = 0.0, 1.0
    else:
        spec = parse_spec(name)
        inputs = study.inputs(spec)
        value, deviation = curve.at_threshold(spec, inputs, place_of(study, inputs.cut))
        least, most = _range(spec, inputs)
    if not curve.level:
        return Estimated(value)
    low, high = curve.around(np.array(value), np.array(deviation), least, most)
    return Estimated(value, float(low), float(high))


_DEVIATIONS: dict[str, Callable[[NoisyCurve], float]] = {
    "auc": NoisyCurve.auc_deviation,
    "average-precision": NoisyCurve.average_precision_deviation,
    "ks": NoisyCurve.kolmogorov_smirnov_deviation,
}


def _range(spec: Spec, inputs: Inputs) -> tuple[float, float]:
    """Between what a metric at a threshold lies, whatever the counts."""
    metric = spec.metric
    finish = metric.finish(inputs)
    most = 1.0 if metric.proper else float(metric.most) or np.inf
    return min(finish(0.0), finish(most)), max(finish(0.0), finish(most))
