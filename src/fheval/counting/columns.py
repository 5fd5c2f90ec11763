"""Which column of a file holds the labels, and which the scores."""

from __future__ import annotations

from collections.abc import Sequence

from fheval.errors import InputError

LABEL_NAMES = ("label", "y")
SCORE_NAMES = ("score", "s")


def choose_columns(
    file: str, names: Sequence[str], label_column: str | None, score_column: str | None
) -> tuple[int, int]:
    """Return the positions of the label and the score column.

    Without a name, labels are in the column `label`, else `y`, and scores in `score`, else `s`.

    >>> choose_columns("a.csv", ["id", "s", "label"], None, None)
    (2, 1)
    """
    label = _choose(file, names, label_column, LABEL_NAMES, "label")
    score = _choose(file, names, score_column, SCORE_NAMES, "score")
    if label == score:
        raise InputError(f"{file}: column {names[label]!r} was named for both labels and scores. Name two columns.")
    return label, score


def _choose(file: str, names: Sequence[str], wanted: str | None, usual: Sequence[str], noun: str) -> int:
    for name in usual if wanted is None else (wanted,):
        found = [position for position, column in enumerate(names) if column == name]
        if len(found) > 1:
            raise InputError(f"{file}: {len(found)} columns are called {name!r}. Rename all but one.")
        if found:
            return found[0]
    sought = " or ".join(repr(name) for name in (usual if wanted is None else (wanted,)))
    listed = ", ".join(repr(name) for name in names)
    raise InputError(f"{file}: there is no {noun} column {sought} among {listed}. Name the {noun} column.")
