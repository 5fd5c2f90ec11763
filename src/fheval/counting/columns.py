"""Which columns of a file are wanted, and where they are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fheval.counting.chunks import Chunk, Column
from fheval.errors import InputError

Kind = Literal["label", "score", "text"]

LABEL_NAMES = ("label", "y")
SCORE_NAMES = ("score", "s")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One wanted column: the names it may have, best first, and what is in it.

    A label may be written as true or false; text is taken as it is, and may be missing.
    """

    names: tuple[str, ...]
    kind: Kind
    noun: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnChunk:
    """Consecutive rows of the wanted columns; `first_row` and `first_line` are as in `Chunk`."""

    columns: tuple[Column, ...]
    first_row: int
    first_line: int | None = None

    def as_labels_and_scores(self) -> Chunk:
        labels, scores = self.columns
        return Chunk(labels.values, scores.values, self.first_row, self.first_line, labels.place, scores.place)


def label_and_score(label_column: str | None, score_column: str | None) -> tuple[Wanted, Wanted]:
    """Without a name, labels are in the column `label`, else `y`, and scores in `score`, else `s`."""
    return (
        Wanted(LABEL_NAMES if label_column is None else (label_column,), "label", "label"),
        Wanted(SCORE_NAMES if score_column is None else (score_column,), "score", "score"),
    )


def require_two(file: str, wanted: Sequence[Wanted]) -> None:
    """Refuse to look for named columns in a file that has a label and a score a row and no names."""
    if [each.kind for each in wanted] != ["label", "score"]:
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
    labels = {position for position, each in zip(positions, wanted, strict=True) if each.kind == "label"}
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
    sought = " or ".join(map(repr, wanted.names))
    listed = ", ".join(map(repr, names))
    raise InputError(
        f"{file}: there is no {wanted.noun} column {sought} among {listed}. Name the {wanted.noun} column."
    )
