"""The ledger's file: modes, tables, durability, and one vault at a time."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fheval.consortium.files import check_private_directory
from fheval.errors import ConfigError
from fheval.party.ledger_schema import SCHEMA_VERSION, STATEMENTS

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
        raise ConfigError(
            f"Another vault works with {path.parent}. Stop it first, or name another directory."
        ) from None
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


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the ledger, or make it with mode 0600."""
    check_private_directory(path.parent)
    _check_file(path)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        with _readable(path):
            # FULL waits for the disk at every commit: what was answered stays answered after a power cut.
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "journal_size_limit = 0"):
                connection.execute(f"PRAGMA {pragma}")
            _make_tables(connection)
            _check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open the ledger to look at it."""
    if not path.is_file():
        raise ConfigError(f"There is no ledger {path}. Start the vault first, or name its state directory.")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
    try:
        with _readable(path):
            _check_version(connection, path)
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


def _make_tables(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        if _version(connection) == 0:
            for statement in STATEMENTS:
                connection.execute(statement)


def _check_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    facts = os.fstat(descriptor)
    os.close(descriptor)
    if facts.st_uid != os.geteuid() or not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{path} is not a file of the user who runs this vault. Check who owns it.")
    if stat.S_IMODE(facts.st_mode) != _MODE:
        raise ConfigError(
            f"{path} holds results and has mode {stat.S_IMODE(facts.st_mode):04o} instead of 0600. "
            f"Find out who may have read it, then: chmod 600 {path}"
        )


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    found = _version(connection)
    if found != SCHEMA_VERSION:
        raise ConfigError(f"{path} is a ledger of version {found}, not {SCHEMA_VERSION}. Use the fheval that wrote it.")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise ConfigError(f"{path} cannot be used as a ledger ({error}). Restore it from your backup.") from error
