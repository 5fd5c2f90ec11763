"""Counting where one machine is too small for a party's rows: on Ray Data or Spark, batch by Arrow batch.

Each worker counts the batches that it holds, and counts add up; rows stay where they are. What comes back is `Counts`,
which `fheval.evaluate` takes for a party.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from fheval.counting import Counts, Grid, TableColumns, as_grid
from fheval.counting.frames import TableFrame
from fheval.counting.grid import DEFAULT_POINTS
from fheval.errors import InputError

_BATCH_ROWS = 1 << 18


def count_ray(
    dataset: Any,
    decision_points: int | Grid = DEFAULT_POINTS,
    *,
    label: str = "label",
    score: str = "score",
    positive: object = None,
) -> Counts:
    """Count a Ray dataset; a bad value in any of its batches is an `InputError`."""
    counter = _Counter(as_grid(decision_points), label, score, positive)
    counted = dataset.select_columns([label, score]).map_batches(
        counter, batch_format="pyarrow", batch_size=_BATCH_ROWS
    )
    return counter.total(counted.iter_rows())


def count_spark(
    frame: Any,
    decision_points: int | Grid = DEFAULT_POINTS,
    *,
    label: str = "label",
    score: str = "score",
    positive: object = None,
) -> Counts:
    """Count a frame of Spark; a bad value in any of its batches is an `InputError`."""
    counter = _Counter(as_grid(decision_points), label, score, positive)

    def counted(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            yield from counter(pyarrow.Table.from_batches([batch])).to_batches()

    rows = (
        frame.select(label, score).mapInArrow(counted, "tp array<bigint>, fp array<bigint>, problem string").collect()
    )
    return counter.total(row.asDict() for row in rows)


class _Counter:
    """Counts a batch: an Arrow table of labels and scores in, one of a single row out. It travels to workers."""

    def __init__(self, grid: Grid, label: str, score: str, positive: object) -> None:
        self._grid = grid
        self._columns = TableColumns(label=label, models=(score,), positive=None if positive is None else str(positive))

    def __call__(self, batch: Any) -> Any:
        import pyarrow

        tp: list[int] = []
        fp: list[int] = []
        problem = None
        if batch.num_rows:
            # An error of ours would reach the caller wrapped in many lines of the engine's own.
            try:
                counts = TableFrame(batch, self._columns, "A batch").count(self._grid)
                tp, fp = counts.tp.tolist(), counts.fp.tolist()
            except InputError as error:
                problem = str(error)
        kinds = pyarrow.list_(pyarrow.int64())
        return pyarrow.table(
            {
                "tp": pyarrow.array([tp], kinds),
                "fp": pyarrow.array([fp], kinds),
                "problem": pyarrow.array([problem], pyarrow.string()),
            }
        )

    def total(self, rows: Iterable[Any]) -> Counts:
        """The counts of all batches together."""
        found = list(rows)
        for row in found:
            if row["problem"] is not None:
                raise InputError(row["problem"])
        batches = [
            Counts(tp=np.asarray(row["tp"], dtype=np.int64), fp=np.asarray(row["fp"], dtype=np.int64), grid=self._grid)
            for row in found
            if len(row["tp"])
        ]
        if not batches:
            raise InputError("The data: there are no rows. Give at least one label and score.")
        return reduce(add, batches)
