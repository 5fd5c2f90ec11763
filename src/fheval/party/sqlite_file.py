"""A file of the vault in SQLite: its mode, its tables, durability, a check of the whole, and errors in words."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fheval.consortium.files import check_private_directory, sync_directory
from fheval.errors import ConfigError

_MODE = 0o600

# `status` and `rounds` read for milliseconds; nobody else has a lock.
_BUSY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file of the vault is, and the statements that make its tables."""

    noun: str
    version: int
    statements: tuple[str, ...]


class SqliteFile:
    """One open file. Whatever goes wrong with it is a `ConfigError` that says what to do."""

    def __init__(self, connection: sqlite3.Connection, path: Path, noun: str) -> None:
        self.connection = connection
        self.path = path
        self._noun = noun

    @classmethod
    def open(cls, path: Path, schema: Schema, *, make: bool = True) -> SqliteFile:
        """Open a file for writing, or make it with mode 0600; one that is not sound is refused."""
        check_private_directory(path.parent)
        _check_file(path, schema)
        with in_words(path, schema.noun):
            connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        file = cls(connection, path, schema.noun)
        try:
            # FULL waits for the disk at every commit: what was answered stays answered after a power cut.
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "journal_size_limit = 0"):
                file.execute(f"PRAGMA {pragma}")
            if make:
                file._make_tables(schema)
            file._check(schema, "integrity_check")
        except BaseException:
            connection.close()
            raise
        return file

    @classmethod
    def read(cls, path: Path, schema: Schema) -> SqliteFile:
        """Open a file to look at it."""
        if not path.is_file():
            raise ConfigError(f"There is no {schema.noun} {path}. Start the vault first, or name its state directory.")
        with in_words(path, schema.noun):
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
            )
        file = cls(connection, path, schema.noun)
        try:
            file._check(schema, "quick_check")
        except BaseException:
            connection.close()
            raise
        return file

    def close(self) -> None:
        self.connection.close()

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        with in_words(self.path, self._noun):
            return self.connection.execute(statement, values)

    def row(self, query: str, *values: Any) -> Any:
        with in_words(self.path, self._noun):
            return self.connection.execute(query, values).fetchone()

    def rows(self, query: str, *values: Any) -> list[Any]:
        with in_words(self.path, self._noun):
            return self.connection.execute(query, values).fetchall()

    def each(self, query: str) -> Generator[Any, None, None]:
        """The rows one by one."""
        with in_words(self.path, self._noun):
            yield from self.connection.execute(query)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is written as a whole, and is on disk at the end."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything inside reads one and the same state, whatever is written meanwhile."""
        self.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.rollback()

    def _make_tables(self, schema: Schema) -> None:
        with self.transaction():
            if self._version() == 0:
                for statement in (*schema.statements, f"PRAGMA user_version = {schema.version}"):
                    self.execute(statement)

    def _check(self, schema: Schema, pragma: str) -> None:
        """Refuse a file of another version, whose pages are damaged, or whose tables, views and triggers are others."""
        found = self._version()
        if found != schema.version:
            raise ConfigError(
                f"{self.path} is a {schema.noun} of version {found}, and this fheval writes version {schema.version}. "
                "CHANGELOG.md says what to do with an older one."
            )
        made = sorted(text for (text,) in self.rows("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if made != sorted(schema.statements) or self.rows(f"PRAGMA {pragma}(1)") != [("ok",)]:
            raise _damaged(self.path, schema.noun)

    def _version(self) -> int:
        (version,) = self.row("PRAGMA user_version")
        return int(version)


def _check_file(path: Path, schema: Schema) -> None:
    with file_in_words(path):
        new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
        facts = os.fstat(descriptor)
        os.close(descriptor)
        if new:
            sync_directory(path.parent)
    if facts.st_uid != os.geteuid() or not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{path} is not a file of the user who runs this vault. Check who owns it.")
    if stat.S_IMODE(facts.st_mode) != _MODE:
        raise ConfigError(
            f"The {schema.noun} {path} holds what others must not see and has mode {stat.S_IMODE(facts.st_mode):04o} "
            f"instead of 0600. Find out who may have read it, then: chmod 600 {path}"
        )


def _damaged(path: Path, noun: str, why: str = "") -> ConfigError:
    return ConfigError(f"{path} is damaged and cannot be used as a {noun}{why}. Restore it from your backup.")


# A round's keys and answers have tens of megabytes at the most.
LEAST_ROOM = 32 << 20
_PAGE = 4096

_FULL = "disk is full"
_READ_ONLY = "readonly"
# What SQLite says of a full disk where it makes the files beside a database.
_VAGUE = ("disk i/o error", "unable to open database file")
# By what SQLite says: its codes have names only from Python 3.11 on.
_WORDS = (
    (_FULL, "The disk is full, and {path} was not written. Make room, then try again."),
    ("locked", "Another program has locked {path}. Close it, then try again."),
    (
        _READ_ONLY,
        "{path} cannot be written: it, its folder or its disk is read-only. Make it writable, then try again.",
    ),
    (
        "unable to open",
        "{path} cannot be opened. Check who owns its folder, and whether the disk is full or read-only.",
    ),
    ("disk i/o error", "The disk cannot read or write {path}. Check it, then try again."),
)


def _is_full(path: Path) -> bool:
    """Whether there is no room beside a file."""
    with suppress(OSError):
        return os.statvfs(path.parent).f_bavail == 0
    return False


@contextmanager
def in_words(path: Path, noun: str) -> Iterator[None]:
    """Turn what SQLite says of a file into a sentence."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise  # a bug of ours, not the file
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        # A damaged name in an error message cannot even be decoded.
        said = str(error).lower()
        if said in _VAGUE and _is_full(path):
            said = _FULL
        for words, sentence in _WORDS:
            if words in said:
                raise ConfigError(sentence.format(path=path)) from error
        raise _damaged(path, noun, f" ({error})") from error


def require_room(path: Path) -> None:
    """Refuse where nothing can be written beside a file, or too little for a round."""
    trial = path.with_name(f".{path.name}.room")
    with file_in_words(path):
        space = os.statvfs(path.parent)
        if space.f_bavail * space.f_frsize < LEAST_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            with trial.open("wb") as written:
                written.write(bytes(_PAGE))
                written.flush()
                os.fsync(written.fileno())
        finally:
            trial.unlink(missing_ok=True)


@contextmanager
def file_in_words(path: Path) -> Iterator[None]:
    """Turn what the system says of a file into a sentence, but for one that is not there."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        for number, words in ((errno.ENOSPC, _FULL), (errno.EDQUOT, _FULL), (errno.EROFS, _READ_ONLY)):
            if error.errno == number:
                raise ConfigError(dict(_WORDS)[words].format(path=path)) from error
        raise ConfigError(f"{path} cannot be used ({error.strerror}). Check its folder and its disk.") from error
