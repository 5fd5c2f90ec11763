"""The metrics, one entry each: what is counted, which ratio it makes, how it is finished, when it is undefined.

Every metric is defined as in scikit-learn, on the pooled data. Where a threshold calls a sample positive, its score is
strictly above it, as in counting at decision points. Where scikit-learn warns and puts in a number for 0/0, the metric
is undefined here.

A ratio of counts is made one of products by a factor that is always one: a/b is released as (a·1)/(b·1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from itertools import accumulate
from math import sqrt
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from fheval.counting import Counts, Grid, bin_numbers
from fheval.errors import ConfigError
from fheval.field import LinearMap
from fheval.metrics.fixed_point import BITS, LARGEST_LOG_LOSS, RESOLUTION, UNITS, Floats, Integers
from fheval.metrics.statistics import (
    CALIBRATION_BINS,
    PROBABILITY_BITS,
    TIME_STEPS,
    Calibration,
    Errors,
    Loss,
    Losses,
    Predicted,
    Rows,
    Statistic,
    Survival,
    Task,
    Values,
    Weights,
    weighted_histogram,
)
from fheval.protocols.round import Batch, Contribution, Form, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a metric needs to know beside the data, all of it public.

    `parties` is how many took part, once it is known. `threshold` is as it was said and `cut` the same on the scale of
    the scores; `targets` is the range that true and predicted values lie in.
    """

    grid: Grid
    parties: int = 0
    threshold: float = 0.0
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
class Histogram:
    """Positives, then negatives, between successive cuts, highest first.

    The cuts are the interior points of the grid, if there is one, and `more`: thresholds that are no points of it.
    """

    grid: Grid | None
    more: tuple[float, ...] = ()
    task: Task = "binary"
    bits: int = 0

    @classmethod
    def at(cls, grid: Grid | None, thresholds: Iterable[float] = ()) -> Histogram:
        """At the points of a grid and at thresholds, each once."""
        known = [] if grid is None else grid.cuts[1:-1].tolist()
        return cls(grid, tuple(sorted(set(thresholds).difference(known), reverse=True)))

    @property
    def bins(self) -> int:
        return len(self.more) + (1 if self.grid is None else len(self.grid) - 1)

    @property
    def width(self) -> int:
        return 2 * self.bins

    @property
    def cuts(self) -> Floats:
        """Where one bin ends and the next begins, highest first: a score equal to a cut is below it."""
        points = [] if self.grid is None else self.grid.cuts[1:-1].tolist()
        return np.array(sorted([*points, *self.more], reverse=True), dtype=np.float64)

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        bins = np.zeros(len(rows.scores), dtype=np.intp) if self.grid is None else bin_numbers(self.grid, rows.scores)
        if self.more:
            bins = bins + (len(self.more) - np.searchsorted(self.more[::-1], rows.scores))
        return weighted_histogram(bins + self.bins * (rows.labels == 0), self.width, weights)


# Units of a party's own AUC, and what its weight is at most for each of its samples and in all: w·θ² fits an int64.
_AUC_UNITS = 1 << 16
_MOST_WEIGHT_PER_SAMPLE = 256
_MOST_WEIGHT = 1 << 30


