"""Files with one JSON object a line, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fheval.counting.chunks import Column, ColumnChunk, Place, Wanted, find_columns, not_a_number
from fheval.counting.delimited import Block, read_blocks
from fheval.errors import InputError


def json_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read the wanted fields of every object; the first one tells what the fields are called."""
    file, first_row = str(path), 0
    places: list[Place] = []
    for block in read_blocks(path, quotes=False):
        if not places:
            names = list(_first_object(file, block))
            places = [Place(file, names[i]) for i in find_columns(file, names, wanted)]
        rows = _objects(file, block)
        columns = tuple(_column(rows, *each, first_row, block) for each in zip(places, wanted, strict=True))
        yield ColumnChunk(columns, first_row, block.first_line)
        first_row += len(rows)


def _first_object(file: str, block: Block) -> dict[str, Any]:
    return _object(file, block.first_line, block.data.split(b"\n", 1)[0])


def _objects(file: str, block: Block) -> list[dict[str, Any]]:
    lines = block.data.rstrip().split(b"\n")
    try:
        rows: list[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode_lines(block.data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        rows = []
    # The decoder skips blank lines, after which rows and lines would no longer go together.
    if len(rows) == len(lines):
        return rows
    return [_object(file, block.first_line + number, line) for number, line in enumerate(lines)]


def _object(file: str, line: int, text: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file}, line {line}: is not a JSON object ({error}). Correct it or leave the line out."
        ) from error


def _column(rows: list[dict[str, Any]], place: Place, wanted: Wanted, first_row: int, block: Block) -> Column:
    values = [row.get(str(place.column)) for row in rows]
    if wanted.is_text:
        return Column(np.asarray([_word(value) for value in values], dtype=np.str_), place)
    for number, value in enumerate(values):
        if not isinstance(value, (int, float)) or (isinstance(value, bool) and wanted.kind != "label"):
            where = place.at(first_row + number, block.first_line + number)
            raise not_a_number(where, "" if value is None else str(value), wanted.kind)
    return Column(np.asarray(values, dtype=np.float64), place)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
