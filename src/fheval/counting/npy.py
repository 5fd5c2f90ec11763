"""NPY files, mapped a stretch of rows at a time, never unpickled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fheval.counting.chunks import Column, ColumnChunk, Place, Wanted, find_columns, require_two
from fheval.errors import InputError

STRETCH_ROWS = 1 << 20


def npy_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read an NPY file: an array with named fields, or one with two columns, labels then scores."""
    array = _mapped(path)
    if array.dtype.names is not None and array.ndim == 1:
        yield from _field_chunks(path, array.dtype, wanted)
    elif array.ndim == 2 and array.shape[1] == 2:
        yield from _two_column_chunks(path, array.dtype, wanted)
    else:
        raise InputError(
            f"{path}: an array of shape {array.shape} and type {array.dtype} is not labels and scores. "
            "Save two columns, labels then scores, or named fields; or give labels and scores as two files."
        )


def npy_column(path: Path) -> Iterator[NDArray[Any]]:
    """Read an NPY file that holds one number a row."""
    array = _mapped(path)
    if array.ndim != 1:
        raise InputError(f"{path}: an array of shape {array.shape}. Save a one-dimensional array.")
    _check_numeric(array.dtype, Place(str(path)))
    for _, rows in _stretches(path):
        yield rows


def _field_chunks(path: Path, dtype: np.dtype[Any], wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    file, names = str(path), list(dtype.names or ())
    places = [Place(file, names[i]) for i in find_columns(file, names, wanted)]
    for place, each in zip(places, wanted, strict=True):
        if each.kind != "text":
            _check_numeric(dtype[str(place.column)], place)
    for start, rows in _stretches(path):
        columns = [rows[place.column] for place in places]
        values = [v.astype(np.str_) if w.kind == "text" else v for v, w in zip(columns, wanted, strict=True)]
        yield ColumnChunk(tuple(map(Column, values, places)), start)


def _two_column_chunks(path: Path, dtype: np.dtype[Any], wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    places = Place(str(path), "0"), Place(str(path), "1")
    require_two(str(path), wanted)
    _check_numeric(dtype, places[0])
    for start, rows in _stretches(path):
        yield ColumnChunk(tuple(Column(rows[:, i], place) for i, place in enumerate(places)), start)


def _stretches(path: Path) -> Iterator[tuple[int, NDArray[Any]]]:
    for start in range(0, len(_mapped(path)), STRETCH_ROWS):
        # Mapped anew for each stretch: with the last map the pages go, and a large file is never resident as a whole.
        yield start, _mapped(path)[start : start + STRETCH_ROWS]


def _check_numeric(dtype: np.dtype[Any], place: Place) -> None:
    if dtype.kind not in "biuf" or dtype.shape:
        column = "" if place.column is None else f", column {place.column!r}"
        raise InputError(f"{place.file}{column}: holds values of type {dtype}. Save numbers, one a row.")


def _mapped(path: Path) -> NDArray[Any]:
    """Map the array; objects, which would have to be unpickled, are refused."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError) as error:
        raise InputError(f"{path}: cannot be read as NPY ({error}). Save a numeric array with numpy.save.") from error
    if not isinstance(array, np.memmap):
        raise InputError(f"{path}: is not a plain NPY array. Save a numeric array with numpy.save.")
    return array
