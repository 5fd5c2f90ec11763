"""The rows of a query as a party's rows: streamed as Arrow batches, or counted where they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fheval.counting import Counts, Grid, TableColumns, TableSource
from fheval.counting.chunks import Column, ColumnChunk, Place, Wanted, find_columns
from fheval.databases.connections import Address, Session, connected
from fheval.databases.pushdown import PUSHDOWN, Bins
from fheval.errors import InputError
from fheval.secrets import Secret

_log = logging.getLogger("fheval.databases")


@dataclass(frozen=True, slots=True)
class TableQuery(TableSource):
    """What a SELECT gives, asked anew each time that the rows are gone through."""

    owner: str
    address: Address = field(repr=False)
    query: str = field(repr=False)
    password: Secret[str] | None
    columns: TableColumns

    @property
    def name(self) -> str:
        return self.owner

    @property
    def counts_in_place(self) -> bool:
        """Whether the database counts by itself where an AUC is all that is asked."""
        return self.address.kind in PUSHDOWN and self.columns.positive is None and not self.columns.percent

    def read(self, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
        with connected(self.owner, self.address, self.password) as session:
            chosen = self._choose(session, wanted)
            listed = ", ".join(f"{expression} AS c{number}" for number, (_, expression) in enumerate(chosen))
            first = 0
            for batch in session.batches(f"SELECT {listed} FROM {self._rows}"):
                columns = zip(batch.columns, (place for place, _ in chosen), wanted, strict=True)
                yield ColumnChunk(tuple(_column(*each, first) for each in columns), first)
                first += batch.num_rows

    def count(self, grid: Grid) -> Counts:
        """Count in the database if it can, and otherwise here."""
        if not self.counts_in_place:
            _log.info("%s: rows are read from the database and counted here.", self.owner)
            return super(TableQuery, self).count(grid)
        _log.info("%s: the database counts by itself, in one GROUP BY.", self.owner)
        wanted, bins = self.columns.wanted()[:2], Bins.of(grid)
        with connected(self.owner, self.address, self.password) as session:
            (_, label), (_, score) = self._choose(session, wanted)
            sql = PUSHDOWN[self.address.kind](bins, self._rows, label, f"CAST({score} AS DOUBLE PRECISION)")
            rows = [row for batch in session.batches(sql) for row in zip(*batch.to_pydict().values(), strict=True)]
        return bins.counts(self.owner, rows)

    @property
    def _rows(self) -> str:
        # Within brackets, and without semicolons, nothing but a SELECT can stand.
        return f"(\n{self.query}\n) AS fheval_rows"

    def _choose(self, session: Session, wanted: Sequence[Wanted]) -> list[tuple[Place, str]]:
        """The wanted columns of the query, and how each is asked for."""
        schema = session.schema(f"SELECT * FROM {self._rows} LIMIT 0")
        positions = find_columns(self.owner, schema.names, wanted)
        return [
            (Place(self.owner, schema.names[at]), _expression(self.owner, schema.field(at), each, self.address.kind))
            for at, each in zip(positions, wanted, strict=True)
        ]


def _expression(owner: str, field_: Any, wanted: Wanted, kind: str) -> str:
    """A column in SQL: text as text, exact decimals as the nearest float, true and false as 1 and 0."""
    import pyarrow.types as types

    name: str = '"' + field_.name.replace('"', '""') + '"'
    if wanted.is_text:
        return f"CAST({name} AS {'VARCHAR' if kind == 'duckdb' else 'TEXT'})"
    said = (field_.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    if types.is_boolean(field_.type):
        return f"CAST({name} AS INTEGER)"
    if types.is_decimal(field_.type) or said == "numeric":
        return f"CAST({name} AS DOUBLE PRECISION)"
    if types.is_integer(field_.type) or types.is_floating(field_.type) or kind == "sqlite":
        return name
    raise _not_numbers(Place(owner, field_.name), said or str(field_.type))


def _column(array: Any, place: Place, wanted: Wanted, first_row: int) -> Column:
    import pyarrow.types as types

    if wanted.is_text:
        return Column(np.asarray(["" if value is None else value for value in array.to_pylist()], dtype=np.str_), place)
    if not (types.is_integer(array.type) or types.is_floating(array.type)):
        raise _not_numbers(place, str(array.type))
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(
            f"{place.at(first_row + row)}: the value is missing. Nothing was sent; leave such rows out of the query."
        )
    return Column(array.to_numpy(zero_copy_only=False), place)


def _not_numbers(place: Place, kind: str) -> InputError:
    return InputError(
        f"{place.file}, column {place.column!r}: holds values of type {kind}, not numbers. "
        "Nothing was sent; name another column, or convert it in the query."
    )
