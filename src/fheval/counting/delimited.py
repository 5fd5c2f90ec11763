"""CSV files, and text files with one number or one label and score a line, in bounded memory.

Numbers are parsed by Polars, correctly rounded. A block that does not parse as numbers is parsed a second
time as text, which is slower but tells which value of which row is to blame.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fheval.counting.blocks import Block, read_blocks
from fheval.counting.chunks import Place
from fheval.counting.columns import ColumnChunk, Wanted, find_columns, require_two
from fheval.errors import InputError

_CSV_SEPARATORS = (",", ";", "\t")
_TEXT_SEPARATORS = (",", ";", "\t", " ")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Column:
    """One wanted column: its position, its name for messages, and what is in it."""

    position: int
    place: Place
    kind: Literal["label", "score", "text"]


@dataclass(frozen=True, slots=True)
class Table:
    """How the records of a file are laid out, and which of their fields are wanted."""

    file: str
    separator: str
    quotes: bool
    width: int
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """A block's wanted columns, text or numbers; `first_line` is None where records span lines."""

    values: tuple[NDArray[Any], ...]
    first_line: int | None


def csv_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read a CSV file with a header; comma, semicolon or tab, whichever the header has most of."""
    table: Table | None = None
    first_row = 0
    for block in read_blocks(path, quotes=True):
        if table is None:
            names, separator, block = _split_header(path, block)
            table = _csv_table(str(path), names, separator, wanted)
        chunk = _chunk(table, block, first_row)
        first_row += len(chunk.columns[0][0])
        yield chunk


def text_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read a text file without a header: a label and a score a line, separated by one comma, tab or blank."""
    require_two(str(path), wanted)
    table: Table | None = None
    first_row = 0
    for block in read_blocks(path, quotes=False):
        table = table or _text_table(path, block)
        chunk = _chunk(table, block, first_row)
        first_row += len(chunk.columns[0][0])
        yield chunk


def text_column(path: Path, *, labels: bool) -> Iterator[Floats]:
    """Read a text file of one number a line."""
    table = Table(str(path), ",", False, 1, (Column(0, Place(str(path)), "label" if labels else "score"),))
    first_row = 0
    for block in read_blocks(path, quotes=False):
        values = _parse(table, block, first_row).values[0]
        first_row += len(values)
        yield values


def _csv_table(file: str, names: list[str], separator: str, wanted: Sequence[Wanted]) -> Table:
    positions = find_columns(file, names, wanted)
    columns = [
        Column(position, Place(file, names[position]), each.kind)
        for position, each in zip(positions, wanted, strict=True)
    ]
    return Table(file, separator, True, len(names), tuple(columns))


