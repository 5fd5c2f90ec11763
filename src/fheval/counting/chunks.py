"""Rows on their way to be counted: which columns are wanted, chunks of them, and the errors that refuse a bad value.

Every source, an array or a file, becomes an iterator of chunks. A chunk knows where its rows come from, so
that a bad value can be named by file, row and column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fheval.errors import InputError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column of values comes from; a field that does not apply is None."""

    file: str | None = None
    column: str | None = None

    def at(self, row: int, line: int | None = None) -> str:
        """Name the value of a row, counted from 0, as a person counts: from 1.

        >>> Place("a.csv", "score").at(2, line=4)
        "a.csv, row 3 (line 4), column 'score'"
        """
        parts = [self.file] if self.file else []
        parts.append(f"row {row + 1}" if line is None else f"row {row + 1} (line {line})")
        if self.column is not None:
            parts.append(f"column {self.column!r}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Column:
    """The values of one column, unchecked, and where they come from."""

    values: NDArray[Any]
    place: Place


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Consecutive rows: labels and scores as one-dimensional numeric arrays of one length, unchecked.

    `first_row` counts from 0; `first_line` counts from 1, and is there only where row i sits on line
    `first_line` + i.
    """

    labels: NDArray[Any]
    scores: NDArray[Any]
    first_row: int = 0
    first_line: int | None = None
    labels_from: Place = Place()
    scores_from: Place = Place()

    def __len__(self) -> int:
        return len(self.scores)

    def check(self, scores: NDArray[np.float64], score_range: tuple[float, float], start: int = 0) -> None:
        """Refuse a bad label or score among the rows from `start` on, whose scores as float64 are given."""
        bad = first_bad_label(self.labels[start : start + len(scores)])
        if bad is not None:
            raise self.refuse_label(start + bad)
        bad = first_bad_score(scores, score_range)
        if bad is not None:
            raise self.refuse_score(start + bad)

    def refuse_label(self, index: int) -> InputError:
        """The error for a label that is neither 0 nor 1."""
        where = self.labels_from.at(self.first_row + index, self._line(index))
        return InputError(
            f"{where}: the label {self.labels[index]} is neither 0 nor 1. "
            "Correct it, leave the row out, or say which label is positive (positive=…, --positive)."
        )

    def refuse_score(self, index: int) -> InputError:
        """The error for a score that the grid does not accept."""
        where = self.scores_from.at(self.first_row + index, self._line(index))
        score = float(self.scores[index])
        if not np.isfinite(score):
            return InputError(f"{where}: the score {score} is not a finite number. Correct it or leave the row out.")
        advice = (
            "Give probabilities, say that the scores are logits (scores='logit', --score-kind logit), "
            "or use explicit decision points."
        )
        if look_like_percentages(self.scores):
            advice = "The scores look like percentages: say so (percent=True, --percent), or divide them by 100."
        return InputError(f"{where}: the score {score} is outside [0, 1]. {advice}")

    def _line(self, index: int) -> int | None:
        return None if self.first_line is None else self.first_line + index


def chunk_of_arrays(labels: ArrayLike, scores: ArrayLike, *, source: str | None = None) -> Chunk:
    """Take in-memory labels and scores as one chunk; `source` stands for a file's name in messages."""
    label_place, score_place = Place(source, "labels"), Place(source, "scores")
    label_array, score_array = numeric_array(labels, label_place), numeric_array(scores, score_place)
    if len(label_array) != len(score_array):
        raise InputError(
            f"{source or 'The data'}: {len(label_array)} labels but {len(score_array)} scores. "
            "Give one label for each score."
        )
    return Chunk(label_array, score_array, labels_from=label_place, scores_from=score_place)


def numeric_array(values: ArrayLike, place: Place) -> NDArray[Any]:
    """View values as a one-dimensional array of booleans, integers or floats, or refuse them."""
    name = f"{place.file}, column {place.column!r}" if place.file else f"Column {place.column!r}"
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name}: not an array of numbers ({error}). Give one number for each row.") from error
    if array.ndim != 1:
        raise InputError(f"{name}: has {array.ndim} dimensions. Give a one-dimensional array.")
    if array.dtype.kind not in "biuf" and array.size:
        raise InputError(f"{name}: holds values of type {array.dtype}. Give numbers, one for each row.")
    return array


def first_bad_label(labels: NDArray[Any]) -> int | None:
    """Return the index of the first label that is neither 0 nor 1; None if there is none."""
    kind = labels.dtype.kind
    if kind == "b" or not len(labels):
        return None
    if kind in "iu":
        # Seen as unsigned, a negative number is huge: one pass finds both kinds of bad label.
        native = labels if labels.dtype.isnative else labels.astype(labels.dtype.newbyteorder("="))
        if int(native.view(f"u{native.itemsize}").max()) <= 1:
            return None
    binary = (labels == 0) | (labels == 1)
    return None if binary.all() else int(np.argmin(binary))


