"""From global counts, where the parties consented to learn them: ROC, precision-recall and calibration curves.

Every number is that of scikit-learn on scores rounded to the decision points: thresholds are the points themselves,
and a sample is positive where its score is strictly above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

import numpy as np

from fheval.counting import Grid
from fheval.errors import UndefinedMetric
from fheval.metrics.fixed_point import Floats, Integers
from fheval.metrics.registry import Histogram
from fheval.metrics.statistics import CALIBRATION_BINS, PROBABILITY_BITS
from fheval.study import Slice, Study


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The global counts of one slice: TP and FP at every decision point, and sums for calibration, if any."""

    where: Slice
    grid: Grid
    tp: Integers
    fp: Integers
    calibration: Integers | None = None

    @property
    def thresholds(self) -> Floats:
        """Highest first, one for each entry of `tp` and `fp`."""
        return self.grid.points

    def roc(self) -> tuple[Floats, Floats]:
        """False and true positive rates at every decision point, highest first, from (0, 0) to (1, 1)."""
        self._require_classes("The ROC curve")
        return self.fp / self.fp[-1], self.tp / self.tp[-1]

    def precision_recall(self) -> tuple[Floats, Floats]:
        """Precision and recall at every decision point but those that call nobody positive, highest first."""
        if not self.tp[-1]:
            raise UndefinedMetric("The precision-recall curve is undefined: no sample is positive.")
        called = self.tp + self.fp
        some = called > 0
        return self.tp[some] / called[some], self.tp[some] / self.tp[-1]

    def reliability(self) -> tuple[Floats, Floats, Integers]:
        """For each stretch of probability that has samples: their mean, the share of positives, and how many."""
        if self.calibration is None or not self.tp[-1] + self.fp[-1]:
            raise UndefinedMetric("There is no calibration of no samples, or of scores that are not probabilities.")
        samples, positives, units = self.calibration.reshape(3, CALIBRATION_BINS)
        some = samples > 0
        means = units[some] / (samples[some] * float(1 << PROBABILITY_BITS))
        return means, positives[some] / samples[some], samples[some]

    def net_benefit(self) -> tuple[Floats, Floats, Floats]:
        """At every decision point below 1: the threshold, the net benefit of the model, and that of acting on all.

        TP/n − FP/n·θ/(1 − θ), for scores that are probabilities.
        """
        samples = int(self.tp[-1] + self.fp[-1])
        if self.grid.scores == "any" or not samples:
            raise UndefinedMetric("There is no net benefit of no samples, or of scores that are not probabilities.")
        below = self.thresholds < 1
        points = self.thresholds[below]
        odds = points / (1 - points)
        benefit = (self.tp[below] - self.fp[below] * odds) / samples
        return points, benefit, (int(self.tp[-1]) - int(self.fp[-1]) * odds) / samples

    def auc(self) -> float:
        self._require_classes("auc")
        t, f = (self.tp[1:] + self.tp[:-1]).tolist(), np.diff(self.fp).tolist()
        return float(sum(map(mul, t, f)) / (2 * int(self.tp[-1]) * int(self.fp[-1])))

    def binning(self) -> float:
        """How far the AUC of the scores themselves may be from that of the curve: half the pairs within a bin."""
        self._require_classes("auc")
        within = sum(map(mul, np.diff(self.tp).tolist(), np.diff(self.fp).tolist()))
        return float(within / (2 * int(self.tp[-1]) * int(self.fp[-1])))

    def average_precision(self) -> float:
        """Σ_n (R_n − R_{n−1})·P_n."""
        precision, recall = self.precision_recall()
        return float(np.sum(np.diff(recall, prepend=0.0) * precision))

    def kolmogorov_smirnov(self) -> float:
        """The largest distance between the true and the false positive rate."""
        false_rate, true_rate = self.roc()
        return float(np.max(np.abs(true_rate - false_rate)))

    def expected_calibration_error(self) -> float:
        """The mean over samples of |share of positives − mean probability| of their stretch."""
        means, positives, samples = self.reliability()
        return float(np.average(np.abs(positives - means), weights=samples))

    def to_dict(self) -> dict[str, Any]:
        """Thresholds and counts, from which everything else follows; a calibration has one entry for each stretch."""
        fields: dict[str, Any] = {
            "thresholds": self.thresholds.tolist(),
            "true_positives": self.tp.tolist(),
            "false_positives": self.fp.tolist(),
        }
        if self.calibration is not None:
            samples, positives, units = self.calibration.reshape(3, CALIBRATION_BINS)
            fields["calibration"] = {
                "samples": samples.tolist(),
                "positives": positives.tolist(),
                "sum_of_probabilities": (units / (1 << PROBABILITY_BITS)).tolist(),
            }
        return fields

    def _require_classes(self, what: str) -> None:
        if not self.tp[-1] or not self.fp[-1]:
            raise UndefinedMetric(f"{what} is undefined: the samples are of one class only.")


def read_curves(study: Study, groups: Sequence[str], counts: Sequence[int]) -> list[Curve]:
    """Take the global counts apart, in the order in which `PartyTally.contribution` put them together."""
    slices, grid = study.slices(groups), study.grid
    bins = Histogram(grid).width
    curves = []
    for where, part in zip(slices, np.split(np.array(counts, dtype=np.int64), len(slices)), strict=True):
        positives, negatives = np.split(part[:bins], 2)
        calibration = part[bins:] if len(part) > bins else None
        tp, fp = (np.concatenate([[0], np.cumsum(each)]) for each in (positives, negatives))
        curves.append(Curve(where, grid, tp, fp, calibration))
    return curves


# What is computed from a curve, beside the curve itself.
CURVE_METRICS: dict[str, Callable[[Curve], float]] = {
    "auc": Curve.auc,
    "average-precision": Curve.average_precision,
    "ks": Curve.kolmogorov_smirnov,
    "ece": Curve.expected_calibration_error,
}
