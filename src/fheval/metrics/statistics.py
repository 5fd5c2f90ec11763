"""What is counted: integers that add up over rows, parties and chunks, once for the data and once for each resample.

A statistic turns rows and their weights into a table of integers, one line for each line of weights. Line 0 has the
weight 1 everywhere and is the data itself; the others are resamples. The histogram of scores is in `registry`, where
nearly all metrics are read from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fheval.counting import Grid, bin_numbers
from fheval.metrics import fixed_point
from fheval.metrics.fixed_point import Floats, Integers

Weights = NDArray[np.uint8]

Task = Literal["binary", "regression", "values", "survival"]
Loss = Literal["brier", "log-loss"]

# Sums of a block stay far below 2^53, where doubles count without error; see `weighted_sums`.
MOST_ROWS = 1 << 14

CALIBRATION_BINS = 10
PROBABILITY_BITS = 20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows:
    """Checked rows of one model; a label is 0 or 1 in a binary task and the true value in a regression.

    Where values are averaged by themselves there are no labels, and `scores` are the values. In a survival task the
    label is the time of an event, or minus the time until which a sample was watched without one.
    """

    labels: NDArray[Any]
    scores: Floats

    def at(self, chosen: NDArray[np.intp]) -> Rows:
        return Rows(self.labels[chosen], self.scores[chosen])

    def probabilities(self, *, logits: bool) -> Floats:
        return np.exp(-np.logaddexp(0.0, -self.scores)) if logits else self.scores


class Statistic(Protocol):
    """`width` integers from labels of one task; equal statistics are counted once, whichever metrics want them.

    No sample adds more than 2^bits to any of them.
    """

    @property
    def task(self) -> Task: ...

    @property
    def width(self) -> int: ...

    @property
    def bits(self) -> int: ...

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        """Count at most `MOST_ROWS` rows under each line of weights, shape (lines, width)."""
        ...


@dataclass(frozen=True, slots=True)
class Losses:
    """The number of samples, and the sum of their losses in fixed point."""

    kind: Loss
    logits: bool
    task: Task = "binary"
    width: int = 2

    @property
    def bits(self) -> int:
        return fixed_point.BITS + (0 if self.kind == "brier" else fixed_point.LARGEST_LOG_LOSS.bit_length())

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        probabilities = rows.probabilities(logits=self.logits)
        losses = fixed_point.brier_losses if self.kind == "brier" else fixed_point.log_losses
        return weighted_sums([np.ones(len(rows.scores)), losses(rows.labels, probabilities)], weights)


@dataclass(frozen=True, slots=True)
class Predicted:
    """The numbers of positives and of negatives, and the sum of probabilities in fixed point."""

    logits: bool
    task: Task = "binary"
    width: int = 3
    bits: int = fixed_point.BITS

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        probabilities = fixed_point.in_units(rows.probabilities(logits=self.logits))
        return weighted_sums([rows.labels == 1, rows.labels == 0, probabilities], weights)


@dataclass(frozen=True, slots=True)
class Values:
    """The number of values, and their sum in units of 2^-24 of the way from `low` to `high`."""

    low: float
    high: float
    task: Task = "values"
    width: int = 2
    bits: int = fixed_point.BITS

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        values = fixed_point.within_range(rows.scores, self.low, self.high)
        return weighted_sums([np.ones(len(values)), values], weights)


# Measured on 2,000 samples with half of the events in the first tenth of the time: C is 0.0025 to 0.003 too high with
# 160 steps of time, and twice that with 80; a hundred steps of scores add nothing to it.
TIME_STEPS = 160
MOST_RISK_STEPS = 100
# Of resamples, which tell how C scatters about its value.
COARSE_TIME_STEPS = 20
MOST_COARSE_RISK_STEPS = 20


@dataclass(frozen=True, slots=True)
class Survival:
    """Two numbers for each step of time, from `low` to `high`, and of scores, highest first; a third for each time.

    They are events there; twice the samples that were watched for longer and have a lower score, and once those with a
    score in the same step; and all samples that were watched for longer. Longer means into a later step or, without an
    event, into the same: who was watched until the time of another's event outlived it, as in lifelines.
    """

    grid: Grid
    low: float
    high: float
    coarse: bool = False
    task: Task = "survival"
    bits: int = 1

    @property
    def times(self) -> int:
        """How many steps of time there are."""
        return COARSE_TIME_STEPS if self.coarse else TIME_STEPS

    @property
    def risks(self) -> int:
        """How many steps of scores there are: stretches of the grid, so many of them together."""
        return -(-(len(self.grid) - 1) // self._together)

    @property
    def _together(self) -> int:
        return -(-(len(self.grid) - 1) // (MOST_COARSE_RISK_STEPS if self.coarse else MOST_RISK_STEPS))

    @property
    def cells(self) -> int:
        return self.times * self.risks

    @property
    def width(self) -> int:
        return 2 * self.cells + self.times

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        step = np.abs(rows.labels) - self.low
        times = np.clip((step * (self.times / (self.high - self.low))).astype(np.intp), 0, self.times - 1)
        keys = times * self.risks + bin_numbers(self.grid, rows.scores) // self._together
        event = rows.labels > 0
        shape = (len(weights), self.times, self.risks)
        everyone = weighted_histogram(keys, self.cells, weights).reshape(shape)
        events = weighted_histogram(keys[event], self.cells, weights[:, event])
        later = everyone[:, ::-1].cumsum(axis=1)[:, ::-1] - events.reshape(shape)
        at_risk = later.sum(axis=2)
        # With the highest scores first, those of lower ones come behind.
        beaten = 2 * (at_risk[..., np.newaxis] - later.cumsum(axis=2)) + later
        return np.concatenate([events, beaten.reshape(len(weights), -1), at_risk], axis=1)


@dataclass(frozen=True, slots=True)
class Calibration:
    """For ten even stretches of probability: how many samples, how many positives, and the sum of probabilities.

    As in scikit-learn, a stretch has its upper end and not its lower one. Probabilities are in units of 2^-20, so that
    a sum over 2^24 samples stays below the 46 bits of a prime.
    """

    logits: bool
    task: Task = "binary"
    width: int = 3 * CALIBRATION_BINS
    bits: int = PROBABILITY_BITS

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        probabilities = rows.probabilities(logits=self.logits)
        edges = np.arange(1, CALIBRATION_BINS) / CALIBRATION_BINS
        bins = np.searchsorted(edges, probabilities)
        units = np.rint(probabilities * (1 << PROBABILITY_BITS))
        counted = np.empty((len(weights), self.width), dtype=np.int64)
        for line, own in enumerate(weights):
            parts = (own, own * (rows.labels == 1), own * units)
            counted[line] = np.concatenate([np.bincount(bins, part, CALIBRATION_BINS) for part in parts])
        return counted


@dataclass(frozen=True, slots=True)
class Band:
    """Of the samples whose probability is above `low` and at most `high`, or 0 if `low` is: the same three numbers."""

    low: float
    high: float
    logits: bool
    task: Task = "binary"
    width: int = 3
    bits: int = PROBABILITY_BITS

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        probabilities = rows.probabilities(logits=self.logits)
        inside = (probabilities <= self.high) & ((probabilities > self.low) | (self.low == 0.0))
        units = np.rint(probabilities * (1 << PROBABILITY_BITS))
        return weighted_sums([inside, inside & (rows.labels == 1), inside * units], weights)


@dataclass(frozen=True, slots=True)
class Errors:
    """n, Σ|e|, Σe² (high, low), Σy, Σy² (high, low), of values in units of 2^-24 of the target range."""

    low: float
    high: float
    task: Task = "regression"
    width: int = 7
    bits: int = fixed_point.BITS

    def tally(self, rows: Rows, weights: Weights) -> Integers:
        truth = fixed_point.within_range(rows.labels, self.low, self.high)
        errors = truth - fixed_point.within_range(rows.scores, self.low, self.high)
        columns = [
            np.ones(len(truth)),
            np.abs(errors),
            *fixed_point.squares(errors),
            truth,
            *fixed_point.squares(truth),
        ]
        return weighted_sums(columns, weights)


def weighted_histogram(keys: NDArray[np.intp], bins: int, weights: Weights) -> Integers:
    """Add up the weights of each key, for each line of weights."""
    counted = np.empty((len(weights), bins), dtype=np.int64)
    # Weights of one everywhere are counted several times faster without them.
    counted[0] = np.bincount(keys, minlength=bins)
    for line in range(1, len(weights)):
        counted[line] = np.bincount(keys, weights[line], bins)
    return counted


def weighted_sums(
    columns: Sequence[NDArray[np.int64] | NDArray[np.float64] | NDArray[np.bool_]], weights: Weights
) -> Integers:
    """Σ_i w_i·x_i for each line of weights and each column of integers.

    In doubles, and exact in any order of addition: 2^14 rows of up to 2^30 with weights of up to 12 stay below 2^48.
    """
    return np.rint(weights.astype(np.float64) @ np.stack(columns, axis=1).astype(np.float64)).astype(np.int64)
