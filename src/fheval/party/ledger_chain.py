"""The ledger's hash chain: each permanent row is bound to all rows before it, and the newest link stands in a file.

A row that was altered, lost or added by anything but this vault breaks the chain. A tail that is missing as a whole,
such as a write-ahead log that was cut off, leaves a chain that is sound and too short: for that, `ledger.head` says how
long it was. It is written behind every transaction, before the answer goes out, so that the ledger may be ahead of it
and never behind. What this cannot see is a directory that was set back as a whole, head and all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from fheval.consortium.files import replace_private
from fheval.errors import ConfigError
from fheval.party.sqlite_file import SqliteFile, file_in_words

_BEGINNING = sha256(b"fheval/1 ledger").digest()


@dataclass(frozen=True, slots=True)
class Head:
    """The newest link: its number, and the hash that all rows up to it lead to."""

    number: int
    digest: bytes

    def to_bytes(self) -> bytes:
        return f"{self.number} {self.digest.hex()}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Head:
        number, digest = data.decode("ascii").split()
        return cls(int(number), bytes.fromhex(digest))

    def then(self, table: str, row: Sequence[Any]) -> Head:
        """The link behind this one."""
        return Head(self.number + 1, sha256(self.digest + msgspec.msgpack.encode((table, tuple(row)))).digest())


EMPTY = Head(0, _BEGINNING)


class Chain:
    """The chain of an open ledger. Inside of `transaction`, `append` takes new rows into it."""

    def __init__(self, file: SqliteFile, head: Head) -> None:
        self._file = file
        self._head = self._pending = head
        self._kept: Head | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is written as a whole, and the head behind it."""
        self._pending = self._head
        with self._file.transaction():
            yield
        self._head = self._pending
        self.keep()

    def append(self, table: str, number: int) -> None:
        """Bind the row of this number, which was just written, to all before it."""
        row = self._file.row(f"SELECT * FROM {table} WHERE rowid = ?", number)  # noqa: S608 (a table of ours)
        self._pending = self._pending.then(table, row)
        self._file.execute("INSERT INTO chain (entry, digest) VALUES (?, ?)", table, self._pending.digest)

    def keep(self) -> None:
        """Write the head, unless the file has it already: the disk may have been full the last time."""
        if self._kept != self._head:
            with file_in_words(head_file(self._file.path)):
                replace_private(head_file(self._file.path), self._head.to_bytes())
            self._kept = self._head


def head_file(ledger: Path) -> Path:
    """Where the head of a ledger's chain stands."""
    return ledger.with_suffix(".head")


def kept_head(ledger: Path) -> Head | None:
    """What the file beside a ledger says; None where there is none."""
    path = head_file(ledger)
    try:
        with file_in_words(path):
            return Head.from_bytes(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise ConfigError(f"{path} is damaged. {RESTORE}") from None


def check_chain(file: SqliteFile, tables: Sequence[str], kept: Head | None, *, older: bool = False) -> Head:
    """Walk the whole chain, and give its head; `kept` must be on it unless an `older` ledger is taken on purpose."""
    with ExitStack() as open_rows:
        rows = {
            table: open_rows.enter_context(closing(file.each(f"SELECT * FROM {table} ORDER BY rowid")))  # noqa: S608 (ours)
            for table in tables
        }
        links = open_rows.enter_context(closing(file.each("SELECT number, entry, digest FROM chain ORDER BY number")))
        head, passed = EMPTY, kept is None or kept == EMPTY
        for number, table, digest in links:
            row = next(rows[table], None) if table in rows else None
            if row is None:
                raise _broken(file, f"its entry {number} is missing")
            head = head.then(table, row)
            if (head.number, head.digest) != (number, digest):
                raise _broken(file, f"its entry {number} in {table} is not the one that was written")
            passed = passed or head == kept
        if any(next(left, None) is not None for left in rows.values()):
            raise _broken(file, "it has entries that this vault did not write")
    if not older and (not passed or (kept is None and head != EMPTY)):
        raise ConfigError(
            f"{file.path} is not the newest ledger of this vault: it ends at entry {head.number}"
            + (f", and there were {kept.number} or more. " if kept is not None else ", and nothing says where it did. ")
            + f"What came after would be forgotten. {RESTORE}"
        )
    return head


RESTORE = (
    "Restore the newest backup of the whole directory. To go on with an older ledger than there was, "
    "with the reason written into it: fheval vault moved --state DIR --reason TEXT"
)


def _broken(file: SqliteFile, what: str) -> ConfigError:
    return ConfigError(f"The ledger {file.path} is damaged: {what}. Restore it from your backup.")
