"""Parquet and Arrow (Feather) files, a slice of rows at a time, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from fheval.counting.chunks import Column, ColumnChunk, Place, Wanted, find_columns
from fheval.errors import InputError

# Two million rows of two 8-byte columns are 32 MB; measured peak for 10⁸ rows: 0.2 to 0.35 GB, 0.9 GB in the
# worst case, a file that is one row group.
SLICE_ROWS = 2_000_000

# Types that become a NumPy array as they are; other numbers (decimals, 128-bit integers) go through Float64.
_PLAIN = (
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
    *(pl.Float32, pl.Float64, pl.Boolean),
)

# A damaged file can make the reader panic rather than fail; the panic is no subclass of PolarsError.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


def parquet_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read the wanted columns of a Parquet file slice by slice.

    Slices and not Polars' streaming batches: those hold a whole row group, and a file may be just one.
    """
    return _columns(path, wanted, "Parquet", partial(pl.scan_parquet, path, glob=False))


def arrow_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read the wanted columns of an Arrow file, which is what Feather is, slice by slice."""
    return _columns(path, wanted, "Arrow", partial(pl.scan_ipc, path, glob=False))


def _columns(
    path: Path, wanted: Sequence[Wanted], form: str, scan: Callable[[], pl.LazyFrame]
) -> Iterator[ColumnChunk]:
    file = str(path)
    try:
        table = scan()
        schema = table.collect_schema()
        rows = int(table.select(pl.len()).collect().item())
    except _UNREADABLE as error:
        raise _unreadable(file, form, error) from error
    names = schema.names()
    places = [Place(file, names[i]) for i in find_columns(file, names, wanted)]
    # A column may be wanted twice, so that it goes by its number here.
    chosen = table.select(
        [
            _chosen(place, each, schema[str(place.column)]).alias(str(number))
            for number, (place, each) in enumerate(zip(places, wanted, strict=True))
        ]
    )
    for first_row, slice_ in _read_ahead(chosen, rows):
        try:
            frame = slice_.result()
        except _UNREADABLE as error:
            raise _unreadable(file, form, error) from error
        columns = zip(frame, places, wanted, strict=True)
        yield ColumnChunk(tuple(_column(*each, first_row) for each in columns), first_row)


def _read_ahead(table: pl.LazyFrame, rows: int) -> Iterator[tuple[int, Future[pl.DataFrame]]]:
    """Read the next slice while one is being counted: Polars does not hold Python's lock meanwhile."""
    with ThreadPoolExecutor(max_workers=1) as reader:
        ahead: deque[tuple[int, Future[pl.DataFrame]]] = deque()
        for first_row in range(0, rows, SLICE_ROWS):
            ahead.append((first_row, reader.submit(table.slice(first_row, SLICE_ROWS).collect)))
            if len(ahead) > 1:
                yield ahead.popleft()
        yield from ahead


def _chosen(place: Place, wanted: Wanted, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(str(place.column))
    if wanted.is_text:
        return column.cast(pl.String)
    if isinstance(dtype, _PLAIN):
        return column
    if dtype.is_numeric():
        return column.cast(pl.Float64)
    raise InputError(
        f"{place.file}, column {place.column!r}: holds values of type {dtype}. "
        "Store it as numbers, or name another column."
    )


def _column(series: pl.Series, place: Place, wanted: Wanted, first_row: int) -> Column:
    if wanted.is_text:
        return Column(np.asarray(series.fill_null("").to_list(), dtype=np.str_), place)
    if series.null_count():
        row = int(series.is_null().arg_max() or 0)
        raise InputError(f"{place.at(first_row + row)}: the value is missing. Correct it or leave the row out.")
    return Column(series.to_numpy(), place)


def _unreadable(file: str, form: str, error: BaseException) -> InputError:
    reason = str(error).split("\n", 1)[0]
    return InputError(f"{file}: cannot be read as {form} ({reason}). Export the file again.")
