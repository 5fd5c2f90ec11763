"""One party's rows for a batch of evaluations: labels, the scores of one or more models, groups and clusters.

A table may be all of a party's rows or a stretch of them; whoever counts goes through tables one at a time, so that
a large file is never held as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fheval.counting.chunks import Column, Place, numeric_array
from fheval.errors import InputError

# Text or numbers; None and NaN stand for a missing name.
Names = ArrayLike | Sequence[object]

# The name of the only model where models are not told apart.
UNNAMED = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Table:
    """Rows of one party; make one from arrays with `Table.of`.

    `scores` has one column for each model, or one for each class of each model. `first_row` counts from 0;
    `first_line` counts from 1 and is there only where row i sits on line `first_line` + i.
    """

    labels: Column
    scores: Mapping[str, tuple[Column, ...]]
    groups: Column | None = None
    clusters: Column | None = None
    first_row: int = 0
    first_line: int | None = None

    @classmethod
    def of(
        cls,
        labels: ArrayLike,
        scores: ArrayLike | Mapping[str, ArrayLike],
        *,
        groups: Names | None = None,
        clusters: Names | None = None,
        source: str | None = None,
    ) -> Table:
        """Take arrays of one length; `source` stands for a file's name in messages.

        `scores` is an array, or one for each model by its name; an array has a score a row, or a row of scores, one
        for each class. `groups` and `clusters` may be strings or numbers.

        >>> table = Table.of([1, 0], {"old": [0.7, 0.4], "new": [0.9, 0.1]}, groups=["F", "M"])
        >>> list(table.scores), len(table)
        (['old', 'new'], 2)
        """
        named = scores if isinstance(scores, Mapping) else {UNNAMED: scores}
        table = cls(
            labels=Column(_one_dimension(labels, source, "labels"), Place(source, "labels")),
            scores={name: _score_columns(values, source, name or "scores") for name, values in named.items()},
            groups=None if groups is None else Column(_names(groups, source, "groups"), Place(source, "groups")),
            clusters=None if clusters is None else Column(_names(clusters, source, "clusters"), Place(source)),
        )
        columns = [("scores", column) for model in table.scores.values() for column in model]
        for name, column in (*columns, ("groups", table.groups), ("clusters", table.clusters)):
            if column is not None and len(column.values) != len(table):
                raise InputError(
                    f"{source or 'The data'}: {len(table)} labels but {len(column.values)} {name}. "
                    "Give one of each for every row."
                )
        return table

    def __len__(self) -> int:
        return len(self.labels.values)

    def rows(self, start: int, stop: int) -> Table:
        """The rows start … stop − 1, without copying them."""

        def cut(column: Column) -> Column:
            return Column(column.values[start:stop], column.place)

        return Table(
            labels=cut(self.labels),
            scores={name: tuple(map(cut, columns)) for name, columns in self.scores.items()},
            groups=self.groups and cut(self.groups),
            clusters=self.clusters and cut(self.clusters),
            first_row=self.first_row + start,
            first_line=None if self.first_line is None else self.first_line + start,
        )

    def refuse(self, column: Column, index: int, fault: str) -> InputError:
        """The error for one bad value, named by file, row and column."""
        line = None if self.first_line is None else self.first_line + index
        return InputError(f"{column.place.at(self.first_row + index, line)}: {fault}. Correct it or leave the row out.")


def _one_dimension(values: ArrayLike, source: str | None, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim == 1 and (array.dtype.kind in "US" or (array.dtype.kind == "O" and array.size)):
        return np.asarray([str(value) for value in array.tolist()], dtype=np.str_)
    return numeric_array(array, Place(source, name))


def _score_columns(values: ArrayLike, source: str | None, name: str) -> tuple[Column, ...]:
    array = np.asarray(values)
    columns: list[NDArray[Any]] = list(array.T) if array.ndim == 2 else [array]
    return tuple(
        Column(numeric_array(column, Place(source, name)), Place(source, name if len(columns) == 1 else f"{name}[{i}]"))
        for i, column in enumerate(columns)
    )


def _names(values: Names, source: str | None, name: str) -> NDArray[np.str_]:
    """Groups and clusters as text; what is missing (None, NaN) becomes empty."""
    array = np.asarray(values, dtype=object)
    if array.ndim != 1:
        raise InputError(f"{source or 'The data'}: {name} has {array.ndim} dimensions. Give a one-dimensional array.")
    return np.asarray(["" if each is None or each != each else str(each) for each in array.tolist()], dtype=np.str_)
