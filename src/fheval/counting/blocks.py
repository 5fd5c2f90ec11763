"""Text files in pieces: blocks of whole records, of bounded size, with the line each starts on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fheval.errors import InputError

# Large enough that parsing outweighs the overhead for each block, small enough to stay far below 1 GB parsed.
BLOCK_BYTES = 8 << 20

# No honest record of a score file is longer; a quote that is never closed makes one that is.
RECORD_LIMIT = 64 << 20

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, repr=False)
class Block:
    """Whole records as bytes; `first_line` is the line of the first one, counted from 1."""

    data: bytes
    first_line: int


def read_blocks(path: Path, *, quotes: bool) -> Iterator[Block]:
    """Read a file block by block; blank lines at its end are dropped, others are kept.

    With `quotes`, a line break between double quotes does not end a record.
    """
    line = 1
    with path.open("rb") as file:
        pending = file.read(BLOCK_BYTES).removeprefix(_BYTE_ORDER_MARK)
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
            fresh = file.read(BLOCK_BYTES)
            pending += fresh
    if quotes and pending.count(b'"') % 2:
        line += pending.count(b"\n", 0, pending.rfind(b'"'))
        raise InputError(f"{path}, line {line}: a quote is opened and never closed. Close it or remove it.")
    if pending.strip():
        yield Block(pending, line)


def _end_of_records(data: bytes, quotes: bool) -> int:
    """Return where the last whole record that is not blank ends; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    if quotes and data.count(b'"', 0, end) % 2:
        # The last quote opened a field that `data` does not close: stop before that field's record.
        end = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
    content = len(data[:end].rstrip())
    return data.find(b"\n", content) + 1 if content else 0
