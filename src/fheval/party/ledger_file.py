"""What the ledger's file consists of, and the lock with which one vault at a time works on it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from fheval.consortium.files import check_private_directory
from fheval.errors import ConfigError
from fheval.party.sqlite_file import Schema, file_in_words

# 3: a ledger knows whose it is and where it lies, and rounds may be void. 4: studies have a table of their own,
# and releases are counted by lineage, since a reset. 5: permanent rows form a chain. 6: rounds under noise spend
# privacy. 7: members of a committee know which groups they have helped to open.
SCHEMA_VERSION = 7

PERMANENT = {
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
    "openings": "round TEXT PRIMARY KEY REFERENCES rounds (id), groups BLOB NOT NULL",
    "uses": "round TEXT PRIMARY KEY REFERENCES rounds (id), lineage TEXT NOT NULL, releases INTEGER NOT NULL",
    "noise": "round TEXT PRIMARY KEY REFERENCES rounds (id), epsilon REAL, rho REAL NOT NULL",
    "resets": "number INTEGER PRIMARY KEY, lineage TEXT NOT NULL, last_round INTEGER NOT NULL, reason TEXT NOT NULL, "
    "at TEXT NOT NULL",
    "endings": "round TEXT PRIMARY KEY REFERENCES rounds (id), ending TEXT NOT NULL, verdict BLOB NOT NULL, "
    "at TEXT NOT NULL",
    "voids": "round TEXT PRIMARY KEY REFERENCES rounds (id), at TEXT NOT NULL",
    "aborts": "round TEXT PRIMARY KEY REFERENCES rounds (id), reason TEXT NOT NULL, at TEXT NOT NULL",
}

# One link for each permanent row, in the order in which they were written.
_CHAIN = {"chain": "number INTEGER PRIMARY KEY, entry TEXT NOT NULL, digest BLOB NOT NULL"}

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


LEDGER = Schema(
    "ledger",
    SCHEMA_VERSION,
    (
        *(f"CREATE TABLE {table} ({columns})" for table, columns in (PERMANENT | _CHAIN | _PASSING).items()),
        f"CREATE VIEW used AS {_USED}",
        f"CREATE VIEW spent AS {_SPENT}",
        *(statement for table in PERMANENT | _CHAIN for statement in _kept(table)),
    ),
)


_MODE = 0o600


def hold(path: Path) -> int:
    """Take the lock that one vault has; it ends with the process, however that ends. Gives the descriptor."""
    check_private_directory(path.parent)
    with file_in_words(path):
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
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
