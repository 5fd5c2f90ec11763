"""Rows that stay in a database or a lake: PostgreSQL and SQLite through ADBC, DuckDB for files.

A query lies in a TOML file, which stands wherever a file of rows may stand; see docs/databases.md. Rows come as Arrow
batches in bounded memory, so that every metric works. Where an AUC is all that is asked, PostgreSQL and DuckDB count by
themselves, in one `GROUP BY` with exactly the bins of the grid.
"""

from __future__ import annotations

from fheval.databases.query import TableQuery
from fheval.databases.query_file import QUERY_ENDING, Query, read_query

__all__ = ["QUERY_ENDING", "Query", "TableQuery", "read_query"]
