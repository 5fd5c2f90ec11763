"""What callers hold for each party, as rows to count: files, frames, arrays, tables, counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fheval.counting import UNNAMED, Counts, RowsElsewhere, Table, TableColumns, TableFile, TableSource
from fheval.counting.chunks import ColumnChunk
from fheval.counting.frames import TableFrame, is_frame
from fheval.errors import ConfigError, InputError

Scores = ArrayLike | Mapping[str, ArrayLike]

# Labels and scores, a table, tables or a source that can be gone through more than once, or counts for an AUC alone.
PartyData = tuple[ArrayLike, Scores] | Table | Iterable[Table] | Counts


def named_parties(parties: Mapping[str, Any] | Sequence[Any], columns: TableColumns) -> dict[str, PartyData]:
    """Each party's data by its name; parties without one are numbered."""
    if isinstance(parties, (str, bytes, PathLike)) or is_frame(parties):
        raise ConfigError("The parties come as a list, or by their names, one entry for each. Give more than one.")
    if not isinstance(parties, Mapping):
        parties = {f"party-{number}": data for number, data in enumerate(parties, start=1)}
    if not all(isinstance(name, str) and name for name in parties):
        raise ConfigError("A party's name is text. Name each, or give a list.")
    return {name: as_data(data, columns, name) for name, data in parties.items()}


def as_data(data: Any, columns: TableColumns, name: str) -> PartyData:
    """One party's data; `columns` says what a file's or a frame's columns are, `name` stands for it in messages."""
    if isinstance(data, (Counts, TableSource)):
        return data
    if isinstance(data, RowsElsewhere):
        return data.table(columns)
    if isinstance(data, (str, PathLike)):
        return TableFile(data, columns)
    if isinstance(data, Table):
        return _understood(data, columns)
    if isinstance(data, tuple) and len(data) == 2:
        return _of_arrays(*data, columns, name)
    if isinstance(data, np.ndarray):
        return _of_array(data, columns, name)
    if isinstance(data, Mapping):
        return TableFrame(_framed(dict(data), name), columns, name)
    if is_frame(data):
        return TableFrame(data, columns, name)
    if hasattr(data, "__arrow_c_stream__"):
        return TableFrame(_framed(data, name), columns, name)
    if isinstance(data, Iterable) and not _is_bare(data):
        return data
    raise InputError(
        f"{name}: {type(data).__name__} is nothing that rows can be taken from. "
        "Give a file, a frame, or labels and scores as a pair of arrays."
    )


def _is_bare(data: Iterable[Any]) -> bool:
    """Whether this is a list of other things than tables."""
    return isinstance(data, (list, tuple)) and not all(isinstance(each, Table) for each in data)


def _of_arrays(labels: Any, scores: Any, columns: TableColumns, name: str) -> PartyData:
    if not isinstance(scores, Mapping) and len(columns.models) == 1:
        scores = {columns.models[0]: scores}
    if columns.positive is None and not columns.percent:
        return labels, scores
    return _understood(Table.of(labels, scores, source=name), columns)


def _of_array(data: np.ndarray[Any, Any], columns: TableColumns, name: str) -> PartyData:
    """Two columns, labels then scores; or named fields."""
    if data.dtype.names:
        return TableFrame(_framed({field: data[field] for field in data.dtype.names}, name), columns, name)
    if data.ndim != 2 or data.shape[1] != 2:
        raise InputError(f"{name}: an array of shape {data.shape}. Give two columns, labels then scores, or a pair.")
    return _of_arrays(data[:, 0], data[:, 1], columns, name)


def _framed(columns: Any, name: str) -> Any:
    """Columns by name, or what Arrow can take them from, as a frame."""
    import polars as pl

    try:
        return pl.DataFrame(columns)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise InputError(
            f"{name}: the columns do not make a table ({reason}). Give one value a row for each."
        ) from error


def _understood(table: Table, columns: TableColumns) -> Table:
    """Labels and scores as the caller says that they are meant."""
    if columns.positive is None and not columns.percent:
        return table
    scores = [column for model in table.scores.values() for column in model]
    own = replace(columns, models=tuple(name for name in table.scores if name != UNNAMED), group=None, cluster=None)
    (chunk,) = own.understood([ColumnChunk((table.labels, *scores), table.first_row, table.first_line)])
    fresh = own.table(chunk)
    return replace(fresh, groups=table.groups, clusters=table.clusters)
