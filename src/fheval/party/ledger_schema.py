"""The ledger's tables. What is written to the permanent ones is never changed or deleted, and SQLite enforces it."""

from __future__ import annotations

# 2: a round is described by its study and its call.
SCHEMA_VERSION = 2

_PERMANENT = {
    "policies": "version INTEGER PRIMARY KEY, hash BLOB NOT NULL, at TEXT NOT NULL",
    "epochs": "id TEXT PRIMARY KEY, leader TEXT NOT NULL, bundle BLOB NOT NULL UNIQUE, at TEXT NOT NULL",
    "rounds": "number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, study BLOB NOT NULL, description BLOB NOT NULL, "
    "epoch TEXT NOT NULL, epoch_leader TEXT NOT NULL, at TEXT NOT NULL",
    "stages": "number INTEGER PRIMARY KEY, round TEXT NOT NULL REFERENCES rounds (id), stage TEXT NOT NULL, "
    "request BLOB NOT NULL, reply BLOB NOT NULL, at TEXT NOT NULL, UNIQUE (round, stage)",
    "rosters": "round TEXT PRIMARY KEY REFERENCES rounds (id), names BLOB NOT NULL",
    "uses": "round TEXT PRIMARY KEY REFERENCES rounds (id), data_set TEXT NOT NULL, releases INTEGER NOT NULL",
    "endings": "round TEXT PRIMARY KEY REFERENCES rounds (id), ending TEXT NOT NULL, verdict BLOB NOT NULL, "
    "at TEXT NOT NULL",
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


STATEMENTS: tuple[str, ...] = (
    *(f"CREATE TABLE {table} ({columns})" for table, columns in (_PERMANENT | _PASSING).items()),
    *(statement for table in _PERMANENT for statement in _kept(table)),
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
