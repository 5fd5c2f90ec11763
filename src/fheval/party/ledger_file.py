"""A vault's files in SQLite, the ledger above all: modes, tables, durability, and one vault at a time."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fheval.consortium.files import check_private_directory
from fheval.errors import ConfigError

# 3: a ledger knows whose it is and where it lies, and rounds may be void. 4: studies have a table of their own,
# and releases are counted by lineage, since a reset.
SCHEMA_VERSION = 4

_PERMANENT = {
    "places": "number INTEGER PRIMARY KEY, ledger TEXT NOT NULL, member TEXT NOT NULL, directory TEXT NOT NULL, "
    "reason TEXT NOT NULL, at TEXT NOT NULL",
    "policies": "version INTEGER PRIMARY KEY, hash BLOB NOT NULL, at TEXT NOT NULL",
    "epochs": "id TEXT PRIMARY KEY, leader TEXT NOT NULL, bundle BLOB NOT NULL UNIQUE, at TEXT NOT NULL",
    "studies": "hash BLOB PRIMARY KEY, study BLOB NOT NULL",
    "rounds": "number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, study BLOB NOT NULL REFERENCES studies (hash), "
    "call BLOB NOT NULL, epoch TEXT NOT NULL, epoch_leader TEXT NOT NULL, at TEXT NOT NULL",
    "stages": "number INTEGER PRIMARY KEY, round TEXT NOT NULL REFERENCES rounds (id), stage TEXT NOT NULL, "
    "request BLOB NOT NULL, reply BLOB NOT NULL, at TEXT NOT NULL, UNIQUE (round, stage)",
    "rosters": "round TEXT PRIMARY KEY REFERENCES rounds (id), names BLOB NOT NULL",
    "uses": "round TEXT PRIMARY KEY REFERENCES rounds (id), lineage TEXT NOT NULL, releases INTEGER NOT NULL",
    "resets": "number INTEGER PRIMARY KEY, lineage TEXT NOT NULL, last_round INTEGER NOT NULL, reason TEXT NOT NULL, "
    "at TEXT NOT NULL",
    "endings": "round TEXT PRIMARY KEY REFERENCES rounds (id), ending TEXT NOT NULL, verdict BLOB NOT NULL, "
    "at TEXT NOT NULL",
    "voids": "round TEXT PRIMARY KEY REFERENCES rounds (id), at TEXT NOT NULL",
    "aborts": "round TEXT PRIMARY KEY REFERENCES rounds (id), reason TEXT NOT NULL, at TEXT NOT NULL",
}

# Bytes that only a retry or a restart in the middle of a round needs; the oldest are dropped.
_PASSING = {
    "replies": "round TEXT NOT NULL, stage TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (round, stage)",
    "epoch_bytes": "id TEXT PRIMARY KEY, bundle BLOB NOT NULL, box BLOB NOT NULL",
}


def _kept(table: str) -> list[str]:
    return [
        f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
        for verb in ("UPDATE", "DELETE")
    ]


# What a lineage has been used for since its budget was last reset, and of that, what counts: all but void rounds.
_USED = (
    "SELECT uses.round, uses.lineage, uses.releases, rounds.study, rounds.number, "
    "uses.round IN (SELECT round FROM voids) AS void FROM uses JOIN rounds ON rounds.id = uses.round "
    "WHERE rounds.number > (SELECT COALESCE(MAX(last_round), 0) FROM resets WHERE resets.lineage = uses.lineage)"
)
_SPENT = "SELECT * FROM used WHERE NOT void"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file of the vault is, and the statements that make its tables."""

    noun: str
    version: int
    statements: tuple[str, ...]


LEDGER = Schema(
    "ledger",
    SCHEMA_VERSION,
    (
        *(f"CREATE TABLE {table} ({columns})" for table, columns in (_PERMANENT | _PASSING).items()),
        f"CREATE VIEW used AS {_USED}",
        f"CREATE VIEW spent AS {_SPENT}",
        *(statement for table in _PERMANENT for statement in _kept(table)),
    ),
)


_MODE = 0o600

# `status` and `rounds` read for milliseconds; nobody else has a lock.
_BUSY_SECONDS = 10.0


def hold(path: Path) -> int:
    """Take the lock that one vault has; it ends with the process, however that ends. Gives the descriptor."""
    check_private_directory(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigError(f"Another vault works with {path.parent}. Stop it first.") from None
    return descriptor


def is_held(path: Path) -> bool:
    """Whether a vault has the lock at this moment."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def open_for_writing(path: Path, schema: Schema = LEDGER) -> sqlite3.Connection:
    """Open such a file, or make it with mode 0600."""
    check_private_directory(path.parent)
    _check_file(path)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        with _readable(path, schema):
            # FULL waits for the disk at every commit: what was answered stays answered after a power cut.
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "journal_size_limit = 0"):
                connection.execute(f"PRAGMA {pragma}")
            _make_tables(connection, schema)
            _check_version(connection, path, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path, schema: Schema = LEDGER) -> sqlite3.Connection:
    """Open such a file to look at it."""
    if not path.is_file():
        raise ConfigError(f"There is no {schema.noun} {path}. Start the vault first, or name its state directory.")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
    try:
        with _readable(path, schema):
            _check_version(connection, path, schema)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is written as a whole, and is on disk at the end."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _make_tables(connection: sqlite3.Connection, schema: Schema) -> None:
    with transaction(connection):
        if _version(connection) == 0:
            for statement in (*schema.statements, f"PRAGMA user_version = {schema.version}"):
                connection.execute(statement)


def _check_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    facts = os.fstat(descriptor)
    os.close(descriptor)
    if facts.st_uid != os.geteuid() or not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{path} is not a file of the user who runs this vault. Check who owns it.")
    if stat.S_IMODE(facts.st_mode) != _MODE:
        raise ConfigError(
            f"{path} holds what others must not see and has mode {stat.S_IMODE(facts.st_mode):04o} instead of 0600. "
            f"Find out who may have read it, then: chmod 600 {path}"
        )


def _check_version(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    found = _version(connection)
    if found != schema.version:
        raise ConfigError(
            f"{path} is a {schema.noun} of version {found}, and this fheval writes version {schema.version}. "
            "CHANGELOG.md says what to do with an older one."
        )


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


@contextmanager
def _readable(path: Path, schema: Schema) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise ConfigError(
            f"{path} cannot be used as a {schema.noun} ({error}). Restore it from your backup."
        ) from error
