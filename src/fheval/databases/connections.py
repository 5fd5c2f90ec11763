"""Connections that only read: a SELECT in, Arrow batches out, and every error one sentence without a secret in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from fheval.errors import ConfigError, InputError, TransportError
from fheval.secrets import Secret

KINDS = ("postgresql", "sqlite", "duckdb")

# Rows of a batch, where we say how many: a few megabytes. PostgreSQL's driver goes by 16 MB of its own accord.
BATCH_ROWS = 1 << 17

_CONNECT_SECONDS = 15

# Every transaction only reads; a query over millions of rows gains nothing from being compiled first, and much from
# workers, of which the server has as many as its owner allows (max_parallel_workers).
_SETTINGS = "-c default_transaction_read_only=on -c jit=off -c max_parallel_workers_per_gather=8"

# The drivers put the status, their own name and the whole query around what the server said.
_SERVER_SAID = re.compile(r"(?:FATAL|ERROR):\s*([^\n]+)")
_NOT_REACHED = re.compile(r"Failed to connect: ([^\n]+)")
_LOST = re.compile(
    r"terminat|server closed|connection|reset by peer|could not receive|no COPY in progress", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is: a PostgreSQL address, or the path of a file; empty for a DuckDB without one.

    Files that a query of DuckDB names are looked for in `folder` first.
    """

    kind: Literal["postgresql", "sqlite", "duckdb"] | str
    place: str
    folder: str = ""


class Session:
    """An open connection; `who` stands for it in messages."""

    def __init__(self, who: str, batches: Callable[[str], Iterator[Any]], schema: Callable[[str], Any]) -> None:
        self.who = who
        self.batches = batches
        self.schema = schema


@contextmanager
def connected(who: str, address: Address, password: Secret[str] | None) -> Iterator[Session]:
    """Open a connection for the time of a `with`; whatever goes wrong within is an `InputError` or `TransportError`."""
    arrow = _library("pyarrow")
    errors: tuple[type[Exception], ...] = (arrow.ArrowException, OSError)
    if address.kind == "duckdb":
        errors += (_library("duckdb").Error,)
    else:
        errors += (_library("adbc_driver_manager").Error,)
    try:
        with _OPENERS[address.kind](who, address, password) as session:
            yield session
    except errors as error:
        raise _in_words(who, error, password) from None


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ConfigError(
            "Databases need what fheval[databases] brings. Install it: pip install fheval[databases]"
        ) from None


@contextmanager
def _postgresql(who: str, address: Address, password: Secret[str] | None) -> Iterator[Session]:
    joint = "&" if urlsplit(address.place).query else "?"
    uri = f"{address.place}{joint}options={quote(_SETTINGS)}&connect_timeout={_CONNECT_SECONDS}&application_name=fheval"
    if password is not None:
        uri += f"&password={quote(password.reveal(), safe='')}"
    with _library("adbc_driver_postgresql.dbapi").connect(uri, autocommit=True) as connection:
        yield _adbc_session(who, connection)


@contextmanager
def _sqlite(who: str, address: Address, _: Secret[str] | None) -> Iterator[Session]:
    _require_file(who, address)
    with _library("adbc_driver_sqlite.dbapi").connect(f"file:{quote(address.place)}?mode=ro") as connection:
        yield _adbc_session(who, connection)


def _require_file(who: str, address: Address) -> None:
    if not Path(address.place).is_file():
        raise InputError(f"{who}: there is no database {address.place}. Check the path.")


def _adbc_session(who: str, connection: Any) -> Session:
    def batches(sql: str) -> Iterator[Any]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            yield from cursor.fetch_record_batch()

    def schema(sql: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_record_batch().schema

    return Session(who, batches, schema)


@contextmanager
def _duckdb(who: str, address: Address, _: Secret[str] | None) -> Iterator[Session]:
    if address.place:
        _require_file(who, address)
    # Extensions are what the owner installed; nothing is fetched from anywhere because a query names it.
    settings = {"autoinstall_known_extensions": "false", "memory_limit": "384MB", "file_search_path": address.folder}
    place = address.place or ":memory:"
    connection = _library("duckdb").connect(place, read_only=bool(address.place), config=settings)
    # The statistics of a Parquet file leave NaN out, and DuckDB believes them: it would count NaN as a small score.
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")

    def batches(sql: str) -> Iterator[Any]:
        yield from connection.sql(sql).to_arrow_reader(BATCH_ROWS)

    def schema(sql: str) -> Any:
        return connection.sql(sql).to_arrow_reader(1).schema

    try:
        yield Session(who, batches, schema)
    finally:
        connection.close()


_OPENERS = {"postgresql": _postgresql, "sqlite": _sqlite, "duckdb": _duckdb}


def _in_words(who: str, error: Exception, password: Secret[str] | None) -> InputError | TransportError:
    said = _SERVER_SAID.search(str(error))
    unreached = None if said else _NOT_REACHED.search(str(error))
    if unreached:
        return TransportError(
            f"{who}: the database cannot be reached ({unreached[1].strip(' .')}). Nothing was sent; check its address, "
            "or try again."
        )
    reason = (said.group(1) if said else str(error).strip().split("\n", 1)[0]).split("Query was:", 1)[0].strip(" .")
    if password is not None and password.reveal():
        reason = reason.replace(password.reveal(), "…")
    if _LOST.search(reason):
        return TransportError(
            f"{who}: the connection to the database broke off ({reason}). Nothing was sent; try again."
        )
    return InputError(
        f"{who}: the database refused ({reason}). Nothing was sent; check the query, the user and the password."
    )
