"""CSV files, and text files with one number or one label and score a line, in bounded memory.

Numbers are parsed by Polars, correctly rounded. A block that does not parse as numbers is parsed a second
time as text, which is slower but tells which value of which row is to blame.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
import zstandard
from numpy.typing import NDArray

from fheval.counting.chunks import Column, ColumnChunk, Kind, Place, Wanted, find_columns, not_a_number, require_two
from fheval.errors import InputError

# Large enough that parsing outweighs the overhead for each block, small enough to stay far below 1 GB parsed.
BLOCK_BYTES = 8 << 20

# So little at a time that what it unpacks to stays small.
_PACKED_BYTES = 1 << 14

# No honest record of a score file is longer; a quote that is never closed makes one that is.
RECORD_LIMIT = 64 << 20

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, repr=False)
class Block:
    """Whole records as bytes; `first_line` is the line of the first one, counted from 1."""

    data: bytes
    first_line: int


def read_blocks(path: Path, *, quotes: bool) -> Iterator[Block]:
    """Read a file block by block, unpacking it on the way; blank lines at its end are dropped, others are kept.

    With `quotes`, a line break between double quotes does not end a record.
    """
    line = 1
    with closing(_pieces(path)) as pieces:
        pending = next(pieces, b"").removeprefix(_BYTE_ORDER_MARK)
        fresh = pending
        while fresh:
            end = _end_of_records(pending, quotes)
            if end:
                yield Block(pending[:end], line)
                line += pending.count(b"\n", 0, end)
                pending = pending[end:]
            if len(pending) > RECORD_LIMIT:
                raise InputError(
                    f"{path}, line {line}: the row is longer than {RECORD_LIMIT >> 20} MiB. "
                    "Check for a quote that is never closed."
                )
            fresh = next(pieces, b"")
            pending += fresh
    if quotes and pending.count(b'"') % 2:
        line += pending.count(b"\n", 0, pending.rfind(b'"'))
        raise InputError(f"{path}, line {line}: a quote is opened and never closed. Close it or remove it.")
    if pending.strip():
        yield Block(pending, line)


def _pieces(path: Path) -> Generator[bytes, None, None]:
    """The content of a file piece by piece, unpacked if its name says that it is packed."""
    unpacked = {".gz": _gunzipped, ".zst": _unzstandard}.get(path.suffix.lower())
    if unpacked is None:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(BLOCK_BYTES), b"")
        return
    try:
        yield from unpacked(path)
    except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}). Write the file again.") from error


def _gunzipped(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as file:
        yield from iter(lambda: file.read(BLOCK_BYTES), b"")


def _unzstandard(path: Path) -> Iterator[bytes]:
    """Frame by frame, since the library's own reader takes a file that was cut off for one that ends there."""
    held, frame = b"", zstandard.ZstdDecompressor().decompressobj()
    begun = False
    with path.open("rb") as file:
        while packed := file.read(_PACKED_BYTES):
            while packed:
                begun = True
                held += frame.decompress(packed)
                packed = frame.unused_data if frame.eof else b""
                if frame.eof:
                    begun, frame = False, zstandard.ZstdDecompressor().decompressobj()
                if len(held) >= BLOCK_BYTES:
                    yield held
                    held = b""
    if begun:
        raise EOFError("the file ends before its last frame does")
    if held:
        yield held


