"""The studies that a vault's operator accepted, and what was prepared for them: a file in SQLite beside the ledger.

A vault answers from what lies here, and reads no row while it serves. So whatever an aggregator asks, it sees nothing
of the data: a study is answered from integers whose number the study fixes, or it is not ready and treated like one
that was never accepted. Integers with resamples are taken out when they are used, so that none is used twice.

Preparing writes the rounds of a new generation one by one, beside those in use, and exchanges them in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np

from fheval import wire
from fheval.consortium import TrustAnchor, open_study
from fheval.consortium.signed_study import SignedStudy
from fheval.party.columns import StudyColumns
from fheval.party.data_set import DataSet, Version
from fheval.party.ledger_file import Schema, open_for_reading, open_for_writing, transaction
from fheval.protocols.round import Contribution
from fheval.study import Study
from fheval.wire import Message

_FILE = Schema(
    "file of accepted studies",
    1,
    (
        "CREATE TABLE accepted (hash BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, acceptance BLOB NOT NULL, "
        "at TEXT NOT NULL)",
        "CREATE TABLE prepared (hash BLOB PRIMARY KEY, generation INTEGER NOT NULL, facts BLOB NOT NULL)",
        "CREATE TABLE rounds (number INTEGER PRIMARY KEY, hash BLOB NOT NULL, generation INTEGER NOT NULL, "
        "body BLOB NOT NULL)",
        "CREATE INDEX rounds_of ON rounds (hash, generation, number)",
        "CREATE TABLE problems (hash BLOB PRIMARY KEY, reason TEXT NOT NULL, at TEXT NOT NULL)",
    ),
)


_DELETES = (
    "DELETE FROM accepted WHERE hash = ?",
    "DELETE FROM prepared WHERE hash = ?",
    "DELETE FROM rounds WHERE hash = ?",
    "DELETE FROM problems WHERE hash = ?",
)


class Acceptance(Message, frozen=True, kw_only=True):
    """What an operator agreed to: a signed study, and which data answer it under which names.

    `lineage` is what the operator calls the data, however often rows are added to them: releases are counted by it.
    """

    signed: bytes
    data: str
    columns: StudyColumns
    lineage: str

    @property
    def study(self) -> Study:
        """The study; its signature was checked when it was accepted."""
        return Study.from_bytes(wire.decode(self.signed, SignedStudy, sender="authority").study)

    def check_signature(self, anchor: TrustAnchor) -> None:
        open_study(self.signed, anchor)

    @property
    def data_set(self) -> DataSet:
        return DataSet(Path(self.data), self.columns)


class Facts(Message, frozen=True, kw_only=True):
    """What the operator is told of a preparation; `version` tells the file from a later one."""

    version: Version
    rows: int
    clipped: int
    at: datetime

    def __repr__(self) -> str:
        return "<facts of a preparation>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an accepted study stands, for its operator's eyes.

    `rounds` are left that were prepared, None where they need not be counted. `problem` says why the newest data
    cannot be used.
    """

    acceptance: Acceptance
    accepted: datetime
    facts: Facts | None
    rounds: int | None
    problem: str | None


