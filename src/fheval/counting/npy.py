"""NPY files, mapped a stretch of rows at a time, never unpickled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fheval.counting.chunks import Column, Place
from fheval.counting.columns import ColumnChunk, Wanted, find_columns, require_two
from fheval.errors import InputError

# A map of a stretch is dropped before the next is made, so that a large file is never resident as a whole.
STRETCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape and place of the array in its file."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    by_columns: bool

    def stretch(self, start: int, stop: int) -> NDArray[Any]:
        """Map rows start … stop − 1 of an array that is stored row by row."""
        row = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        return self._map(self.offset + start * row, (stop - start, *self.shape[1:]))

    def column(self, number: int, start: int, stop: int) -> NDArray[Any]:
        """Map rows start … stop − 1 of one column of a two-dimensional array, whichever way it is stored."""
        if not self.by_columns:
            return self.stretch(start, stop)[:, number]
        first = self.offset + (number * self.shape[0] + start) * self.dtype.itemsize
        return self._map(first, (stop - start,))

    def _map(self, offset: int, shape: tuple[int, ...]) -> NDArray[Any]:
        return np.memmap(self.path, dtype=self.dtype, mode="r", offset=offset, shape=shape)


def npy_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read an NPY file: an array with named fields, or one with two columns, labels then scores."""
    layout = _layout(path)
    if layout.dtype.names is not None and len(layout.shape) == 1:
        yield from _field_chunks(layout, wanted)
    elif len(layout.shape) == 2 and layout.shape[1] == 2:
        yield from _two_column_chunks(layout, wanted)
    else:
        raise InputError(
            f"{path}: an array of shape {layout.shape} and type {layout.dtype} is not labels and scores. "
            "Save two columns, labels then scores, or named fields; or give labels and scores as two files."
        )


def npy_column(path: Path) -> Iterator[NDArray[Any]]:
    """Read an NPY file that holds one number a row."""
    layout = _layout(path)
    if len(layout.shape) != 1:
        raise InputError(f"{path}: an array of shape {layout.shape}. Save a one-dimensional array.")
    _check_numeric(layout.dtype, Place(str(path)))
    for start, stop in _stretches(layout):
        yield layout.stretch(start, stop)


def _field_chunks(layout: Layout, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    file, names = str(layout.path), list(layout.dtype.names or ())
    places = [Place(file, names[i]) for i in find_columns(file, names, wanted)]
    for place, each in zip(places, wanted, strict=True):
        if each.kind != "text":
            _check_numeric(layout.dtype[str(place.column)], place)
    for start, stop in _stretches(layout):
        rows = layout.stretch(start, stop)
        columns = [rows[place.column] for place in places]
        values = [v.astype(np.str_) if w.kind == "text" else v for v, w in zip(columns, wanted, strict=True)]
        yield ColumnChunk(tuple(map(Column, values, places)), start)


def _two_column_chunks(layout: Layout, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    places = Place(str(layout.path), "0"), Place(str(layout.path), "1")
    require_two(str(layout.path), wanted)
    _check_numeric(layout.dtype, places[0])
    for start, stop in _stretches(layout):
        yield ColumnChunk(tuple(Column(layout.column(i, start, stop), places[i]) for i in (0, 1)), start)


def _stretches(layout: Layout) -> Iterator[tuple[int, int]]:
    rows = layout.shape[0]
    return ((start, min(start + STRETCH_ROWS, rows)) for start in range(0, rows, STRETCH_ROWS))


def _check_numeric(dtype: np.dtype[Any], place: Place) -> None:
    if dtype.kind not in "biuf" or dtype.shape:
        column = "" if place.column is None else f", column {place.column!r}"
        raise InputError(f"{place.file}{column}: holds values of type {dtype}. Save numbers, one a row.")


def _layout(path: Path) -> Layout:
    """Read the header; objects, which would have to be unpickled, are refused."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError) as error:
        raise InputError(f"{path}: cannot be read as NPY ({error}). Save a numeric array with numpy.save.") from error
    if not isinstance(array, np.memmap):
        raise InputError(f"{path}: is not a plain NPY array. Save a numeric array with numpy.save.")
    by_columns = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
    return Layout(path, array.dtype, array.shape, array.offset, by_columns)
