"""What a party may hand in, and what becomes of it: tables to count, one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy.typing as npt

from fheval.counting import Counts, Table
from fheval.errors import ConfigError, InputError

Scores = npt.ArrayLike | Mapping[str, npt.ArrayLike]

# Labels and scores, a table, tables that can be gone through more than once, or counts for an AUC alone.
PartyData = tuple[npt.ArrayLike, Scores] | Table | Iterable[Table] | Counts


def has_rows(data: PartyData) -> bool:
    """Whether there is more than labels and one model's scores, or counts of them."""
    if isinstance(data, Counts):
        return False
    return not isinstance(data, tuple) or isinstance(data[1], Mapping)


def tables_of(data: PartyData, name: str) -> Iterable[Table]:
    """A party's tables; `name` stands for a file's name in messages."""
    if isinstance(data, Counts):
        raise ConfigError(f"The counts of {name} carry an AUC and nothing else. Give its labels and scores.")
    if isinstance(data, Table):
        return (data,)
    if isinstance(data, tuple):
        labels, scores = data
        table = Table.of(labels, scores, source=name)
        if not len(table):
            raise InputError(f"{name}: there are no rows. Give at least one label and score.")
        return (table,)
    return data