def _split_header(path: Path, block: Block) -> tuple[list[str], str, Block]:
    """Take the header off the first block of a CSV file."""
    end = block.data.find(b"\n") + 1 or len(block.data)
    while block.data.count(b'"', 0, end) % 2 and end < len(block.data):
        end = block.data.find(b"\n", end) + 1 or len(block.data)
    try:
        header = block.data[:end].decode("utf-8")
        separator = max(_CSV_SEPARATORS, key=header.count)
        names = next(csv.reader(io.StringIO(header, newline=""), delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: the header cannot be read ({error}). Save the file as CSV in UTF-8.") from error
    lines = block.data.count(b"\n", 0, end)
    return [name.strip() for name in names], separator, Block(block.data[end:], block.first_line + lines)


def _text_table(path: Path, block: Block) -> Table:
    first = block.data.split(b"\n", 1)[0].strip().decode("utf-8", errors="replace")
    separator = next((mark for mark in _TEXT_SEPARATORS if mark in first), None)
    if separator is None:
        raise InputError(
            f"{path}, row 1 (line 1): there is one value, where a label and a score are needed. "
            "Give two files, one of labels and one of scores, or put both on each line."
        )
    places = (Place(str(path), "label"), Place(str(path), "score"))
    return Table(str(path), separator, False, 2, (Column(0, places[0], "label"), Column(1, places[1], "score")))


def _chunk(table: Table, block: Block, first_row: int) -> ColumnChunk:
    parsed = _parse(table, block, first_row)
    places = [column.place for column in table.columns]
    return ColumnChunk(tuple(zip(parsed.values, places, strict=True)), first_row, parsed.first_line)


def _parse(table: Table, block: Block, first_row: int) -> Parsed:
    if not block.data:
        return Parsed(tuple(np.empty(0) for _ in table.columns), None)
    try:
        frame = _read(table, block, pl.Float64())
    except pl.exceptions.PolarsError:
        return _parse_text(table, block, first_row)
    series = [frame[str(column.position)] for column in table.columns]
    if any(each.null_count() for each, column in zip(series, table.columns, strict=True) if column.kind != "text"):
        return _parse_text(table, block, first_row)
    values = tuple(_text(each) if each.dtype == pl.String else each.to_numpy() for each in series)
    return Parsed(values, _first_line(block, frame.height))


def _parse_text(table: Table, block: Block, first_row: int) -> Parsed:
    """Parse with an eye to messages: accepts what `_parse` does, booleans and blanks around a number."""
    try:
        frame = _read(table, block, pl.String())
    except pl.exceptions.PolarsError as error:
        raise _malformed(table, block, first_row, error) from error
    first_line = _first_line(block, frame.height)
    values: list[NDArray[Any]] = []
    for column in table.columns:
        words = frame[str(column.position)].str.strip_chars()
        if column.kind == "text":
            values.append(_text(words))
            continue
        numbers = _numbers(words, booleans=column.kind == "label")
        if numbers.null_count():
            row = int(numbers.is_null().arg_max() or 0)
            where = column.place.at(first_row + row, None if first_line is None else first_line + row)
            raise InputError(f"{where}: {_told(words[row])}. Correct it or leave the row out.")
        values.append(numbers.to_numpy())
    return Parsed(tuple(values), first_line)


def _text(words: pl.Series) -> NDArray[np.str_]:
    return np.asarray(words.str.strip_chars().fill_null("").to_list(), dtype=np.str_)


def _numbers(words: pl.Series, *, booleans: bool) -> pl.Series:
    if booleans:
        words = words.str.to_lowercase().replace({"true": "1", "false": "0"})
    return words.cast(pl.Float64, strict=False)


def _told(word: str | None) -> str:
    return f"{word[:40]!r} is not a number" if word else "the value is missing"


def _read(table: Table, block: Block, dtype: pl.DataType) -> pl.DataFrame:
    wanted = {column.position for column in table.columns}
    numeric = {column.position for column in table.columns if column.kind != "text"}
    schema = {str(i): dtype if i in numeric else pl.String() for i in range(table.width)}
    return pl.read_csv(
        block.data,
        has_header=False,
        schema=schema,
        columns=sorted(wanted),
        separator=table.separator,
        quote_char='"' if table.quotes else None,
    )


def _first_line(block: Block, rows: int) -> int | None:
    lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
    return block.first_line if lines == rows else None


def _malformed(table: Table, block: Block, first_row: int, error: pl.exceptions.PolarsError) -> InputError:
    """Name the row that has too many fields, or else the stretch that Polars could not read."""
    text = io.StringIO(block.data.decode("utf-8", errors="replace"), newline="")
    records = csv.reader(text, delimiter=table.separator, quoting=csv.QUOTE_MINIMAL if table.quotes else csv.QUOTE_NONE)
    row = 0
    try:
        for row, record in enumerate(records):
            if len(record) > table.width:
                where = Place(table.file).at(first_row + row, block.first_line + records.line_num - 1)
                fields = f"{len(record)} values where {table.width} {'is' if table.width == 1 else 'are'} expected"
                return InputError(f"{where}: there are {fields}. Correct the row or leave it out.")
    except csv.Error as csv_error:
        where = Place(table.file).at(first_row + row, block.first_line + records.line_num - 1)
        return InputError(f"{where}: the row cannot be read ({csv_error}). Correct the row or leave it out.")
    reason = str(error).split("\n", 1)[0]
    return InputError(
        f"{table.file}, rows {first_row + 1} to {first_row + row + 1}: these rows cannot be read as "
        f"UTF-8 text with {table.width} values each ({reason}). Correct or export the file again."
    )
