"""True and false positives at each decision point: what a party knows, and all that a metric needs.

`Tally` is the hot loop: a histogram of scores between decision points, one for each class, in one pass. A sample's bin
is the number of cuts below its score, where the highest cut does not count (nothing is positive at the first point) and
the lowest always does (everything is positive at the last). Blocks are small enough to stay in the second-level cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fheval.counting.chunks import Chunk, Place, chunk_of_arrays
from fheval.counting.grid import DEFAULT_POINTS, Grid, as_grid
from fheval.errors import InputError, UndefinedMetric

# T^n = TP^n + TP^{n-1} must fit an int64.
MAX_SAMPLES = 1 << 62


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """TP^n and FP^n at the N points of a grid; `+` merges the counts of disjoint sets of samples.

    A sample is positive at θ_n when its score is above θ_n, strictly; the last point counts every sample.
    `tp` and `fp` are read-only int64 arrays of shape (N,), never decreasing, from 0 up to the class's total.

    >>> counts = Counts.from_scores([1, 0, 1, 0], [0.9, 0.5, 0.4, 0.0], Grid.even(3))
    >>> counts.tp.tolist(), counts.fp.tolist()
    ([0, 1, 2], [0, 0, 2])
    >>> counts.auc()
    0.75
    >>> counts + Counts.zero(counts.grid) == counts
    True
    """

    tp: NDArray[np.int64]
    fp: NDArray[np.int64]
    grid: Grid

    def __post_init__(self) -> None:
        object.__setattr__(self, "tp", _checked("tp", self.tp, self.grid))
        object.__setattr__(self, "fp", _checked("fp", self.fp, self.grid))

    @classmethod
    def from_scores(
        cls,
        labels: ArrayLike,
        scores: ArrayLike,
        decision_points: int | Grid = DEFAULT_POINTS,
        *,
        source: str | None = None,
    ) -> Counts:
        """Count labels (0 or 1; integers, floats or booleans) and scores, row by row the same sample.

        Scores are compared as float64. `source` names the data in error messages.
        """
        return count_chunks(
            [chunk_of_arrays(labels, scores, source=source)], decision_points, source=source or "The data"
        )

    @classmethod
    def from_thresholds(
        cls, tps: ArrayLike, fps: ArrayLike, thresholds: ArrayLike, decision_points: int | Grid | None = None
    ) -> Counts:
        """Take counts that were made at thresholds, where a sample is positive when its score is at least as high.

        So scikit-learn's `confusion_matrix_at_thresholds` has them, whose thresholds are the scores that occur: these
        are counted again at `decision_points`. Without decision points the thresholds themselves become the grid, which
        parties can only add up if all of them use the same ones.

        >>> Counts.from_thresholds([1, 2], [0, 2], [0.5, 0.0]).auc()
        0.75
        """
        limits, true, false = _at_thresholds(thresholds, tps, fps)
        if decision_points is not None:
            return _counted_again(limits, true, false, as_grid(decision_points))
        # s ≥ θ is s > θ⁻, the float below θ. One point above counts nothing and, where θ is not low enough for all
        # samples, nothing tells how many there are; so the last threshold must have counted them all.
        points = [np.nextafter(limits[0], np.inf), *np.nextafter(limits, -np.inf)]
        return cls(tp=np.concatenate([[0], true]), fp=np.concatenate([[0], false]), grid=Grid.explicit(points))

    @classmethod
    def from_confusion(cls, matrices: ArrayLike, thresholds: ArrayLike) -> Counts:
        """Take the state of a binned metric: for each threshold the matrix ((TN, FP), (FN, TP)).

        TorchMetrics' `BinaryROC`, `BinaryAUROC` and the like keep it in `confmat` when they are made with thresholds:
        `Counts.from_confusion(metric.confmat, metric.thresholds)`. All parties must use the same thresholds.
        """
        tables, limits = np.asarray(matrices), np.asarray(thresholds, dtype=np.float64)
        if tables.ndim != 3 or tables.shape[1:] != (2, 2) or len(tables) != len(limits):
            raise InputError(
                f"The matrices have the shape {tables.shape}, where ({len(limits)}, 2, 2) is needed. "
                "Give one of two by two for each threshold."
            )
        if len(tables) and tables[np.argmin(limits), :, 0].any():
            raise InputError("The lowest threshold leaves samples out. Use thresholds from the lowest score on.")
        return cls.from_thresholds(tables[:, 1, 1], tables[:, 0, 1], limits)

    @classmethod
    def zero(cls, decision_points: int | Grid = DEFAULT_POINTS) -> Counts:
        """Return the counts of no samples at all, the neutral element of `+`."""
        grid = as_grid(decision_points)
        nothing = np.zeros(len(grid), dtype=np.int64)
        return cls(tp=nothing, fp=nothing, grid=grid)

    @property
    def positives(self) -> int:
        """P = TP^{N-1}, the number of samples with label 1."""
        return int(self.tp[-1])

    @property
    def negatives(self) -> int:
        """Q = FP^{N-1}, the number of samples with label 0."""
        return int(self.fp[-1])

    @property
    def samples(self) -> int:
        return self.positives + self.negatives

    @property
    def t(self) -> NDArray[np.int64]:
        """T^n = TP^n + TP^{n-1} for n = 1 … N−1, shape (N − 1,)."""
        return self.tp[1:] + self.tp[:-1]

    @property
    def f(self) -> NDArray[np.int64]:
        """F^n = FP^n − FP^{n-1} for n = 1 … N−1, shape (N − 1,)."""
        return self.fp[1:] - self.fp[:-1]

    def numerator(self) -> int:
        """Return num = Σ_n T^n·F^n, an exact integer."""
        return sum(map(mul, self.t.tolist(), self.f.tolist()))

    def denominator(self) -> int:
        """Return den = 2·P·Q, an exact integer."""
        return 2 * self.positives * self.negatives

    def auc(self) -> float:
        """Return num/den, the area under the ROC curve by the trapezoidal rule, rounded once."""
        if not self.denominator():
            missing = "1" if not self.positives else "0"
            raise UndefinedMetric(
                f"The AUC is undefined: no sample has label {missing}. Add data that has both classes."
            )
        return self.numerator() / self.denominator()

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if self.grid != other.grid:
            raise InputError(
                f"Counts at {self.grid} and at {other.grid} cannot be added. Count both at the same points."
            )
        return Counts(tp=self.tp + other.tp, fp=self.fp + other.fp, grid=self.grid)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        same_counts = np.array_equal(self.tp, other.tp) and np.array_equal(self.fp, other.fp)
        return self.grid == other.grid and same_counts

    def __hash__(self) -> int:
        return hash((self.grid, self.tp.tobytes(), self.fp.tobytes()))

    def __repr__(self) -> str:
        # Counts are a party's private data: a log that prints them by accident must not hold them.
        return f"<Counts at {self.grid}>"


def count_chunks(
    chunks: Iterable[Chunk], decision_points: int | Grid = DEFAULT_POINTS, *, source: str = "The data"
) -> Counts:
    """Count chunks one at a time; no more than one is held. `source` names them all if there are no rows."""
    tally = Tally(as_grid(decision_points))
    rows = 0
    for chunk in chunks:
        tally.add(chunk)
        rows += len(chunk)
    if not rows:
        raise InputError(f"{source}: there are no rows. Give at least one label and score.")
    positives, negatives = tally.per_bin()
    return Counts(tp=_running(positives), fp=_running(negatives), grid=tally.grid)


def binning_error(labels: NDArray[np.integer[Any]], scores: NDArray[np.float64], grid: Grid) -> float:
    """How far counting at the grid's points takes the AUC of these rows from its exact value; 0 for one class only.

    For the eyes of whoever owns the rows: a large error says that the grid does not fit the scores.

    >>> labels, scores = np.array([1, 0, 1, 0]), np.array([0.004, 0.003, 0.002, 0.001])
    >>> binning_error(labels, scores, Grid.even(100)), binning_error(labels, scores, Grid.wide(100))
    (0.25, 0.0)
    """
    order = np.argsort(scores, kind="stable")
    ordered, positive = np.asarray(scores)[order], np.asarray(labels)[order] == 1
    negatives = np.concatenate(([0], np.cumsum(~positive)))
    first, last = (np.searchsorted(ordered, ordered, side) for side in ("left", "right"))
    total = int(positive.sum()) * int(negatives[-1])
    if not total:
        return 0.0
    # Twice the number of negatives below each positive, ties by half.
    exact = int((negatives[first] + negatives[last])[positive].sum()) / (2 * total)
    return abs(Counts.from_scores(labels, scores, grid).auc() - exact)


def _at_thresholds(
    thresholds: ArrayLike, tps: ArrayLike, fps: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Thresholds, highest first, and the whole numbers that were counted at each."""
    limits = np.asarray(thresholds, dtype=np.float64)
    true, false = np.asarray(tps), np.asarray(fps)
    if limits.ndim != 1 or not len(limits) or true.shape != limits.shape or false.shape != limits.shape:
        raise InputError(
            "Counts at thresholds come as three lists of one length. Give one of each for every threshold."
        )
    if not (np.isfinite(limits).all() and (true == np.rint(true)).all() and (false == np.rint(false)).all()):
        raise InputError("Thresholds are finite numbers and counts are whole. Give counts rather than rates.")
    order = np.argsort(-limits, kind="stable")
    if (np.diff(limits[order]) == 0).any():
        raise InputError("A threshold is given twice. Name each once.")
    return limits[order], true[order].astype(np.int64), false[order].astype(np.int64)