@dataclass(frozen=True, slots=True)
class OwnAuc:
    """1, w, w·θ and w·θ² of each party's own AUC θ, w being one over its variance (DeLong's); zeros without one.

    They follow from the party's own histogram of all its rows. The variance is not taken for less than 1/(256·n), so
    that an AUC of 1 does not outweigh everything.
    """

    grid: Grid
    task: Task = "binary"
    width: int = 4
    # w·θ² in units.
    bits: int = 40

    def tally(self, _rows: Rows, weights: Weights) -> Integers:
        """Nothing: rows are counted in the histogram."""
        return np.zeros((len(weights), self.width), dtype=np.int64)

    def of(self, histogram: Integers) -> Integers:
        """The four numbers of each line."""
        found = np.zeros((len(histogram), self.width), dtype=np.int64)
        for line, counted in enumerate(histogram.astype(np.float64)):
            positives, negatives = np.split(counted, 2)
            p, q = positives.sum(), negatives.sum()
            if min(p, q) < 2:
                continue
            above = (q - np.cumsum(negatives) + negatives / 2) / q
            below = (np.cumsum(positives) - positives / 2) / p
            auc = float(positives @ above) / p
            variance = float(positives @ (above - auc) ** 2) / (p * (p - 1))
            variance += float(negatives @ (below - auc) ** 2) / (q * (q - 1))
            most = min(_MOST_WEIGHT_PER_SAMPLE * (p + q), _MOST_WEIGHT)
            weight, units = round(min(1 / variance, most) if variance else most), round(auc * _AUC_UNITS)
            found[line] = 1, weight, weight * units, weight * units * units
        return found


# Left and right factors of products, row by row; one number is a map of a single row.
Product = tuple[LinearMap, LinearMap]


@dataclass(frozen=True, slots=True)
class Ratio:
    """num/den, each a sum of products of linear maps of what is counted."""

    numerator: Sequence[Product]
    denominator: Sequence[Product]


class Cells(NamedTuple):
    """The cells of a confusion matrix, and a one to multiply them by."""

    tp: LinearMap
    fp: LinearMap
    fn: LinearMap
    tn: LinearMap
    one: LinearMap

    @property
    def positives(self) -> LinearMap:
        return self.tp + self.fn

    @property
    def negatives(self) -> LinearMap:
        return self.fp + self.tn

    @property
    def samples(self) -> LinearMap:
        return self.positives + self.negatives


class Columns:
    """What is counted, by name instead of by column: each name is a linear map of a line of the table."""

    def __init__(self, statistics: Sequence[Statistic]) -> None:
        starts = accumulate((statistic.width for statistic in statistics), initial=0)
        *firsts, self._width = starts
        self._starts: dict[Statistic, int] = dict(zip(statistics, firsts, strict=True))

    @property
    def one(self) -> LinearMap:
        """The constant that every line has behind its last number."""
        return LinearMap.stretches([self._width], [self._width + 1])

    def of(self, statistic: Statistic) -> LinearMap:
        """All integers of a statistic, a row each."""
        start = self._starts[statistic]
        return LinearMap.stretches(range(start, start + statistic.width), range(start + 1, start + statistic.width + 1))

    def sums(self, statistic: Statistic, starts: Iterable[int], stops: Iterable[int]) -> LinearMap:
        """Sums of stretches of a statistic's integers, a row each."""
        first = self._starts[statistic]
        return LinearMap.stretches([first + start for start in starts], [first + stop for stop in stops])

    @property
    def positives(self) -> LinearMap:
        """The positives of each bin, highest first."""
        first, bins = self._histogram
        return _each(first, bins)

    @property
    def negatives(self) -> LinearMap:
        """The negatives of each bin, highest first."""
        first, bins = self._histogram
        return _each(first + bins, bins)

    @property
    def running_positives(self) -> LinearMap:
        """For each bin all positives down to and with it."""
        first, bins = self._histogram
        return LinearMap.stretches([first] * bins, range(first + 1, first + bins + 1))

    @property
    def all_positives(self) -> LinearMap:
        """P."""
        first, bins = self._histogram
        return LinearMap.stretches([first], [first + bins])

    @property
    def all_negatives(self) -> LinearMap:
        """Q."""
        first, bins = self._histogram
        return LinearMap.stretches([first + bins], [first + 2 * bins])

    def cells(self, cut: float) -> Cells:
        """The confusion matrix where a score strictly above `cut` is called positive."""
        first, bins = self._histogram
        (histogram,) = (each for each in self._starts if isinstance(each, Histogram))
        above = first + int(np.flatnonzero(histogram.cuts == cut)[0]) + 1
        starts, stops = (
            [first, first + bins, above, above + bins],
            [above, above + bins, first + bins, first + 2 * bins],
        )
        tp, fp, fn, tn = (LinearMap.stretches([start], [stop]) for start, stop in zip(starts, stops, strict=True))
        return Cells(tp, fp, fn, tn, self.one)

    @property
    def _histogram(self) -> tuple[int, int]:
        """Where the histogram begins, and how many bins it has."""
        ((first, bins),) = ((start, each.bins) for each, start in self._starts.items() if isinstance(each, Histogram))
        return first, bins


