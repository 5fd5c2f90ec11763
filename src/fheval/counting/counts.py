"""True and false positives at each decision point: what a party knows, and all that a metric needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fheval.counting.chunks import Chunk, chunk_of_arrays
from fheval.counting.grid import Grid, as_grid
from fheval.counting.tally import Tally
from fheval.errors import InputError, UndefinedMetric

# T^n = TP^n + TP^{n-1} must fit an int64.
MAX_SAMPLES = 1 << 62


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """TP^n and FP^n at the N points of a grid; `+` merges the counts of disjoint sets of samples.

    A sample is positive at θ_n when its score is above θ_n, strictly; the last point counts every sample.
    `tp` and `fp` are read-only int64 arrays of shape (N,), never decreasing, from 0 up to the class's total.

    >>> counts = Counts.from_scores([1, 0, 1, 0], [0.9, 0.5, 0.4, 0.0], decision_points=3)
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
        cls, labels: ArrayLike, scores: ArrayLike, decision_points: int | Grid = 1000, *, source: str | None = None
    ) -> Counts:
        """Count labels (0 or 1; integers, floats or booleans) and scores, row by row the same sample.

        Scores are compared as float64. `source` names the data in error messages.
        """
        return count_chunks(
            [chunk_of_arrays(labels, scores, source=source)], decision_points, source=source or "The data"
        )

    @classmethod
    def zero(cls, decision_points: int | Grid = 1000) -> Counts:
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
        """P + Q."""
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


def count_chunks(chunks: Iterable[Chunk], decision_points: int | Grid = 1000, *, source: str = "The data") -> Counts:
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