def _bits(value: float) -> int:
    return int(np.float64(value).view(np.uint64))


def look_like_percentages(scores: NDArray[Any]) -> bool:
    """Whether scores are all from 0 to 100, and some so far above 1 that no rounding of a probability explains it.

    >>> look_like_percentages(np.array([3.5, 80.0])), look_like_percentages(np.array([-3.5, 8.0]))
    (True, False)
    """
    return bool(len(scores) and scores.min() >= 0 and 2 <= scores.max() <= 100)


def first_bad_score(scores: NDArray[np.float64], score_range: tuple[float, float]) -> int | None:
    """Return the index of the first score that is not in the closed range; None if all are."""
    low, high = score_range
    if low == 0.0 and len(scores) and int(scores.view(np.uint64).max()) <= _bits(high):
        # Seen as unsigned integers, floats from 0 on are in order, and NaNs and negative ones are beyond them all.
        return None
    # A NaN makes minimum and maximum NaN, and every comparison with it false.
    if not len(scores) or (scores.min() >= low and scores.max() <= high):
        return None
    return int(np.argmin((scores >= low) & (scores <= high)))


Kind = Literal["label", "word", "score", "text"]

LABEL_NAMES = ("label", "y")
SCORE_NAMES = ("score", "s")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One wanted column: the names it may have, best first, and what is in it.

    A label is 0 or 1, and may be written as true or false; a word is a label in the owner's own words, or another
    number. Text is taken as it is, and may be missing.
    """

    names: tuple[str, ...]
    kind: Kind
    noun: str

    @property
    def is_text(self) -> bool:
        """Whether a reader leaves the values as text."""
        return self.kind in ("word", "text")


def not_a_number(where: str, word: str, kind: Kind) -> InputError:
    """The error for a word where a number is due; an empty one is a missing value."""
    fault = f"{word[:40]!r} is not a number" if word else "the value is missing"
    if word and kind == "label":
        return InputError(
            f"{where}: {fault}. Correct it, leave the row out, or say which label is positive (positive=…, --positive)."
        )
    return InputError(f"{where}: {fault}. Correct it or leave the row out.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnChunk:
    """Consecutive rows of the wanted columns; `first_row` and `first_line` are as in `Chunk`."""

    columns: tuple[Column, ...]
    first_row: int
    first_line: int | None = None

    def as_labels_and_scores(self) -> Chunk:
        """The first two columns."""
        labels, scores = self.columns[:2]
        return Chunk(labels.values, scores.values, self.first_row, self.first_line, labels.place, scores.place)


def label_and_score(label_column: str | None, score_column: str | None) -> tuple[Wanted, Wanted]:
    """Without a name, labels are in the column `label`, else `y`, and scores in `score`, else `s`."""
    return (
        Wanted(LABEL_NAMES if label_column is None else (label_column,), "label", "label"),
        Wanted(SCORE_NAMES if score_column is None else (score_column,), "score", "score"),
    )


def require_two(file: str, wanted: Sequence[Wanted]) -> None:
    """Refuse to look for named columns in a file that has a label and a score a row and no names."""
    if [each.noun for each in wanted] != ["label", "score"] or wanted[0].kind == "text":
        raise InputError(
            f"{file}: has a label and a score a row and no named columns. "
            "Use CSV or Parquet for several models, classes of other names, groups or clusters."
        )


def find_columns(file: str, names: Sequence[str], wanted: Sequence[Wanted]) -> list[int]:
    """Return the positions of the wanted columns; labels and scores must not be the same one.

    >>> find_columns("a.csv", ["id", "s", "label"], label_and_score(None, None))
    [2, 1]
    """
    positions = [_find(file, names, each) for each in wanted]
    labels = {position for position, each in zip(positions, wanted, strict=True) if each.noun == "label"}
    for position, each in zip(positions, wanted, strict=True):
        if each.kind == "score" and position in labels:
            raise InputError(
                f"{file}: column {names[position]!r} was named for both labels and scores. Name two columns."
            )
    return positions


def _find(file: str, names: Sequence[str], wanted: Wanted) -> int:
    for name in wanted.names:
        found = [position for position, column in enumerate(names) if column == name]
        if len(found) > 1:
            raise InputError(f"{file}: {len(found)} columns are called {name!r}. Rename all but one.")
        if found:
            return found[0]
    if not names:
        raise InputError(f"{file}: there are no columns. Give labels and scores.")
    sought = " or ".join(map(repr, wanted.names))
    listed = ", ".join(map(repr, names))
    raise InputError(
        f"{file}: there is no {wanted.noun} column {sought} among {listed}. Name the {wanted.noun} column."
    )
