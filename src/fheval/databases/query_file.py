"""A query as its owner writes it down: a TOML file with a name, a database and a SELECT, and no password.

    name = "sepsis-icu"
    database = "postgresql://reader@db.example.org/omop"
    password_file = "reader.password"
    query = '''
    SELECT …
    '''

The password is in a file of mode 0600, or in the variable FHEVAL_DATABASE_PASSWORD. Paths are taken from where the TOML
file lies.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import msgspec

from fheval.consortium.files import read_secret
from fheval.counting import RowsElsewhere, TableColumns, TableSource
from fheval.databases.connections import KINDS, Address
from fheval.databases.query import TableQuery
from fheval.errors import ConfigError
from fheval.secrets import Secret

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

QUERY_ENDING = ".toml"
PASSWORD_VARIABLE = "FHEVAL_DATABASE_PASSWORD"  # noqa: S105 (a name)


class _Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    database: str
    query: str
    password_file: str | None = None


@dataclass(frozen=True, slots=True)
class Query(RowsElsewhere):
    """A query, and the database that answers it. `name` stands for a file's name in messages."""

    name: str
    address: Address
    text: str = field(repr=False)
    password_file: Path | None = None

    def table(self, columns: TableColumns) -> TableSource:
        """The rows of the query; the password is looked up only now."""
        return TableQuery(self.name, self.address, self.text, self._password(), columns)

    def _password(self) -> Secret[str] | None:
        if self.password_file is not None:
            content = read_secret(self.password_file).reveal()
            try:
                return Secret(content.decode("utf-8").rstrip("\r\n"))
            except UnicodeDecodeError:
                raise ConfigError(
                    f"{self.password_file} is not text. Write the password into it and nothing else."
                ) from None
        found = os.environ.get(PASSWORD_VARIABLE)
        return None if found is None else Secret(found)


def read_query(path: str | os.PathLike[str]) -> Query:
    """Read a query's TOML file; nothing is connected to."""
    file = Path(path)
    try:
        fields = msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), _Fields)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be opened ({error.strerror or error}). Check the path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{file}: is not the TOML file of a query ({error}). See docs/databases.md.") from error
    query = fields.query.strip().rstrip(";").rstrip()
    if not fields.name.strip() or not query:
        raise ConfigError(f"{file}: a query has a name and a SELECT. Write both.")
    if ";" in query:
        raise ConfigError(f"{file}: a query is one SELECT, and this one has a semicolon in it. Write it without.")
    folder = file.absolute().parent
    password_file = None if fields.password_file is None else folder / fields.password_file
    return Query(fields.name.strip(), _address(file, fields.database), query, password_file)


def _address(file: Path, database: str) -> Address:
    """Take a database's address apart, and refuse one that would carry a password into logs."""
    try:
        parts = urlsplit(database)
    except ValueError as error:
        raise ConfigError(f"{file}: {error}. Correct the address of the database.") from None
    if parts.scheme not in KINDS:
        raise ConfigError(
            f"{file}: the database must be one of {', '.join(f'{kind}:…' for kind in KINDS)}. Correct its address."
        )
    said = dict(parse_qsl(parts.query))
    if parts.password is not None or {"password", "sslpassword"} & said.keys():
        raise ConfigError(
            f"{file}: there is a password in the address of the database. Change it, since this file is no place for "
            f"it, and put the new one into a password_file of mode 0600 or into {PASSWORD_VARIABLE}."
        )
    if parts.scheme == "postgresql":
        return Address("postgresql", database)
    place = database.split(":", 1)[1]
    place = place[2:] if place.startswith("//") else place
    folder = file.absolute().parent
    return Address(parts.scheme, str(folder / place) if place else "", str(folder))
