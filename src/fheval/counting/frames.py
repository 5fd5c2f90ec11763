"""Data frames of any library as rows to count: pandas, Polars, Arrow, DuckDB and what else narwhals knows.

Only the columns that are wanted leave the frame, a stretch of rows at a time where the frame allows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from fheval.counting.chunks import Column, ColumnChunk, Place, Wanted, find_columns
from fheval.counting.readers import TableColumns, TableSource
from fheval.errors import InputError

STRETCH_ROWS = 1 << 20

_NUMBERS = (nw.Boolean, nw.Float32, nw.Float64)
# What may hold numbers as well as anything else: categories, Arrow's dictionaries, Python's objects.
_BOXES = (nw.Categorical, nw.Object)


def is_frame(data: object) -> bool:
    """Whether narwhals knows what this is; a library that is not installed is not imported for it."""
    try:
        return isinstance(nw.from_native(data, pass_through=True), (nw.DataFrame, nw.LazyFrame))
    except DuplicateError:
        return True  # whoever reads it finds out, and says whose frame it is


@dataclass(frozen=True, slots=True)
class TableFrame(TableSource):
    """A frame that a caller holds; `owner` stands for a file's name in messages."""

    frame: Any = field(repr=False)
    columns: TableColumns
    owner: str

    @property
    def name(self) -> str:
        return self.owner

    def read(self, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
        try:
            frame: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(self.frame)
        except DuplicateError:
            raise InputError(f"{self.owner}: several columns have the same name. Rename all but one.") from None
        names = frame.collect_schema().names()
        places = [Place(self.owner, names[at]) for at in find_columns(self.owner, names, wanted)]
        chosen = frame.select(list(dict.fromkeys(str(place.column) for place in places)))
        whole = chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen
        for first in range(0, len(whole), STRETCH_ROWS):
            rows = whole[first : first + STRETCH_ROWS]
            columns = (
                _column(rows[str(place.column)], place, each, first) for place, each in zip(places, wanted, strict=True)
            )
            yield ColumnChunk(tuple(columns), first)


def _column(series: nw.Series[Any], place: Place, wanted: Wanted, first_row: int) -> Column:
    if wanted.is_text:
        return Column(np.asarray([_word(value) for value in series.to_list()], dtype=np.str_), place)
    missing = np.asarray(series.is_null().to_numpy())
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(f"{place.at(first_row + row)}: the value is missing. Correct it or leave the row out.")
    if series.dtype in _BOXES:
        values = series.to_list()
        if all(isinstance(value, (Real, np.bool_)) for value in values):
            return Column(np.asarray(values), place)
    if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        other = "name another column, or say which label is positive" if wanted.noun == "label" else "or name another"
        raise InputError(
            f"{place.file}, column {place.column!r}: holds values of type {series.dtype}. Give numbers, {other}."
        )
    if not (series.dtype.is_integer() or series.dtype in _NUMBERS):
        series = series.cast(nw.Float64)
    return Column(_plain(series), place)


def _plain(series: nw.Series[Any]) -> Any:
    """A frame that could hold missing values may give objects even where it has none."""
    values = np.asarray(series.to_numpy())
    if values.dtype.kind in "biuf":
        return values
    return values.astype(np.int64 if series.dtype.is_integer() else np.bool_ if series.dtype == nw.Boolean else float)


def _word(value: object) -> str:
    """Text as it is, numbers as they print; what is missing (None, NaN) becomes empty."""
    if value is None or value != value:
        return ""
    return str(value)
