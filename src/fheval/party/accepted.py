"""The studies that a vault's operator accepted, and what was prepared for them: a file in SQLite beside the ledger.

A vault answers from what lies here, and reads no row while it serves. So whatever an aggregator asks, it sees nothing
of the data: a study is answered from integers whose number the study fixes, or it is not ready and treated like one
that was never accepted. Integers with resamples are taken out when they are used, so that none is used twice.

Preparing writes the rounds of a new generation one by one, beside those in use, and exchanges them in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np

from fheval import wire
from fheval.consortium import TrustAnchor, open_study
from fheval.consortium.signed_study import SignedStudy
from fheval.errors import ConfigError
from fheval.party.columns import StudyColumns
from fheval.party.data_set import DataSet, Version
from fheval.party.sqlite_file import Schema, SqliteFile
from fheval.protocols.round import Contribution
from fheval.study import Study
from fheval.wire import Message

_FILE = Schema(
    "file of accepted studies",
    3,
    (
        "CREATE TABLE accepted (hash BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, acceptance BLOB NOT NULL, "
        "digest BLOB NOT NULL, at TEXT NOT NULL)",
        "CREATE TABLE prepared (hash BLOB PRIMARY KEY, generation INTEGER NOT NULL, facts BLOB NOT NULL, "
        "digest BLOB NOT NULL)",
        "CREATE TABLE rounds (number INTEGER PRIMARY KEY, hash BLOB NOT NULL, generation INTEGER NOT NULL, "
        "body BLOB NOT NULL, digest BLOB NOT NULL)",
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


# What the default decision points keep below for nearly all scores (docs/grids.md).
LARGEST_BINNING = 1e-3


class Facts(Message, frozen=True, kw_only=True):
    """What the operator, and nobody else, is told of a preparation; `version` tells the file from a later one.

    `binning` is how far the study's decision points take the AUC of these very rows from its exact value.
    """

    version: Version
    rows: int
    clipped: int
    at: datetime
    binning: float | None = None

    @property
    def fits_badly(self) -> bool:
        """Whether the decision points should be others, as far as these rows are concerned."""
        return self.binning is not None and self.binning > LARGEST_BINNING

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

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    @classmethod
    def open(cls, path: Path) -> AcceptedStudies:
        """Open the file for writing, or make it."""
        file = SqliteFile.open(path, _FILE)
        # What was used or replaced must not stay readable in free pages.
        file.execute("PRAGMA secure_delete = ON")
        return cls(file)

    @classmethod
    def read(cls, path: Path) -> AcceptedStudies:
        """Open the file to look at it."""
        return cls(SqliteFile.read(path, _FILE))

    def close(self) -> None:
        self._file.close()

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
            "SELECT acceptance, accepted.digest FROM accepted JOIN prepared USING (hash) WHERE hash = ? AND EXISTS "
            "(SELECT 1 FROM rounds WHERE rounds.hash = prepared.hash AND rounds.generation = prepared.generation)",
            study_hash,
        )
        return None if row is None else _acceptance(study_hash, *row)

    def take(self, study: Study) -> Contribution | None:
        """This party's integers for the next round of a study. Those with resamples are not given a second time."""
        with self._file.transaction():
            row = self._row(
                "SELECT number, body, rounds.digest FROM rounds JOIN prepared USING (hash, generation) WHERE hash = ? "
                "ORDER BY number LIMIT 1",
                study.hash(),
            )
            if row is not None and study.replicates:
                self._file.execute("DELETE FROM rounds WHERE number = ?", row[0])
        return None if row is None else _unpacked(_sound("round", study.hash(), *row[1:]))

    # What an operator does

    def accept(self, acceptance: Acceptance, *, at: datetime) -> None:
        """Note that the operator accepts a study, in place of an earlier acceptance of the same one."""
        study = acceptance.study
        with self._file.transaction():
            content = wire.encode(acceptance)
            self._file.execute(
                "INSERT OR REPLACE INTO accepted (hash, name, acceptance, digest, at) VALUES (?, ?, ?, ?, ?)",
                study.hash(),
                study.name,
                content,
                _digest("acceptance", study.hash(), content),
                at.isoformat(),
            )

    def withdraw(self, name: str) -> bool:
        """Forget a study and everything that was prepared for it; whether there was one."""
        with self._file.transaction():
            row = self._row("SELECT hash FROM accepted WHERE name = ?", name)
            if row is not None:
                for delete in _DELETES:
                    self._file.execute(delete, *row)
        return row is not None

    def all(self) -> list[Standing]:
        """Every accepted study, the oldest first."""
        rows = self._file.rows("SELECT hash, acceptance, digest, at FROM accepted ORDER BY at, name")
        return [self._standing(*row) for row in rows]

    def _standing(self, study_hash: bytes, acceptance: bytes, digest: bytes, at: str) -> Standing:
        accepted = _acceptance(study_hash, acceptance, digest)
        prepared = self._row("SELECT facts, digest FROM prepared WHERE hash = ?", study_hash)
        problem = self._row("SELECT reason FROM problems WHERE hash = ?", study_hash)
        return Standing(
            acceptance=accepted,
            accepted=_moment(at),
            facts=None if prepared is None else _facts(_sound("facts", study_hash, *prepared)),
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
            with self._file.transaction():
                body = _packed(contribution)
                self._file.execute(
                    "INSERT INTO rounds (hash, generation, body, digest) VALUES (?, ?, ?, ?)",
                    key,
                    generation,
                    body,
                    _digest("round", key, body),
                )
        with self._file.transaction():
            content = wire.encode(facts)
            self._file.execute(
                "INSERT OR REPLACE INTO prepared (hash, generation, facts, digest) VALUES (?, ?, ?, ?)",
                key,
                generation,
                content,
                _digest("facts", key, content),
            )
            self._file.execute("DELETE FROM rounds WHERE hash = ? AND generation <> ?", key, generation)
            self._file.execute("DELETE FROM problems WHERE hash = ?", key)

    def note_problem(self, study: Study, reason: str, *, at: datetime) -> None:
        """Note why the newest data cannot be used; what was prepared before stays in use."""
        with self._file.transaction():
            self._file.execute(
                "INSERT OR REPLACE INTO problems (hash, reason, at) VALUES (?, ?, ?)",
                study.hash(),
                reason,
                at.isoformat(),
            )

    def _row(self, query: str, *values: Any) -> Any:
        return self._file.row(query, *values)


def _acceptance(study: bytes, data: bytes, digest: bytes) -> Acceptance:
    return wire.decode(_sound("acceptance", study, data, digest), Acceptance, sender="this vault")


def _moment(said: str) -> datetime:
    try:
        return datetime.fromisoformat(said)
    except (TypeError, ValueError):
        raise _damaged("when it was accepted") from None


def _facts(data: bytes) -> Facts:
    return wire.decode(data, Facts, sender="this vault")


def _digest(what: str, study: bytes, data: bytes) -> bytes:
    return sha256(msgspec.msgpack.encode(("fheval/1 accepted", what, study, data))).digest()


def _sound(what: str, study: bytes, data: bytes, digest: bytes) -> bytes:
    """What was written for a study; damage is never taken for an answer."""
    if not isinstance(data, bytes) or _digest(what, study, data) != digest:
        raise _damaged(what)
    return data


def _damaged(what: str) -> ConfigError:
    return ConfigError(
        f"What was kept for a study ({what}) is damaged. Move studies.sqlite away, and accept the studies again."
    )


def _packed(contribution: Contribution) -> bytes:
    """Integers as they are in memory: their bytes are as many whatever they are."""
    table, declared = contribution.table, contribution.declared
    said = None if declared is None else declared.astype("<i8").tobytes()
    return msgspec.msgpack.encode((table.shape, table.astype("<i8").tobytes(), said))


def _unpacked(data: bytes) -> Contribution:
    shape, body, said = msgspec.msgpack.decode(data, type=tuple[tuple[int, ...], bytes, bytes | None])
    declared = None if said is None else np.frombuffer(said, dtype="<i8")
    return Contribution(np.frombuffer(body, dtype="<i8").reshape(shape), declared)