def _counted_again(
    limits: NDArray[np.float64], true: NDArray[np.int64], false: NDArray[np.int64], grid: Grid
) -> Counts:
    """The same samples at the points of a grid, where each threshold is the score of those it adds."""
    chunk = Chunk(np.zeros(len(limits), dtype=np.uint8), limits, scores_from=Place(None, "thresholds"))
    chunk.check(limits, grid.score_range)
    stretch = bin_numbers(grid, limits)
    per_bin = []
    for counted in (true, false):
        added = np.diff(counted, prepend=0)
        sums = np.zeros(len(grid) - 1, dtype=np.int64)
        np.add.at(sums, stretch, added)
        per_bin.append(_running(sums))
    return Counts(tp=per_bin[0], fp=per_bin[1], grid=grid)


def _running(per_bin: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(per_bin)))


def _checked(name: str, values: NDArray[np.int64], grid: Grid) -> NDArray[np.int64]:
    array = np.array(values)
    if array.shape != (len(grid),) or array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold {len(grid)} integers, one for each decision point of {grid}.")
    array = array.astype(np.int64)
    # A curve that does not start at the origin would lose its first corner, and the AUC would be too small.
    if array[0] != 0 or (np.diff(array) < 0).any():
        raise InputError(f"{name} must start at 0 and never decrease from one decision point to the next.")
    if array[-1] >= MAX_SAMPLES:
        raise InputError(f"{name} counts 2^62 samples or more, which is more than its integers hold.")
    array.flags.writeable = False
    return array