def _each(first: int, count: int) -> LinearMap:
    return LinearMap.stretches(range(first, first + count), range(first + 1, first + count + 1))


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    `ratio` says what is divided by what, from what is counted: a `histogram` of positives and negatives at the points
    of the "grid" or at the metric's own "threshold", and other `statistics`. `bound` is what neither num nor den
    exceeds, given the largest weighted number of samples; num ≤ den where the ratio is `proper`, and otherwise num ≤
    most·den where `most` is given. `undefined` completes the sentence "It is undefined: …". `binning`, with the same
    bound, is how far counting at decision points may have moved the metric from what it is of the scores themselves.
    """

    name: str
    ratio: Callable[[Columns, Inputs], Ratio]
    bound: Callable[[int], int]
    undefined: str
    finish: Callable[[Inputs], Finisher] = lambda _: Finisher()
    proper: bool = True
    histogram: Literal["grid", "threshold"] | None = None
    statistics: Callable[[Inputs], tuple[Statistic, ...]] = lambda _: ()
    probabilities: bool = False
    targets: bool = False
    most: int = 0
    binning: Callable[[Columns, Inputs], Ratio] | None = None

    @property
    def threshold(self) -> bool:
        return self.histogram == "threshold"

    def reading(self, columns: Columns, inputs: Inputs, samples: int) -> Reading:
        """How the metric is read from a line of counts of up to so many weighted samples."""
        return self._reading(self.ratio(columns, inputs), samples)

    def binning_reading(self, columns: Columns, inputs: Inputs, samples: int) -> Reading | None:
        """How its binning error is read from the counts of the data, if it has one."""
        if self.binning is None:
            return None
        return msgspec.structs.replace(self._reading(self.binning(columns, inputs), samples), resampled=False)

    def _reading(self, ratio: Ratio, samples: int) -> Reading:
        left, right = (LinearMap.stack(side) for side in zip(*ratio.numerator, *ratio.denominator, strict=True))
        below = sum(len(one) for one, _ in ratio.denominator)
        form = Form.bounded(
            numerator=len(left) - below,
            denominator=below,
            bound=self.bound(samples),
            proper=self.proper,
            most=self.most,
        )
        return Reading(form=form, left=left, right=right)


def _auc(columns: Columns, _: Inputs) -> Ratio:
    """Σ_n T^n·F^n over 2·P·Q, where T^n = TP^n + TP^{n−1} is twice the running total less the last step."""
    t = 2 * columns.running_positives - columns.positives
    return Ratio([(t, columns.negatives)], [(columns.all_positives, 2 * columns.all_negatives)])


def _auc_binning(columns: Columns, _: Inputs) -> Ratio:
    """δ = Σ_n P_n·Q_n over 2·P·Q: half the pairs that lie within a bin, each of which counts for one half.

    In the AUC of the scores themselves such a pair counts for 0, 1/2 or 1, so that the two differ by δ at most.
    """
    return Ratio([(columns.positives, columns.negatives)], [(columns.all_positives, 2 * columns.all_negatives)])


def auc_batch(decision_points: int, max_samples: int) -> Batch:
    """One AUC over N decision points: N − 1 trapezoids over 2PQ, which is at most max_samples²/2."""
    grid = Grid.even(decision_points)
    histogram = Histogram(grid)
    reading = METRICS["auc"].reading(Columns([histogram]), Inputs(grid=grid), max_samples)
    return Batch(width=histogram.width, bits=max_samples.bit_length(), readings=(reading,))


def auc_contribution(counts: Counts) -> Contribution:
    """The positives and the negatives between successive decision points."""
    return Contribution(np.concatenate([np.diff(counts.tp), np.diff(counts.fp)])[np.newaxis])


def _at_threshold(
    name: str,
    ratio: Callable[[Cells], Ratio],
    bound: Callable[[int], int],
    undefined: str,
    finisher: Finisher | None = None,
    *,
    most: int = 1,
) -> Metric:
    return Metric(
        name,
        lambda columns, inputs: ratio(columns.cells(inputs.cut)),
        bound,
        undefined,
        lambda _: finisher or Finisher(),
        most == 1,
        histogram="threshold",
        most=most,
    )


def _share(name: str, part_and_whole: Callable[[Cells], Product], undefined: str) -> Metric:
    """A part of the samples over a whole that contains it."""

    def ratio(cells: Cells) -> Ratio:
        part, whole = part_and_whole(cells)
        return Ratio([(part, cells.one)], [(whole, cells.one)])

    return _at_threshold(name, ratio, lambda n: n, undefined)


def _mean_loss(name: Loss, largest: int) -> Metric:
    def counted(inputs: Inputs) -> Losses:
        return Losses(name, inputs.grid.scores == "logit")

    return Metric(
        name,
        lambda columns, inputs: _mean(columns.of(counted(inputs)), columns.one),
        lambda n: largest * n << BITS,
        _NO_SAMPLES,
        lambda _: Finisher(resolution=RESOLUTION),
        largest == 1,
        statistics=lambda inputs: (counted(inputs),),
        probabilities=True,
        most=largest,
    )


def _of_errors(
    name: str,
    ratio: Callable[[LinearMap, LinearMap], Ratio],
    bound: Callable[[int], int],
    undefined: str,
    finish: Callable[[Inputs], Finisher],
    *,
    proper: bool = True,
) -> Metric:
    return Metric(
        name,
        lambda columns, inputs: ratio(columns.of(Errors(*inputs.targets)), columns.one),
        bound,
        undefined,
        finish,
        proper,
        statistics=lambda inputs: (Errors(*inputs.targets),),
        targets=True,
    )


def _f(name: str, found: int, missed: int, called: int) -> Metric:
    """F-beta: found·TP over found·TP + missed·FN + called·FP, where found = missed + called and β² = missed/called."""

    def ratio(cells: Cells) -> Ratio:
        part = found * cells.tp
        return Ratio([(part, cells.one)], [(part + missed * cells.fn + called * cells.fp, cells.one)])

    undefined = "no sample is positive and none scores above the threshold"
    return _at_threshold(name, ratio, lambda n: found * n, undefined)


def _odds(name: str, num: Callable[[Cells], Product], den: Callable[[Cells], Product], undefined: str) -> Metric:
    """One product over another, which may be smaller."""
    return _at_threshold(name, lambda c: Ratio([num(c)], [den(c)]), lambda n: n * n, undefined, most=0)


def _kappa(cells: Cells) -> Ratio:
    """κ + 1 = (2·(TP·TN − FN·FP) + A·Q + P·B) over (A·Q + P·B), with A samples called positive and B negative."""
    called, not_called = cells.tp + cells.fp, cells.fn + cells.tn
    whole = [(called, cells.negatives), (cells.positives, not_called)]
    return Ratio([(2 * cells.tp, cells.tn), (-2 * cells.fn, cells.fp), *whole], whole)


def _threshold_units(inputs: Inputs) -> int:
    return round(inputs.threshold * UNITS)


def _net_benefit(columns: Columns, inputs: Inputs) -> Ratio:
    """((1 − t)·TP + t·(n − FP))/n, which is (1 − t)·NB + t and never negative; t in units of 2^-24."""
    cells, units = columns.cells(inputs.cut), _threshold_units(inputs)
    if units >= UNITS:
        raise ConfigError("Nothing scores above 1: a net benefit has no meaning there. Use a lower threshold.")
    won = (UNITS - units) * cells.tp + units * (cells.samples - cells.fp)
    return Ratio([(won, cells.one)], [(UNITS * cells.samples, cells.one)])


def _benefit_of(inputs: Inputs) -> Finisher:
    share = _threshold_units(inputs) / UNITS
    return Finisher(offset=-share / (1 - share), scale=1 / (1 - share), resolution=2 * RESOLUTION)


def _predicted(inputs: Inputs) -> Predicted:
    return Predicted(inputs.grid.scores == "logit")


def _observed_expected(columns: Columns, inputs: Inputs) -> Ratio:
    positives, _, expected = (columns.of(_predicted(inputs))[row] for row in range(3))
    return Ratio([(UNITS * positives, columns.one)], [(expected, columns.one)])


def _scaled_brier(columns: Columns, inputs: Inputs) -> Ratio:
    """n·Σ(p − y)² over P·Q: the Brier score over that of a model that gives everyone the prevalence."""
    positives, negatives = (columns.of(_predicted(inputs))[row] for row in range(2))
    samples, losses = (columns.of(Losses("brier", inputs.grid.scores == "logit"))[row] for row in range(2))
    return Ratio([(losses, samples)], [(positives, UNITS * negatives)])


def _calibrated(stretch: int) -> tuple[Metric, Metric]:
    """Share of positives, and mean probability, of the samples in one of ten even stretches of probability."""

    def counted(inputs: Inputs) -> Calibration:
        return Calibration(inputs.grid.scores == "logit")

    def metric(name: str, row: int, bits: int) -> Metric:
        def ratio(columns: Columns, inputs: Inputs) -> Ratio:
            every = columns.of(counted(inputs))
            samples, part = every[stretch], every[row * CALIBRATION_BINS + stretch]
            return Ratio([(part, columns.one)], [((1 << bits) * samples, columns.one)])

        return Metric(
            f"{name}:{stretch + 1}",
            ratio,
            lambda n: n << bits,
            "no sample is in this stretch of probability",
            lambda _: Finisher(resolution=2.0**-bits if bits else 0.0),
            statistics=lambda inputs: (counted(inputs),),
            probabilities=True,
        )

    return metric("observed", 1, 0), metric("expected", 2, PROBABILITY_BITS)


def _both_rates(cells: Cells, twice: int) -> Ratio:
    """TP·Q + TN·P over twice·P·Q."""
    p, q = cells.positives, cells.negatives
    return Ratio([(cells.tp, q), (cells.tn, p)], [(p, twice * q)])


def _mean(counted: LinearMap, one: LinearMap) -> Ratio:
    samples, total = counted[0], counted[1]
    return Ratio([(total, one)], [(UNITS * samples, one)])


def _mean_square(counted: LinearMap, one: LinearMap) -> Ratio:
    samples, high, low = counted[0], counted[2], counted[3]
    return Ratio([(high, UNITS * one), (low, one)], [(UNITS * samples, UNITS * one)])


def _unexplained(counted: LinearMap, _one: LinearMap) -> Ratio:
    """n·Σe² over n·Σy² − (Σy)²."""
    samples, _, high, low, total, total_high, total_low = (counted[row] for row in range(len(counted)))
    fine = UNITS * samples
    return Ratio([(high, fine), (low, samples)], [(total_high, fine), (total_low, samples), (-total, total)])


def _within_targets(inputs: Inputs) -> Finisher:
    low, high = inputs.targets
    return Finisher(scale=high - low, resolution=2 * RESOLUTION)


def _survival(inputs: Inputs) -> Survival:
    return Survival(inputs.grid, *inputs.targets)


def _concordance(columns: Columns, inputs: Inputs) -> Ratio:
    """Events times the samples they beat, over events times all samples that were watched for longer."""
    counted = _survival(inputs)
    cells, risks = counted.cells, counted.risks
    events = columns.sums(counted, range(cells), range(1, cells + 1))
    beaten = columns.sums(counted, range(cells, 2 * cells), range(cells + 1, 2 * cells + 1))
    at_a_time = columns.sums(counted, range(0, cells, risks), range(risks, cells + 1, risks))
    last = 2 * cells + TIME_STEPS
    at_risk = columns.sums(counted, range(2 * cells, last), range(2 * cells + 1, last + 1))
    return Ratio([(events, beaten)], [(at_a_time, 2 * at_risk)])


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondChance(Finisher):
    """From r = Q/(Q + k) to I² = 1 − (k − 1)/Q, the share of the spread that chance does not explain; 0 at least."""

    parties: int

    def __call__(self, ratio: float) -> float:
        if ratio <= 0.0:
            return 0.0
        return max(0.0, 1.0 - (self.parties - 1) / self.parties * (1.0 - ratio) / ratio)

    def width(self, ratio: float, precision: float) -> float:
        return self(ratio + precision / 2) - self(ratio - precision / 2)


def _among_parties(
    name: str,
    ratio: Callable[[LinearMap, LinearMap], Ratio],
    bound: Callable[[int], int],
    finish: Callable[[Inputs], Finisher],
) -> Metric:
    """A number about the parties' own AUCs, each weighted by one over its variance."""
    return Metric(
        name,
        lambda columns, inputs: ratio(columns.of(OwnAuc(inputs.grid)), columns.one),
        bound,
        "no party has two samples of each class",
        finish,
        histogram="grid",
        statistics=lambda inputs: (OwnAuc(inputs.grid),),
    )


