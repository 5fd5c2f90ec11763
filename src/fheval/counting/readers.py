"""Labels and scores from files: one way to read any of them, chunk by chunk.

| ending | what is in it |
|---|---|
| `.csv`, `.tsv` | a header, then rows; unless named, the columns are `label` (or `y`) and `score` (or `s`) |
| `.parquet`, `.pq` | the same columns |
| `.npy` | an array with those fields, or two columns: labels, then scores |
| `.txt` | no header; a label and a score a line, separated by one comma, semicolon, tab or blank |

Labels and scores may also come as a pair of `.txt` or `.npy` files with one number a row, row i of the one
belonging to row i of the other. Labels are 0 or 1: integers, floats or booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fheval.counting.chunks import Chunk, Place, first_bad_label, first_bad_score
from fheval.counting.columns import ColumnChunk, Wanted, label_and_score
from fheval.counting.counts import Counts, count_chunks
from fheval.counting.delimited import csv_columns, text_column, text_columns
from fheval.counting.grid import Grid, as_grid
from fheval.counting.npy import npy_column, npy_columns
from fheval.counting.parquet import parquet_columns
from fheval.errors import InputError

FilePath = str | PathLike[str]

_READERS: dict[str, Callable[[Path, Sequence[Wanted]], Iterator[ColumnChunk]]] = {
    ".csv": csv_columns,
    ".tsv": csv_columns,
    ".parquet": parquet_columns,
    ".pq": parquet_columns,
    ".npy": npy_columns,
    ".txt": text_columns,
}
Arrays = tuple[NDArray[np.uint8], NDArray[np.float64]]


def count_file(
    path: FilePath,
    decision_points: int | Grid = 1000,
    *,
    label_column: str | None = None,
    score_column: str | None = None,
) -> Counts:
    """Count one party's file in one pass and bounded memory; see the table above for what a file may be."""
    chunks = read_chunks(path, label_column=label_column, score_column=score_column)
    return count_chunks(chunks, decision_points, source=str(path))


def count_pair(labels_path: FilePath, scores_path: FilePath, decision_points: int | Grid = 1000) -> Counts:
    """Count one party's labels and scores from two files of one number a row."""
    chunks = read_pair_chunks(labels_path, scores_path)
    return count_chunks(chunks, decision_points, source=_both(labels_path, scores_path))


def read_arrays(
    path: FilePath,
    decision_points: int | Grid | None = None,
    *,
    label_column: str | None = None,
    score_column: str | None = None,
) -> Arrays:
    """Read a whole file into checked arrays; with decision points, scores must suit them, else be finite."""
    chunks = read_chunks(path, label_column=label_column, score_column=score_column)
    return _gather(chunks, decision_points, str(path))


def read_pair(labels_path: FilePath, scores_path: FilePath, decision_points: int | Grid | None = None) -> Arrays:
    """Read a pair of files into checked arrays; scores as for `read_arrays`."""
    chunks = read_pair_chunks(labels_path, scores_path)
    return _gather(chunks, decision_points, _both(labels_path, scores_path))


def read_chunks(path: FilePath, *, label_column: str | None = None, score_column: str | None = None) -> Iterator[Chunk]:
    """Iterate over the rows of a file in chunks of bounded size, unchecked but for their form."""
    chunks = read_columns(path, label_and_score(label_column, score_column))
    return (chunk.as_labels_and_scores() for chunk in chunks)


def read_columns(path: FilePath, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Iterate over the wanted columns of a file in chunks of bounded size, unchecked but for their form."""
    file = _existing(path)
    ending = file.suffix.lower()
    if ending in _READERS:
        return _READERS[ending](file, wanted)
    raise InputError(f"{file}: unknown kind of file {ending!r}. Use .csv, .tsv, .parquet, .pq, .npy or .txt.")


def read_pair_chunks(labels_path: FilePath, scores_path: FilePath) -> Iterator[Chunk]:
    """Iterate over the rows of a file of labels and a file of scores, side by side."""
    labels_file, scores_file = _existing(labels_path), _existing(scores_path)
    labels = _Stream(_column(labels_file, labels=True))
    scores = _Stream(_column(scores_file, labels=False))
    places = Place(str(labels_file)), Place(str(scores_file))
    in_lines = labels_file.suffix.lower() == scores_file.suffix.lower() == ".txt"
    return _side_by_side(labels, scores, places, in_lines)


def _side_by_side(labels: _Stream, scores: _Stream, places: tuple[Place, Place], in_lines: bool) -> Iterator[Chunk]:
    row = 0
    while rows := min(labels.ready(), scores.ready()):
        yield Chunk(labels.take(rows), scores.take(rows), row, row + 1 if in_lines else None, *places)
        row += rows
    if labels.ready() or scores.ready():
        raise InputError(
            f"{places[0].file} has {row + labels.count_rest():,} rows and {places[1].file} has "
            f"{row + scores.count_rest():,}. Give one label for each score."
        )


class _Stream:
    """A column in pieces, taken in pieces of another size."""

    def __init__(self, pieces: Iterator[NDArray[Any]]) -> None:
        self._pieces = pieces
        self._piece: NDArray[Any] = np.empty(0)

    def ready(self) -> int:
        """Return how many rows can be taken at once; 0 only at the end."""
        while not len(self._piece):
            following = next(self._pieces, None)
            if following is None:
                break
            self._piece = following
        return len(self._piece)

    def take(self, rows: int) -> NDArray[Any]:
        taken, self._piece = self._piece[:rows], self._piece[rows:]
        return taken

    def count_rest(self) -> int:
        rest = len(self._piece) + sum(len(piece) for piece in self._pieces)
        self._piece = self._piece[:0]
        return rest


def _column(file: Path, *, labels: bool) -> Iterator[NDArray[Any]]:
    ending = file.suffix.lower()
    if ending == ".npy":
        return npy_column(file)
    if ending == ".txt":
        return text_column(file, labels=labels)
    raise InputError(
        f"{file}: a file of {'labels' if labels else 'scores'} alone must be .txt or .npy, not {ending!r}. "
        "Use a CSV or Parquet file with both columns instead."
    )


def _gather(chunks: Iterable[Chunk], decision_points: int | Grid | None, source: str) -> Arrays:
    # Two explicit points accept every finite score.
    grid = Grid.explicit([1.0, 0.0]) if decision_points is None else as_grid(decision_points)
    checked = [_checked(chunk, grid) for chunk in chunks]
    if not sum(len(labels) for labels, _ in checked):
        raise InputError(f"{source}: there are no rows. Give at least one label and score.")
    return np.concatenate([labels for labels, _ in checked]), np.concatenate([scores for _, scores in checked])


def _checked(chunk: Chunk, grid: Grid) -> Arrays:
    bad = first_bad_label(chunk.labels)
    if bad is not None:
        raise chunk.refuse_label(bad)
    scores = np.asarray(chunk.scores, dtype=np.float64)
    bad = first_bad_score(scores, grid.score_range)
    if bad is not None:
        raise chunk.refuse_score(bad)
    return chunk.labels.astype(np.uint8), scores


def _existing(path: FilePath) -> Path:
    file = Path(path)
    try:
        with file.open("rb"):
            return file
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{file}: cannot be opened ({reason}). Check the path and its permissions.") from error


def _both(labels_path: FilePath, scores_path: FilePath) -> str:
    return f"{labels_path} and {scores_path}"
