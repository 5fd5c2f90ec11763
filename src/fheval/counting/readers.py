"""Labels and scores from files: one way to read any of them, chunk by chunk.

| ending | what is in it |
|---|---|
| `.csv`, `.tsv` | a header, then rows; unless named, the columns are `label` (or `y`) and `score` (or `s`) |
| `.parquet`, `.pq`, `.feather`, `.arrow` | the same columns |
| `.jsonl`, `.ndjson` | an object with those fields a line |
| `.npy` | an array with those fields, or two columns: labels, then scores |
| `.txt` | no header; a label and a score a line, separated by one comma, semicolon, tab or blank |

Text (`.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.txt`) may be packed: `.csv.gz`, `.csv.zst`. Where no comma separates the
columns, numbers may have a decimal comma.

Labels and scores may also come as a pair of `.txt` or `.npy` files with one number a row, row i of the one
belonging to row i of the other. Labels are 0 or 1: integers, floats or booleans; others need to be told which of them
is the positive one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from stat import S_ISFIFO, S_ISREG
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fheval.counting.chunks import (
    LABEL_NAMES,
    SCORE_NAMES,
    Chunk,
    Column,
    ColumnChunk,
    Kind,
    Place,
    Wanted,
    label_and_score,
)
from fheval.counting.counts import Counts, count_chunks
from fheval.counting.delimited import csv_columns, text_column, text_columns
from fheval.counting.grid import DEFAULT_POINTS, Grid, as_grid
from fheval.counting.json_lines import json_columns
from fheval.counting.npy import npy_column, npy_columns
from fheval.counting.parquet import arrow_columns, parquet_columns
from fheval.counting.table import UNNAMED, Table
from fheval.errors import ConfigError, InputError

FilePath = str | PathLike[str]
T = TypeVar("T")

_READERS: dict[str, Callable[[Path, Sequence[Wanted]], Iterator[ColumnChunk]]] = {
    ".csv": csv_columns,
    ".tsv": csv_columns,
    ".parquet": parquet_columns,
    ".pq": parquet_columns,
    ".npy": npy_columns,
    ".txt": text_columns,
    ".feather": arrow_columns,
    ".arrow": arrow_columns,
    ".jsonl": json_columns,
    ".ndjson": json_columns,
}
_PACKED = (".gz", ".zst")
_PACKABLE = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")


def _kind_of_file(file: Path) -> str:
    """The ending that tells how to read a file; of a packed one, the ending before.

    >>> _kind_of_file(Path("north.CSV.gz"))
    '.csv'
    """
    inner = Path(file.stem).suffix.lower()
    return inner if file.suffix.lower() in _PACKED and inner in _PACKABLE else file.suffix.lower()


def count_file(
    path: FilePath,
    decision_points: int | Grid = DEFAULT_POINTS,
    *,
    label_column: str | None = None,
    score_column: str | None = None,
) -> Counts:
    """Count one party's file in one pass and bounded memory; see the table above for what a file may be."""
    chunks = read_chunks(path, label_column=label_column, score_column=score_column)
    return count_chunks(chunks, decision_points, source=str(path))