def _weighted_mean(own: LinearMap, one: LinearMap) -> Ratio:
    return Ratio([(own[2], one)], [(_AUC_UNITS * own[1], one)])


def _about_the_mean(own: LinearMap) -> list[Product]:
    """Σw·Σwθ² − (Σwθ)², which is Q·Σw, in squared units."""
    return [(own[3], own[1]), (-own[2], own[2])]


def _spread(own: LinearMap, _one: LinearMap) -> Ratio:
    return Ratio(_about_the_mean(own), [(_AUC_UNITS * own[1], _AUC_UNITS * own[1])])


def _beyond_chance(own: LinearMap, _one: LinearMap) -> Ratio:
    squares = _about_the_mean(own)
    return Ratio(squares, [*squares, (_AUC_UNITS**2 * own[0], own[1])])


_NO_SAMPLES = "there are no samples"
_ONE_CLASS = "the samples are of one class only"

_ENTRIES = (
    Metric("auc", _auc, lambda n: n * n // 2, _ONE_CLASS, histogram="grid", binning=_auc_binning),
    _share("accuracy", lambda c: (c.tp + c.tn, c.samples), _NO_SAMPLES),
    _share("precision", lambda c: (c.tp, c.tp + c.fp), "no sample scores above the threshold"),
    _share("recall", lambda c: (c.tp, c.positives), "no sample is positive"),
    _share("specificity", lambda c: (c.tn, c.negatives), "no sample is negative"),
    _share("npv", lambda c: (c.tn, c.fn + c.tn), "every sample scores above the threshold"),
    _f("f1", 2, 1, 1),
    _f("f2", 5, 4, 1),
    _f("f0.5", 5, 1, 4),
    _at_threshold("balanced-accuracy", lambda c: _both_rates(c, 2), lambda n: n * n // 2, _ONE_CLASS),
    _at_threshold(
        "youden-j",
        lambda c: _both_rates(c, 1),
        lambda n: n * n // 2,
        _ONE_CLASS,
        Finisher(offset=-1.0),
        most=2,
    ),
    _at_threshold(
        "kappa",
        _kappa,
        lambda n: 2 * n * n,
        "all samples are of one class, and called so",
        Finisher(offset=-1.0),
        most=2,
    ),
    _odds(
        "lift",
        lambda c: (c.tp, c.samples),
        lambda c: (c.tp + c.fp, c.positives),
        "no sample is positive, or none scores above the threshold",
    ),
    _odds(
        "lr+",
        lambda c: (c.tp, c.negatives),
        lambda c: (c.positives, c.fp),
        "no sample is positive, or no negative one scores above the threshold",
    ),
    _odds(
        "lr-",
        lambda c: (c.fn, c.negatives),
        lambda c: (c.positives, c.tn),
        "no sample is positive, or every negative one scores above the threshold",
    ),
    _odds(
        "dor",
        lambda c: (c.tp, c.tn),
        lambda c: (c.fp, c.fn),
        "every positive sample scores above the threshold, or no negative one does",
    ),
    Metric(
        "net-benefit",
        _net_benefit,
        lambda n: n << BITS,
        _NO_SAMPLES,
        _benefit_of,
        histogram="threshold",
        probabilities=True,
    ),
    Metric(
        "o/e",
        _observed_expected,
        lambda n: n << BITS,
        "no risk was predicted for anyone",
        lambda _: Finisher(resolution=RESOLUTION),
        proper=False,
        statistics=lambda inputs: (_predicted(inputs),),
        probabilities=True,
    ),
    Metric(
        "scaled-brier",
        _scaled_brier,
        lambda n: n * n << BITS,
        _ONE_CLASS,
        lambda _: Finisher(offset=1.0, scale=-1.0),
        proper=False,
        statistics=lambda inputs: (_predicted(inputs), Losses("brier", inputs.grid.scores == "logit")),
        probabilities=True,
    ),
    _among_parties("auc-mean", _weighted_mean, lambda n: n << 24, lambda _: Finisher(resolution=1 / _AUC_UNITS)),
    _among_parties("auc-spread", _spread, lambda n: n * n << 48, lambda _: Finisher(root=True)),
    _among_parties(
        "auc-i2",
        _beyond_chance,
        lambda n: n * n << 49,
        lambda inputs: BeyondChance(parties=max(inputs.parties, 1)),
    ),
    *(metric for stretch in range(CALIBRATION_BINS) for metric in _calibrated(stretch)),
    _mean_loss("brier", 1),
    _mean_loss("log-loss", LARGEST_LOG_LOSS),
    Metric(
        "concordance",
        _concordance,
        lambda n: 2 * n * n,
        "nobody was watched for longer than until somebody's event",
        statistics=lambda inputs: (_survival(inputs),),
        targets=True,
    ),
    Metric(
        "mean",
        lambda columns, inputs: _mean(columns.of(Values(*inputs.targets)), columns.one),
        lambda n: n << BITS,
        _NO_SAMPLES,
        lambda inputs: replace(_within_targets(inputs), offset=inputs.targets[0], resolution=RESOLUTION),
        statistics=lambda inputs: (Values(*inputs.targets),),
        targets=True,
    ),
    _of_errors("mae", _mean, lambda n: n << BITS, _NO_SAMPLES, _within_targets),
    _of_errors(
        "rmse",
        _mean_square,
        lambda n: n << 2 * BITS,
        _NO_SAMPLES,
        lambda inputs: replace(_within_targets(inputs), root=True),
    ),
    _of_errors(
        "r2",
        _unexplained,
        lambda n: n * n << 2 * BITS,
        "all true values are equal, or there are none",
        lambda _: Finisher(offset=1.0, scale=-1.0),
        proper=False,
    ),
)

METRICS = {metric.name: metric for metric in _ENTRIES}

# As people are told them: the stretches of probability in one word.
NAMES = ", ".join(dict.fromkeys(name.partition(":")[0] + ":1 … 10" if ":" in name else name for name in METRICS))


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

    def inputs(self, grid: Grid, targets: tuple[float, float] | None) -> Inputs:
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
            threshold=self.threshold or 0.0,
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
        raise ConfigError(f"There is no metric {name!r}. Choose among: {NAMES}.")
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