def _end_of_records(data: bytes, quotes: bool) -> int:
    """Return where the last whole record that is not blank ends; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    if quotes and data.count(b'"', 0, end) % 2:
        # The last quote opened a field that `data` does not close: stop before that field's record.
        end = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
    content = len(data[:end].rstrip())
    return data.find(b"\n", content) + 1 if content else 0


_CSV_SEPARATORS = (",", ";", "\t")
_TEXT_SEPARATORS = (",", ";", "\t", " ")


@dataclass(frozen=True, slots=True)
class Field:
    """One wanted field of a record: its position, what it is called in messages, and what is in it."""

    position: int
    place: Place
    kind: Kind

    @property
    def is_text(self) -> bool:
        return self.kind in ("word", "text")


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """How the records of a file are laid out, and which of their fields are wanted."""

    file: str
    separator: str
    quotes: bool
    width: int
    fields: tuple[Field, ...]


def csv_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read a CSV file with a header; comma, semicolon or tab, whichever the header has most of."""
    blocks, file = read_blocks(path, quotes=True), str(path)
    first = next(blocks, None)
    if first is not None:
        names, separator, rest = _split_header(path, first)
        positions = find_columns(file, names, wanted)
        fields = [Field(at, Place(file, names[at]), each.kind) for at, each in zip(positions, wanted, strict=True)]
        yield from _chunks(RecordFormat(file, separator, True, len(names), tuple(fields)), chain([rest], blocks))


def text_columns(path: Path, wanted: Sequence[Wanted]) -> Iterator[ColumnChunk]:
    """Read a text file without a header: a label and a score a line, separated by one comma, tab or blank."""
    blocks, file = read_blocks(path, quotes=False), str(path)
    require_two(file, wanted)
    fields = Field(0, Place(file, "label"), wanted[0].kind), Field(1, Place(file, "score"), "score")
    first = next(blocks, None)
    if first is not None:
        separator = _text_separator(path, first)
        yield from _chunks(RecordFormat(file, separator, False, 2, fields), chain([first], blocks))


def text_column(path: Path, *, labels: bool) -> Iterator[NDArray[np.float64]]:
    """Read a text file of one number a line."""
    field = Field(0, Place(str(path)), "label" if labels else "score")
    chunks = _chunks(RecordFormat(str(path), ",", False, 1, (field,)), read_blocks(path, quotes=False))
    return (chunk.columns[0].values for chunk in chunks)


def _chunks(form: RecordFormat, blocks: Iterable[Block]) -> Iterator[ColumnChunk]:
    first_row = 0
    for block in blocks:
        chunk = _parse(form, block, first_row)
        first_row += len(chunk.columns[0].values)
        yield chunk


def _split_header(path: Path, block: Block) -> tuple[list[str], str, Block]:
    """Take the header off the first block of a CSV file."""
    end = block.data.find(b"\n") + 1 or len(block.data)
    while block.data.count(b'"', 0, end) % 2 and end < len(block.data):
        end = block.data.find(b"\n", end) + 1 or len(block.data)
    try:
        header = block.data[:end].decode("utf-8")
        separator = max(_CSV_SEPARATORS, key=header.count)
        records = list(csv.reader(io.StringIO(header, newline=""), delimiter=separator)) or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: the header cannot be read ({error}). Save the file as CSV in UTF-8.") from error
    if len(records) > 1:
        raise InputError(
            f"{path}: a carriage return alone ends the header, where other rows may end otherwise. "
            "Save the file with one kind of line ends."
        )
    lines = block.data.count(b"\n", 0, end)
    return [name.strip() for name in records[0]], separator, Block(block.data[end:], block.first_line + lines)


def _text_separator(path: Path, block: Block) -> str:
    first = block.data.split(b"\n", 1)[0].strip().decode("utf-8", errors="replace")
    separator = next((mark for mark in _TEXT_SEPARATORS if mark in first), None)
    if separator is None:
        raise InputError(
            f"{path}, row 1 (line 1): there is one value, where a label and a score are needed. "
            "Give two files, one of labels and one of scores, or put both on each line."
        )
    return separator


