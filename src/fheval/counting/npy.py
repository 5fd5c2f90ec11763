"""NPY files, read a stretch of rows at a time, never unpickled, and never mapped while they are counted.

A file that shrinks under a map ends the process without a word (SIGBUS); a read that comes up short is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fheval.counting.chunks import Column, ColumnChunk, Place, Wanted, find_columns, require_two
from fheval.errors import InputError

STRETCH_ROWS = 1 << 20


# What numpy throws at headers that it did not write.
_UNREADABLE = (
    *(ValueError, OSError, EOFError, SyntaxError, TokenError, TypeError, LookupError, OverflowError),
    *(AttributeError, MemoryError, RecursionError),
)


@dataclass(frozen=True, slots=True)
class _Form:
    """What a file's header says: where the array starts, and what it is like."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool

    def stretches(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """The rows, a bounded number at a time, and the number of the first."""
        rows = self.shape[0]
        with self.path.open("rb") as file:
            for start in range(0, rows, STRETCH_ROWS):
                count = min(STRETCH_ROWS, rows - start)
                if self.by_column:
                    columns = [self._read(file, start + number * rows, count) for number in range(self.shape[1])]
                    yield start, np.stack(columns, axis=1)
                else:
                    width = prod(self.shape[1:])
                    yield start, self._read(file, start * width, count * width).reshape(count, *self.shape[1:])

    def _read(self, file: BinaryIO, first: int, count: int) -> NDArray[Any]:
        size = self.dtype.itemsize
        file.seek(self.offset + first * size)
        data = file.read(count * size)
        if len(data) != count * size:
            raise InputError(f"{self.path}: is shorter than its header says. Save the file again.")
        return np.frombuffer(data, dtype=self.dtype, count=count)


def npy_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read an NPY file: an array with named fields, or one with two columns, labels then scores."""
    form = _form(path)
    if form.dtype.names is not None and len(form.shape) == 1:
        yield from _field_chunks(form, wanted)
    elif len(form.shape) == 2 and form.shape[1] == 2:
        yield from _two_column_chunks(form, wanted)
    else:
        raise InputError(
            f"{path}: an array of shape {form.shape} and type {form.dtype} is not labels and scores. "
            "Save two columns, labels then scores, or named fields; or give labels and scores as two files."
        )


def npy_column(path: Path) -> Iterator[NDArray[Any]]:
    """Read an NPY file that holds one number a row."""
    form = _form(path)
    if len(form.shape) != 1:
        raise InputError(f"{path}: an array of shape {form.shape}. Save a one-dimensional array.")
    _check_numeric(form.dtype, Place(str(path)))
    for _, rows in form.stretches():
        yield rows


def _field_chunks(form: _Form, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    file, names = str(form.path), list(form.dtype.names or ())
    places = [Place(file, names[i]) for i in find_columns(file, names, wanted)]
    for place, each in zip(places, wanted, strict=True):
        if not each.is_text:
            _check_numeric(form.dtype[str(place.column)], place)
    for start, rows in form.stretches():
        columns = [rows[place.column] for place in places]
        values = [v.astype(np.str_) if w.is_text else v for v, w in zip(columns, wanted, strict=True)]
        yield ColumnChunk(tuple(map(Column, values, places)), start)


def _two_column_chunks(form: _Form, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    places = Place(str(form.path), "0"), Place(str(form.path), "1")
    require_two(str(form.path), wanted)
    _check_numeric(form.dtype, places[0])
    for start, rows in form.stretches():
        yield ColumnChunk(tuple(Column(rows[:, i], place) for i, place in enumerate(places)), start)


def _check_numeric(dtype: np.dtype[Any], place: Place) -> None:
    if dtype.kind not in "biuf" or dtype.shape:
        column = "" if place.column is None else f", column {place.column!r}"
        raise InputError(f"{place.file}{column}: holds values of type {dtype}. Save numbers, one a row.")


def _form(path: Path) -> _Form:
    """Read the header; objects, which would have to be unpickled, are refused."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _UNREADABLE as error:
        raise InputError(f"{path}: cannot be read as NPY ({error}). Save a numeric array with numpy.save.") from error
    if not isinstance(array, np.memmap) or not array.dtype.itemsize:
        raise InputError(f"{path}: is not a plain NPY array. Save a numeric array with numpy.save.")
    by_column = array.ndim == 2 and not array.flags.c_contiguous
    return _Form(path, array.offset, array.shape, array.dtype, by_column)