def read_pair(
    labels_path: FilePath, scores_path: FilePath, decision_points: int | Grid | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Read a file of labels and a file of scores; with decision points, scores must suit them, else be finite."""
    labels_file, scores_file = _existing(labels_path), _existing(scores_path)
    labels, scores = _column(labels_file, labels=True), _column(scores_file, labels=False)
    if len(labels) != len(scores):
        raise InputError(
            f"{labels_file} has {len(labels):,} rows and {scores_file} has {len(scores):,}. "
            "Give one label for each score."
        )
    if not len(labels):
        raise InputError(f"{labels_file} and {scores_file}: there are no rows. Give at least one label and score.")
    # Two explicit points accept every finite score.
    grid = Grid.explicit([1.0, 0.0]) if decision_points is None else as_grid(decision_points)
    first_line = 1 if labels_file.suffix.lower() == scores_file.suffix.lower() == ".txt" else None
    chunk = Chunk(labels, scores, 0, first_line, Place(str(labels_file)), Place(str(scores_file)))
    numbers = scores.astype(np.float64, copy=False)
    chunk.check(numbers, grid.score_range)
    return labels.astype(np.uint8), numbers


def read_chunks(path: FilePath, *, label_column: str | None = None, score_column: str | None = None) -> Iterator[Chunk]:
    """Iterate over the rows of a file in chunks of bounded size, unchecked but for their form."""
    chunks = read_columns(path, label_and_score(label_column, score_column))
    return (chunk.as_labels_and_scores() for chunk in chunks)


def read_columns(path: FilePath, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Iterate over the wanted columns of a file in chunks of bounded size, unchecked but for their form."""
    file = _existing(path)
    ending = _kind_of_file(file)
    if ending in _READERS:
        return _unchanged(file, _READERS[ending](file, wanted))
    raise InputError(
        f"{file}: unknown kind of file {ending!r}. Use .csv, .tsv, .parquet, .feather, .jsonl, .npy or .txt."
    )


def _unchanged(file: Path, chunks: Iterator[T]) -> Iterator[T]:
    """Pass chunks of a file on, and refuse it at the end if it has become another one meanwhile."""
    before = _state(file)
    yield from chunks
    if _state(file) != before:
        raise InputError(
            f"{file}: has changed while it was read. Write a new file beside it and give it the name when it is whole."
        )


def _state(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    # What is in a pipe changes all the time, and is read once.
    regular = S_ISREG(found.st_mode)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) if regular else ()


def _column(file: Path, *, labels: bool) -> NDArray[Any]:
    ending = file.suffix.lower()
    if ending not in (".npy", ".txt"):
        raise InputError(
            f"{file}: a file of {'labels' if labels else 'scores'} alone must be .txt or .npy, not {ending!r}. "
            "Use a CSV or Parquet file with both columns instead."
        )
    pieces = list(_unchanged(file, npy_column(file) if ending == ".npy" else text_column(file, labels=labels)))
    return np.concatenate(pieces) if pieces else np.empty(0)


def _existing(path: FilePath) -> Path:
    file = Path(path)
    try:
        # What is in a pipe can be read once, and a look would take it.
        if not S_ISFIFO(file.stat().st_mode):
            file.open("rb").close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{file}: cannot be opened ({reason}). Check the path and its permissions.") from error
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The columns that a table is read from, and how they are to be understood.

    Each of `models` names a column of scores; with `classes` it names one for each, `model_class`. Without models
    there is one, unnamed, in the column `score`, else `s`. `positive` is the label that counts as 1, where the other
    one counts as 0. With `percent`, scores are divided by 100.
    """

    label: str | None = None
    models: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    group: str | None = None
    cluster: str | None = None
    positive: str | None = None
    percent: bool = False

    def __post_init__(self) -> None:
        if self.classes and self.positive is not None:
            raise ConfigError("Classes are named, and a positive label. Name one or the other.")

    def wanted(self) -> list[Wanted]:
        """Labels, then the scores of every model and class, then groups and clusters."""
        labels = LABEL_NAMES if self.label is None else (self.label,)
        kind: Kind = "text" if self.classes else "label" if self.positive is None else "word"
        return [
            Wanted(labels, kind, "label"),
            *(Wanted(self._names(model, cls), "score", "score") for model in self._models() for cls in self._classes()),
            *(
                Wanted((name,), "text", noun)
                for name, noun in ((self.group, "group"), (self.cluster, "cluster"))
                if name
            ),
        ]

    def understood(self, chunks: Iterable[ColumnChunk]) -> Iterator[ColumnChunk]:
        """Chunks of the wanted columns with labels 0 and 1 for the owner's own, and probabilities for percentages."""
        words = None if self.positive is None else LabelWords(self.positive)
        scores = len(self._models()) * len(self._classes()) if self.percent else 0
        for chunk in chunks:
            label, *others = chunk.columns
            if words is not None:
                label = words.as_numbers(label, chunk)
            for number in range(scores):
                others[number] = Column(others[number].values / 100.0, others[number].place)
            yield ColumnChunk((label, *others), chunk.first_row, chunk.first_line)

    def table(self, chunk: ColumnChunk) -> Table:
        """Put the columns of `wanted` together again."""
        columns = iter(chunk.columns)
        return Table(
            labels=next(columns),
            scores={model: tuple(next(columns) for _ in self._classes()) for model in self._models()},
            groups=next(columns) if self.group else None,
            clusters=next(columns) if self.cluster else None,
            first_row=chunk.first_row,
            first_line=chunk.first_line,
        )

    def _models(self) -> tuple[str, ...]:
        return self.models or (UNNAMED,)

    def _classes(self) -> tuple[str | None, ...]:
        return self.classes or (None,)

    @staticmethod
    def _names(model: str, label: str | None) -> tuple[str, ...]:
        names = (model,) if model else SCORE_NAMES
        return names if label is None else tuple(f"{name}_{label}" for name in names)


class LabelWords:
    """Labels in the owner's own words, of which one is positive and one, whichever it is, negative."""

    def __init__(self, positive: str) -> None:
        self._positive = _spelling(positive)
        self._negative: str | None = None

    def as_numbers(self, column: Column, chunk: ColumnChunk) -> Column:
        """The same labels as 0 and 1; a missing one, and a third one, are refused."""
        found, positions = np.unique(column.values, return_inverse=True)
        numbers = np.empty(len(found), dtype=np.uint8)
        for number, word in enumerate(map(_spelling, found.tolist())):
            if word != self._positive and word not in ("", "nan"):
                self._negative = self._negative or word
            if word not in (self._positive, self._negative):
                raise self._refuse(word, column, chunk, int(np.argmax(positions == number)))
            numbers[number] = word == self._positive
        return Column(numbers[positions], column.place)

    def _refuse(self, word: str, column: Column, chunk: ColumnChunk, index: int) -> InputError:
        line = None if chunk.first_line is None else chunk.first_line + index
        where = column.place.at(chunk.first_row + index, line)
        if word in ("", "nan"):
            return InputError(f"{where}: the label is missing. Correct it or leave the row out.")
        return InputError(
            f"{where}: the label {word!r} is a third one, besides {self._positive!r}, which is positive, and "
            f"{self._negative!r}. Correct it, leave the row out, or name another positive label."
        )


def _spelling(label: object) -> str:
    """One spelling for a label: numbers without needless digits, words in small letters.

    >>> _spelling("2.0"), _spelling(2), _spelling(" Yes"), _spelling(True)
    ('2', '2', 'yes', 'true')
    """
    if isinstance(label, bool):
        return str(label).lower()
    try:
        number = float(str(label))
    except ValueError:
        return str(label).strip().casefold()
    return str(int(number)) if number.is_integer() else str(number)


class TableSource(ABC):
    """Rows that can be gone through more than once, a bounded stretch at a time; subclasses say where they are."""

    __slots__ = ()
    columns: TableColumns

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call it."""

    @abstractmethod
    def read(self, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
        """The wanted columns, unchecked but for their form."""

    def __iter__(self) -> Iterator[Table]:
        rows = 0
        for chunk in self._chunks():
            table = self.columns.table(chunk)
            rows += len(table)
            yield table
        if not rows:
            raise InputError(f"{self.name}: there are no rows. Give at least one label and score.")

    def count(self, grid: Grid) -> Counts:
        """Labels and the scores of the only model, counted in one pass."""
        return count_chunks((chunk.as_labels_and_scores() for chunk in self._chunks()), grid, source=self.name)

    def _chunks(self) -> Iterator[ColumnChunk]:
        return self.columns.understood(self.read(self.columns.wanted()))


class RowsElsewhere(ABC):
    """Rows that lie somewhere else, in a database for instance, before anyone has said which columns are wanted."""

    __slots__ = ()

    @abstractmethod
    def table(self, columns: TableColumns) -> TableSource:
        """These rows, with the columns that are wanted of them."""


@dataclass(frozen=True, slots=True)
class TableFile(TableSource):
    """A file of rows."""

    path: FilePath
    columns: TableColumns

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
        return read_columns(self.path, wanted)