def _parse(form: RecordFormat, block: Block, first_row: int) -> ColumnChunk:
    if not block.data:
        return ColumnChunk(tuple(Column(np.empty(0), field.place) for field in form.fields), first_row)
    try:
        frame = _read(form, block, pl.Float64())
    except pl.exceptions.PolarsError:
        return _parse_text(form, block, first_row)
    series = [frame[str(field.position)] for field in form.fields]
    if any(each.null_count() for each, field in zip(series, form.fields, strict=True) if not field.is_text):
        return _parse_text(form, block, first_row)
    values = [_text(each) if each.dtype == pl.String else each.to_numpy() for each in series]
    columns = tuple(Column(each, field.place) for each, field in zip(values, form.fields, strict=True))
    return ColumnChunk(columns, first_row, _first_line(block, frame.height))


def _parse_text(form: RecordFormat, block: Block, first_row: int) -> ColumnChunk:
    """Parse with an eye to messages: accepts what `_parse` does, booleans, blanks around a number, decimal commas."""
    try:
        frame = _read(form, block, pl.String())
    except pl.exceptions.PolarsError as error:
        raise _malformed(form, block, first_row, error) from error
    first_line = _first_line(block, frame.height)
    columns = []
    for field in form.fields:
        words = frame[str(field.position)].str.strip_chars()
        if field.is_text:
            columns.append(Column(_text(words), field.place))
            continue
        digits = words.str.to_lowercase().replace({"true": "1", "false": "0"}) if field.kind == "label" else words
        numbers = _with_points(form, digits).cast(pl.Float64, strict=False)
        if numbers.null_count():
            row = int(numbers.is_null().arg_max() or 0)
            where = field.place.at(first_row + row, None if first_line is None else first_line + row)
            raise not_a_number(where, words[row] or "", field.kind)
        columns.append(Column(numbers.to_numpy(), field.place))
    return ColumnChunk(tuple(columns), first_row, first_line)


def _with_points(form: RecordFormat, words: pl.Series) -> pl.Series:
    """Numbers with a point where they have a decimal comma; a stretch that has points as well stays as it is."""
    if form.separator == "," or words.str.contains(".", literal=True).any():
        return words
    return words.str.replace(",", ".", literal=True)


def _text(words: pl.Series) -> NDArray[np.str_]:
    return np.asarray(words.str.strip_chars().fill_null("").to_list(), dtype=np.str_)


def _read(form: RecordFormat, block: Block, dtype: pl.DataType) -> pl.DataFrame:
    wanted = {field.position for field in form.fields}
    numeric = {field.position for field in form.fields if not field.is_text}
    schema = {str(i): dtype if i in numeric else pl.String() for i in range(form.width)}
    return pl.read_csv(
        block.data,
        has_header=False,
        schema=schema,
        columns=sorted(wanted),
        separator=form.separator,
        quote_char='"' if form.quotes else None,
    )


def _first_line(block: Block, rows: int) -> int | None:
    lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
    return block.first_line if lines == rows else None


def _malformed(form: RecordFormat, block: Block, first_row: int, error: pl.exceptions.PolarsError) -> InputError:
    """Name the row that has too many fields, or else the stretch that Polars could not read."""
    text = io.StringIO(block.data.decode("utf-8", errors="replace"), newline="")
    records = csv.reader(text, delimiter=form.separator, quoting=csv.QUOTE_MINIMAL if form.quotes else csv.QUOTE_NONE)
    row = 0
    try:
        for row, record in enumerate(records):
            if len(record) > form.width:
                where = Place(form.file).at(first_row + row, block.first_line + records.line_num - 1)
                fields = f"{len(record)} values where {form.width} {'is' if form.width == 1 else 'are'} expected"
                return InputError(f"{where}: there are {fields}. Correct the row or leave it out.")
    except csv.Error as csv_error:
        where = Place(form.file).at(first_row + row, block.first_line + records.line_num - 1)
        return InputError(f"{where}: the row cannot be read ({csv_error}). Correct the row or leave it out.")
    reason = str(error).split("\n", 1)[0]
    return InputError(
        f"{form.file}, rows {first_row + 1} to {first_row + row + 1}: these rows cannot be read as "
        f"UTF-8 text with {form.width} values each ({reason}). Correct or export the file again."
    )