# 65,536 rows: measured fastest or within 5 % of it for 10⁷ scores (from 8,192 to 131,072 rows).
BLOCK_ROWS = 1 << 16

# Gives the number of interior cuts below each score, in a buffer that the next call uses again.
Binning = Callable[[NDArray[np.float64]], NDArray[np.signedinteger]]
# Puts scores into cells that rise with them: a score in a lower cell is the lower score.
Cells = Callable[[NDArray[np.float64]], NDArray[np.int64]]


class Tally:
    """Counts of samples in each bin and class so far; memory does not depend on the number of samples."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        # Adding up a block's histogram costs as much as two points a row; blocks grow with large grids.
        self._rows = max(BLOCK_ROWS, 2 * len(grid))
        self._scores = np.empty(self._rows, dtype=np.float64)
        self._labels = np.empty(self._rows, dtype=_key_type(grid))
        self._histogram = np.zeros(2 * (len(grid) - 1), dtype=np.int64)
        self._bins = _binning(grid, self._rows)

    def add(self, chunk: Chunk) -> None:
        """Count a chunk; after an `InputError`, which names a bad value, the tally is of no use."""
        for start in range(0, len(chunk), self._rows):
            self._add_block(chunk, start)

    def per_bin(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return positives and negatives between successive points, highest first, shape (N − 1,) each."""
        by_class = self._histogram.reshape(-1, 2)
        return by_class[::-1, 1].copy(), by_class[::-1, 0].copy()

    def _add_block(self, chunk: Chunk, start: int) -> None:
        stop = min(start + self._rows, len(chunk))
        scores = self._as_float64(chunk.scores[start:stop])
        chunk.check(scores, self.grid.score_range, start)
        labels = self._labels[: stop - start]
        np.copyto(labels, chunk.labels[start:stop], casting="unsafe")
        keys = self._bins(scores)
        np.left_shift(keys, 1, out=keys)
        np.add(keys, labels, out=keys)
        self._histogram += np.bincount(keys, minlength=len(self._histogram))

    def _as_float64(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Every score is compared as a float64, whatever its type; float32 widens exactly."""
        if scores.dtype == np.float64 and scores.flags.c_contiguous and scores.dtype.isnative:
            return scores
        widened = self._scores[: len(scores)]
        np.copyto(widened, scores, casting="unsafe")
        return widened


def bin_numbers(grid: Grid, scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Number each score's stretch between successive points, highest first, from 0 to N − 2.

    Stretch n runs from θ_n, included, down to θ_{n+1}, excluded; the first and the last have no outer end, so that
    every score is in one, as `Counts` has it.

    >>> bin_numbers(Grid.even(3), np.array([1.0, 0.5, 0.1, 0.0])).tolist()
    [0, 1, 1, 1]
    """
    return len(grid) - 2 - _binning(grid, len(scores))(scores).astype(np.intp)


def _binning(grid: Grid, rows: int) -> Binning:
    if grid.kind == "even" and grid.scores == "probability":
        return _even_binning(grid, rows)
    return _table_binning(grid, rows)


def _key_type(grid: Grid) -> type[np.signedinteger]:
    """What holds a bin and a label together: the shorter, the more of what is looked up stays in the cache."""
    return np.int16 if 2 * len(grid) < 1 << 15 else np.int32


def _interior(grid: Grid) -> NDArray[np.float64]:
    """The cuts that tell one bin from another, lowest first."""
    return np.ascontiguousarray(grid.cuts[-2:0:-1])


def _even_binning(grid: Grid, rows: int) -> Binning:
    """Bins of the even grid by one multiplication, and a comparison where it leaves a doubt; exact for every float.

    Let φ_j be the float nearest to j/M, M = N − 1, and s in (φ_{m-1}, φ_m], so that m − 1 interior cuts are below s.
    Rounding is monotone, so s > φ_{m-1} means s > (m−1)/M, hence fl(s·M) ≥ m−1; and s ≤ φ_m means fl(s·M) ≤ m or,
    if φ_m was rounded up, at most the next float, hence fl(s·M) < m + 1. The whole part i of fl(s·M) is therefore m−1,
    or it is m, s ≤ φ_i, and fl(s·M) − i is at most a step of floats up to M. i − [s ≤ φ_i] is m − 1 in both cases.
    """
    steps = float(len(grid) - 1)
    slack = np.spacing(steps)
    ascending = np.ascontiguousarray(grid.points[::-1])
    # Nothing is below the lowest point, which counts everything: the lowest bin takes it.
    ascending[0] = -np.inf
    product, whole = np.empty(rows), np.empty(rows)
    index = np.empty(rows, dtype=_key_type(grid))

    def bins(scores: NDArray[np.float64]) -> NDArray[np.signedinteger]:
        n = len(scores)
        fraction, below = product[:n], index[:n]
        np.multiply(scores, steps, out=fraction)
        np.floor(fraction, out=whole[:n])
        np.copyto(below, whole[:n], casting="unsafe")
        np.subtract(fraction, whole[:n], out=fraction)
        if n and fraction.min() <= slack:
            close: Any = np.flatnonzero(fraction <= slack)
            if len(close) > n // 8:
                # Rounded scores: to compare all is then faster than to pick some, and as right.
                close = slice(None)
            below[close] -= scores[close] <= ascending[below[close]]
        return below

    return bins


def _table_binning(grid: Grid, rows: int) -> Binning:
    """Bins of any grid by the cell that a score is in, and comparisons in cells that hold a cut; exact for every float.

    Cells rise with scores, so that a cut in a lower cell than a score's is below the score, and one in a higher cell
    is not: only cuts in the score's own cell are left to compare it with.
    """
    cuts, cells = _interior(grid), _cells(grid, rows)
    table, alone = _cell_table(grid)
    index, doubtful = np.empty(rows, dtype=table.dtype), np.empty(rows, dtype=np.bool_)

    def bins(scores: NDArray[np.float64]) -> NDArray[np.signedinteger]:
        n = len(scores)
        # "clip" puts −0 into the lowest cell, and lets take write to `out` without a copy.
        below = np.take(table, cells(scores), out=index[:n], mode="clip")
        close = np.flatnonzero(np.less(below, 0, out=doubtful[:n]))
        if alone:
            cut = ~below[close]
            below[close] = cut + (scores[close] > cuts[cut])
        else:
            below[close] = np.searchsorted(cuts, scores[close], side="left")
        return below

    return bins


@lru_cache(maxsize=8)
def _cell_table(grid: Grid) -> tuple[NDArray[np.signedinteger], bool]:
    """For each cell the number of cuts below it, or ~j where cut j is in it; and whether no cell holds two cuts."""
    cuts = _interior(grid)
    holding, first, held = np.unique(_cells(grid, len(cuts))(cuts), return_index=True, return_counts=True)
    # The cells after one that holds cuts, up to the next, have the same number below them.
    edges = np.concatenate([[-1], holding, [_CELLS[grid.scores]]])
    below = np.append(0, first + held).astype(_key_type(grid))
    table = np.repeat(below, np.diff(edges))[1:]
    table[holding] = ~first.astype(table.dtype)
    table.flags.writeable = False
    return table, bool(len(held) == len(cuts))


def _cells(grid: Grid, rows: int) -> Cells:
    if grid.scores == "probability":
        return _odds_cells(rows)
    return _linear_cells(_interior(grid), rows)


# Mantissa bits of the odds that tell cells apart. At 1,000 wide points one score in sixty is then in a cell with a cut,
# and the part of the table that usual scores need stays in the second-level cache.
_ODDS_BITS = 11
_ODDS_SHIFT = np.finfo(np.float64).nmant - _ODDS_BITS
# In the place of 1, so that the odds of a score of 1 are not infinite.
_ABOVE_ONE = 1.0 + np.finfo(np.float64).eps
_LARGEST_ODDS = 1.0 / np.finfo(np.float64).eps
_LINEAR_CELLS = 1 << 16
_CELLS = {
    "probability": (int(np.float64(_LARGEST_ODDS).view(np.int64)) >> _ODDS_SHIFT) + 1,
    "logit": _LINEAR_CELLS,
    "any": _LINEAR_CELLS,
}


def _odds_cells(rows: int) -> Cells:
    """Cells of probabilities, equally fine towards 0 and towards 1: the first bits of s/(1 + 2^-52 − s).

    The difference falls and the quotient rises with s, rounded or not; so does a float with its bits, as long as it is
    positive. For s = 1 it is 2^52, and its cell the last.
    """
    odds = np.empty(rows)

    def cells(scores: NDArray[np.float64]) -> NDArray[np.int64]:
        ratio = odds[: len(scores)]
        np.subtract(_ABOVE_ONE, scores, out=ratio)
        np.divide(scores, ratio, out=ratio)
        bits = ratio.view(np.int64)
        return np.right_shift(bits, _ODDS_SHIFT, out=bits)

    return cells


def _linear_cells(cuts: NDArray[np.float64], rows: int) -> Cells:
    """Cells of equal width from the lowest to the highest cut."""
    low, high = (float(cuts[0]), float(cuts[-1])) if len(cuts) else (0.0, 0.0)
    scale = (_LINEAR_CELLS - 1) / max(high - low, sys.float_info.min)
    if not scale > 0 or not scale * (high - low) < _LINEAR_CELLS:
        # Too far apart, or too close together, to be told apart like this: one cell has them all.
        low = high = scale = 0.0
    # To go through 32 bits is faster than not to.
    place, short, index = np.empty(rows), np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int64)

    def cells(scores: NDArray[np.float64]) -> NDArray[np.int64]:
        n = len(scores)
        np.maximum(scores, low, out=place[:n])
        np.minimum(place[:n], high, out=place[:n])
        np.subtract(place[:n], low, out=place[:n])
        np.multiply(place[:n], scale, out=place[:n])
        np.copyto(short[:n], place[:n], casting="unsafe")
        np.copyto(index[:n], short[:n])
        return index[:n]

    return cells