class AcceptedStudies:
    """The open file. A vault and whatever prepares for it may have it open at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> AcceptedStudies:
        """Open the file for writing, or make it."""
        connection = open_for_writing(path, _FILE)
        # What was used or replaced must not stay readable in free pages.
        connection.execute("PRAGMA secure_delete = ON")
        return cls(connection)

    @classmethod
    def read(cls, path: Path) -> AcceptedStudies:
        """Open the file to look at it."""
        return cls(open_for_reading(path, _FILE))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> AcceptedStudies:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What a vault does while it serves

    def ready(self, study_hash: bytes) -> Acceptance | None:
        """The acceptance of a study that can be answered; None for one that is not accepted or not ready."""
        row = self._row(
            "SELECT acceptance FROM accepted JOIN prepared USING (hash) WHERE hash = ? AND EXISTS "
            "(SELECT 1 FROM rounds WHERE rounds.hash = prepared.hash AND rounds.generation = prepared.generation)",
            study_hash,
        )
        return None if row is None else _acceptance(row[0])

    def take(self, study: Study) -> Contribution | None:
        """This party's integers for the next round of a study. Those with resamples are not given a second time."""
        with transaction(self._connection):
            row = self._row(
                "SELECT number, body FROM rounds JOIN prepared USING (hash, generation) WHERE hash = ? "
                "ORDER BY number LIMIT 1",
                study.hash(),
            )
            if row is not None and study.replicates:
                self._connection.execute("DELETE FROM rounds WHERE number = ?", (row[0],))
        return None if row is None else _unpacked(row[1])

    # What an operator does

    def accept(self, acceptance: Acceptance, *, at: datetime) -> None:
        """Note that the operator accepts a study, in place of an earlier acceptance of the same one."""
        study = acceptance.study
        with transaction(self._connection):
            self._connection.execute(
                "INSERT OR REPLACE INTO accepted (hash, name, acceptance, at) VALUES (?, ?, ?, ?)",
                (study.hash(), study.name, wire.encode(acceptance), at.isoformat()),
            )

    def withdraw(self, name: str) -> bool:
        """Forget a study and everything that was prepared for it; whether there was one."""
        with transaction(self._connection):
            row = self._row("SELECT hash FROM accepted WHERE name = ?", name)
            if row is not None:
                for delete in _DELETES:
                    self._connection.execute(delete, row)
        return row is not None

    def all(self) -> list[Standing]:
        """Every accepted study, the oldest first."""
        rows = self._connection.execute("SELECT hash, acceptance, at FROM accepted ORDER BY at, name").fetchall()
        return [self._standing(*row) for row in rows]

    def _standing(self, study_hash: bytes, acceptance: bytes, at: str) -> Standing:
        accepted = _acceptance(acceptance)
        prepared = self._row("SELECT generation, facts FROM prepared WHERE hash = ?", study_hash)
        problem = self._row("SELECT reason FROM problems WHERE hash = ?", study_hash)
        return Standing(
            acceptance=accepted,
            accepted=datetime.fromisoformat(at),
            facts=None if prepared is None else wire.decode(prepared[1], Facts, sender="this vault"),
            rounds=self._left(study_hash) if accepted.study.replicates else None,
            problem=None if problem is None else problem[0],
        )

    def _left(self, study_hash: bytes) -> int:
        query = "SELECT COUNT(*) FROM rounds JOIN prepared USING (hash, generation) WHERE hash = ?"
        return int(self._row(query, study_hash)[0])

    # What preparing does

    def replace_rounds(self, study: Study, rounds: Iterable[Contribution], facts: Facts) -> None:
        """Put newly counted rounds in the place of all that were left; until the last one is there, those are used."""
        key = study.hash()
        # Rounds of a higher generation may be left from a preparation that was broken off.
        newest = (
            "SELECT MAX(generation) FROM (SELECT hash, generation FROM rounds UNION "
            "SELECT hash, generation FROM prepared) WHERE hash = ?"
        )
        generation = 1 + (self._row(newest, key)[0] or 0)
        for contribution in rounds:
            with transaction(self._connection):
                self._connection.execute(
                    "INSERT INTO rounds (hash, generation, body) VALUES (?, ?, ?)",
                    (key, generation, _packed(contribution)),
                )
        with transaction(self._connection):
            self._connection.execute(
                "INSERT OR REPLACE INTO prepared (hash, generation, facts) VALUES (?, ?, ?)",
                (key, generation, wire.encode(facts)),
            )
            self._connection.execute("DELETE FROM rounds WHERE hash = ? AND generation <> ?", (key, generation))
            self._connection.execute("DELETE FROM problems WHERE hash = ?", (key,))

    def note_problem(self, study: Study, reason: str, *, at: datetime) -> None:
        """Note why the newest data cannot be used; what was prepared before stays in use."""
        with transaction(self._connection):
            self._connection.execute(
                "INSERT OR REPLACE INTO problems (hash, reason, at) VALUES (?, ?, ?)",
                (study.hash(), reason, at.isoformat()),
            )

    def _row(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, values).fetchone()


def _acceptance(data: bytes) -> Acceptance:
    return wire.decode(data, Acceptance, sender="this vault")


def _packed(contribution: Contribution) -> bytes:
    """Integers as they are in memory: their bytes are as many whatever they are."""
    table = contribution.table
    return msgspec.msgpack.encode((table.shape, table.astype("<i8").tobytes()))


def _unpacked(data: bytes) -> Contribution:
    shape, body = msgspec.msgpack.decode(data, type=tuple[tuple[int, ...], bytes])
    return Contribution(np.frombuffer(body, dtype="<i8").reshape(shape))
