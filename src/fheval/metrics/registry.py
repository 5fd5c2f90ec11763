"""The metrics, one entry each: what is counted, which ratio it makes, how it is finished, when it is undefined.

Every metric is defined as in scikit-learn, on the pooled data. Where a threshold calls a sample positive, its score is
strictly above it, as in counting at decision points. Where scikit-learn warns and puts in a number for 0/0, the metric
is undefined here.

A ratio of counts is made one of products by a factor that is always one: a/b is released as (a·1)/(b·1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import lru_cache, partial
from itertools import accumulate, product
from math import sqrt
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from fheval.counting import Counts, Grid, bin_numbers
from fheval.errors import ConfigError, LocalProtocolError
from fheval.field import LinearMap
from fheval.metrics.fixed_point import BITS, LARGEST_LOG_LOSS, RESOLUTION, UNITS, Floats, Integers
from fheval.metrics.statistics import (
    CALIBRATION_BINS,
    PROBABILITY_BITS,
    Band,
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
    the scores; `targets` is the range that true and predicted values lie in. Resamples are counted at one point of
    the grid in `every`, and at fewer steps of time where they are `coarse`.
    """

    grid: Grid
    every: int = 1
    coarse: bool = False
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

    The cuts are the interior points of the grid, if there is one, or one in `every` of them, and `more`: thresholds
    that are none of these.
    """

    grid: Grid | None
    more: tuple[float, ...] = ()
    every: int = 1
    task: Task = "binary"
    bits: int = 0

    @classmethod
    def at(cls, grid: Grid | None, thresholds: Iterable[float] = (), every: int = 1) -> Histogram:
        """At the points of a grid and at thresholds, each once."""
        known = cls(grid, every=every).cuts.tolist()
        return cls(grid, tuple(sorted(set(thresholds).difference(known), reverse=True)), every)

    @property
    def bins(self) -> int:
        return len(self.more) + (1 if self.grid is None else -(-(len(self.grid) - 1) // self.every))

    @property
    def width(self) -> int:
        return 2 * self.bins

    @property
    def cuts(self) -> Floats:
        """Where one bin ends and the next begins, highest first: a score equal to a cut is below it."""
        points = [] if self.grid is None else self.grid.cuts[1:-1][self.every - 1 :: self.every].tolist()
        return np.array(sorted([*points, *self.more], reverse=True), dtype=np.float64)

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        bins = np.zeros(len(rows.scores), dtype=np.intp) if self.grid is None else bin_numbers(self.grid, rows.scores)
        if self.every > 1:
            bins = bins // self.every
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
    every: int = 1
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
    """What is counted, by name instead of by column: each name is a linear map of a line of the table.

    With a `coarser` histogram, bins are those of it, whose cuts are among the cuts of the one that is counted. `start`
    is where the line begins, if it follows another, and `end` where it does.
    """

    def __init__(self, statistics: Sequence[Statistic], *, coarser: Histogram | None = None, start: int = 0) -> None:
        starts = accumulate((statistic.width for statistic in statistics), initial=start)
        *firsts, self.end = starts
        self._starts: dict[Statistic, int] = dict(zip(statistics, firsts, strict=True))
        self._coarser = coarser

    @property
    def next_line(self) -> Columns:
        """The same columns of the line behind this one."""
        return Columns(tuple(self._starts), coarser=self._coarser, start=self.end)

    @property
    def one(self) -> LinearMap:
        """The constant that every line has behind its last number."""
        return LinearMap.stretches([self.end], [self.end + 1])

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
        histogram, edges = self._histogram
        return self.sums(histogram, edges[:-1], edges[1:])

    @property
    def negatives(self) -> LinearMap:
        """The negatives of each bin, highest first."""
        histogram, edges = self._histogram
        edges = [histogram.bins + edge for edge in edges]
        return self.sums(histogram, edges[:-1], edges[1:])

    @property
    def running_positives(self) -> LinearMap:
        """For each bin all positives down to and with it."""
        histogram, edges = self._histogram
        return self.sums(histogram, [0] * (len(edges) - 1), edges[1:])

    @property
    def all_positives(self) -> LinearMap:
        """P."""
        histogram, _ = self._histogram
        return self.sums(histogram, [0], [histogram.bins])

    @property
    def all_negatives(self) -> LinearMap:
        """Q."""
        histogram, _ = self._histogram
        return self.sums(histogram, [histogram.bins], [2 * histogram.bins])

    @property
    def of_labels(self) -> list[tuple[int, int]]:
        """Where all positives are and where all negatives: their sums do not depend on the scores."""
        counted = [(start, each.bins) for each, start in self._starts.items() if isinstance(each, Histogram)]
        return [(start + half * bins, start + (half + 1) * bins) for start, bins in counted for half in range(2)]

    def cells(self, cut: float) -> Cells:
        """The confusion matrix where a score strictly above `cut` is called positive."""
        histogram, _ = self._histogram
        bins, above = histogram.bins, int(np.flatnonzero(histogram.cuts == cut)[0]) + 1
        starts, stops = [0, bins, above, above + bins], [above, above + bins, bins, 2 * bins]
        tp, fp, fn, tn = (self.sums(histogram, [start], [stop]) for start, stop in zip(starts, stops, strict=True))
        return Cells(tp, fp, fn, tn, self.one)

    @property
    def _histogram(self) -> tuple[Histogram, list[int]]:
        """The histogram that is counted, and between which of its bins those lie that are asked for."""
        (histogram,) = (each for each in self._starts if isinstance(each, Histogram))
        if self._coarser is None:
            return histogram, list(range(histogram.bins + 1))
        within = np.flatnonzero(np.isin(histogram.cuts, self._coarser.cuts)) + 1
        return histogram, [0, *within.tolist(), histogram.bins]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    `ratio` says what is divided by what, from what is counted: a `histogram` of positives and negatives at the points
    of the "grid" or at the metric's own "threshold", and other `statistics`. `bound` is what neither num nor den
    exceeds, given the largest weighted number of samples; num ≤ den where the ratio is `proper`, and otherwise num ≤
    most·den where `most` is given. `undefined` completes the sentence "It is undefined: …". `binning`, with the same
    bound, is how far counting at decision points may have moved the metric from what it is of the scores themselves. A
    metric `of_two` groups has a ratio of the columns of both, and compares the rate `gap_of`.
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
    of_two: Callable[[Columns, Columns, Inputs], Ratio] | None = None
    gap_of: str | None = None

    @property
    def threshold(self) -> bool:
        return self.histogram == "threshold"

    def reading(self, columns: Columns, inputs: Inputs, samples: int) -> Reading:
        """How the metric is read from a line of counts of up to so many weighted samples."""
        if self.of_two is not None:
            both = self.of_two(columns, columns.next_line, inputs)
            return msgspec.structs.replace(self._reading(both, samples, columns, columns.next_line), pairs=True)
        return self._reading(self.ratio(columns, inputs), samples, columns)

    def binning_reading(self, columns: Columns, inputs: Inputs, samples: int) -> Reading | None:
        """How its binning error is read from the counts of the data, if it has one."""
        if self.binning is None:
            return None
        return msgspec.structs.replace(self._reading(self.binning(columns, inputs), samples, columns), of="data")

    def _reading(self, ratio: Ratio, samples: int, *lines: Columns) -> Reading:
        left, right = (LinearMap.stack(side) for side in zip(*ratio.numerator, *ratio.denominator, strict=True))
        below = sum(len(one) for one, _ in ratio.denominator)
        form = Form.bounded(
            numerator=len(left) - below,
            denominator=below,
            bound=self.bound(samples),
            proper=self.proper,
            most=self.most,
        )
        labels = [stretch for line in lines for stretch in line.of_labels]
        labels = [*labels, (lines[-1].end, lines[-1].end + 1)] if labels else []
        of_labels = bool(labels) and all(each.reads_whole(labels) for pair in ratio.denominator for each in pair)
        return Reading(form=form, left=left, right=right, of_labels=of_labels)


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


def _gap(name: str, part_and_whole: Callable[[Cells], Product], of: str, undefined: str) -> Metric:
    """A share of one group less that of another, a/A − b/B: (a·B − b·A + A·B) over A·B is that and one.

    Neither a/A nor b/B is released. Two groups have no sample in common, so that 2·A·B is n²/2 at most.
    """

    def ratio(one: Columns, other: Columns, inputs: Inputs) -> Ratio:
        (a, of_a), (b, of_b) = (part_and_whole(columns.cells(inputs.cut)) for columns in (one, other))
        return Ratio([(a, of_b), (of_a, -b), (of_a, of_b)], [(of_a, of_b)])

    def of_one(_columns: Columns, _inputs: Inputs) -> Ratio:
        raise LocalProtocolError(f"{name} is read from the lines of two groups.")

    return Metric(
        name,
        of_one,
        lambda n: n * n // 2,
        undefined,
        lambda _: Finisher(offset=-1.0),
        proper=False,
        histogram="threshold",
        most=2,
        of_two=ratio,
        gap_of=of,
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


def _of_band(name: str, counted: Callable[[Inputs], Statistic], places: tuple[int, int, int]) -> Metric:
    """Of the samples in a band of probabilities the share of positives, the mean probability, or one over the other.

    `places` are those of samples, positives and the sum of probabilities among what is counted.
    """

    def ratio(columns: Columns, inputs: Inputs) -> Ratio:
        every = columns.of(counted(inputs))
        samples, positives, expected = (every[place] for place in places)
        part, whole = {
            "observed": (positives, samples),
            "expected": (expected, _PROBABILITY_UNITS * samples),
            "o/e": (_PROBABILITY_UNITS * positives, expected),
        }[kind]
        return Ratio([(part, columns.one)], [(whole, columns.one)])

    kind = name.partition(":")[0]
    exact = kind == "observed"
    return Metric(
        name,
        ratio,
        lambda n: n if exact else n * _PROBABILITY_UNITS,
        "no sample is in this band of probabilities" + (", or all have 0" if kind == "o/e" else ""),
        lambda _: Finisher(resolution=0.0 if exact else 1 / _PROBABILITY_UNITS),
        proper=kind != "o/e",
        statistics=lambda inputs: (counted(inputs),),
        probabilities=True,
    )


_PROBABILITY_UNITS = 1 << PROBABILITY_BITS
_OF_BANDS = ("observed", "expected", "o/e")


def _calibration(inputs: Inputs) -> Calibration:
    return Calibration(inputs.grid.scores == "logit")


def _stretches() -> Iterator[Metric]:
    """Of each of ten even stretches of probability."""
    for number, kind in product(range(CALIBRATION_BINS), _OF_BANDS):
        places = (number, CALIBRATION_BINS + number, 2 * CALIBRATION_BINS + number)
        yield _of_band(f"{kind}:{number + 1}", _calibration, places)


@lru_cache(maxsize=1024)
def _band(name: str) -> Metric | None:
    """A metric of a band that is named by its ends, such as "observed:0.01-0.02"; None for other names."""
    kind, _, ends = name.partition(":")
    low, dash, high = ends.partition("-")
    try:
        band = partial(Band, float(low), float(high))
    except ValueError:
        return None
    if kind not in _OF_BANDS or not dash:
        return None
    if not 0.0 <= float(low) < float(high) <= 1.0:
        raise ConfigError(
            f"{ends} is no band of probabilities. Give its lower end and its upper end: {kind}:0.01-0.02."
        )
    return _of_band(name, lambda inputs: band(inputs.grid.scores == "logit"), (0, 1, 2))


# The squares are released this many times as large, since they are small.
_CALIBRATION_SCALE = 1 << 10


def _miscalibration(columns: Columns, inputs: Inputs) -> Ratio:
    """Σ_b (O_b − E_b)² over n²: the observed and expected positives of ten even stretches of probability."""
    every = columns.of(_calibration(inputs))
    bins = range(CALIBRATION_BINS)
    off = [_PROBABILITY_UNITS * every[CALIBRATION_BINS + one] - every[2 * CALIBRATION_BINS + one] for one in bins]
    first = columns.sums(_calibration(inputs), [0], [CALIBRATION_BINS])
    return Ratio(
        [(_CALIBRATION_SCALE * each, each) for each in off], [(_PROBABILITY_UNITS * first, _PROBABILITY_UNITS * first)]
    )


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
    return Survival(inputs.grid, *inputs.targets, coarse=inputs.coarse)


def _concordance(columns: Columns, inputs: Inputs) -> Ratio:
    """Events times the samples they beat, over events times all samples that were watched for longer."""
    counted = _survival(inputs)
    cells, risks = counted.cells, counted.risks
    events = columns.sums(counted, range(cells), range(1, cells + 1))
    beaten = columns.sums(counted, range(cells, 2 * cells), range(cells + 1, 2 * cells + 1))
    at_a_time = columns.sums(counted, range(0, cells, risks), range(risks, cells + 1, risks))
    last = 2 * cells + counted.times
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
        lambda columns, inputs: ratio(columns.of(OwnAuc(inputs.grid, inputs.every)), columns.one),
        bound,
        "no party has two samples of each class",
        finish,
        histogram="grid",
        statistics=lambda inputs: (OwnAuc(inputs.grid, inputs.every),),
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
    _gap("accuracy-gap", lambda c: (c.tp + c.tn, c.samples), "accuracy", "one of the groups has no samples"),
    _gap(
        "precision-gap", lambda c: (c.tp, c.tp + c.fp), "precision", "of one group no sample scores above the threshold"
    ),
    _gap("recall-gap", lambda c: (c.tp, c.positives), "recall", "no sample of one group is positive"),
    _gap("specificity-gap", lambda c: (c.tn, c.negatives), "specificity", "no sample of one group is negative"),
    _gap("called-gap", lambda c: (c.tp + c.fp, c.samples), "accuracy", "one of the groups has no samples"),
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
    *_stretches(),
    Metric(
        "calibration-error",
        _miscalibration,
        lambda n: n * n * _CALIBRATION_SCALE << 2 * PROBABILITY_BITS,
        _NO_SAMPLES,
        lambda _: Finisher(scale=1 / sqrt(_CALIBRATION_SCALE), root=True, resolution=1e-8),
        proper=False,
        statistics=lambda inputs: (_calibration(inputs),),
        probabilities=True,
        most=_CALIBRATION_SCALE,
    ),
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
        found = METRICS.get(self.name) or _band(self.name)
        if found is None:
            raise ConfigError(f"There is no metric {self.name!r}. Choose among: {NAMES}.")
        return found

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


@lru_cache(maxsize=1024)
def parse_spec(text: str) -> Spec:
    """Read a metric's name, with a threshold behind an @ where it takes one.

    >>> parse_spec("f1@0.3")
    Spec(name='f1', threshold=0.3)
    >>> str(parse_spec("accuracy"))
    'accuracy@0.5'
    """
    name, at, behind = text.strip().partition("@")
    if not Spec(name).metric.threshold:
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
