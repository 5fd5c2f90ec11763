"""The ledger: what this vault has answered, released and refused, in SQLite; it survives a kill at any point.

Everything that belongs to one answer is one transaction, on disk before the answer is sent. So after a crash a stage
either was never answered, and nobody has seen anything, or is answered again with the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from fheval import wire
from fheval.consortium import bundle_id
from fheval.errors import ConfigError, LocalProtocolError
from fheval.party.ledger_chain import RESTORE, Chain, check_chain, kept_head
from fheval.party.ledger_file import LEDGER, PERMANENT, hold, is_held
from fheval.party.messages import Bundles, Epoch
from fheval.party.sqlite_file import SqliteFile, require_room
from fheval.privacy.accounting import Cost
from fheval.protocols.base import Stage
from fheval.protocols.round import Round, RoundCall, Verdict, verdict_from_bytes, verdict_to_bytes
from fheval.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBytes:
    """What one party got of an epoch, as it came: only the party's own opening key opens it."""

    bundle: bytes = field(repr=False)
    box: bytes = field(repr=False)

    def id(self, leader: str) -> bytes:
        """The id by which the bundle, or a committee's bundles, are recognised when they come again."""
        if wire.holds(self.bundle, Bundles):
            return sha256(self.bundle).digest()
        return bundle_id(self.bundle, sender=leader)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """What the ledger knows of a round: what it is about, the stages answered, in their order, and if it is over."""

    call: RoundCall
    study: Study
    epoch: Epoch
    answered: dict[Stage, bytes]
    roster: tuple[str, ...] | None
    aborted: bool
    void: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """What the ledger knows of an epoch; the bundle itself may have been dropped."""

    epoch: Epoch
    bundle_id: bytes
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """That a round takes releases from a lineage of data and, under noise, what `cost` of its privacy."""

    lineage: str
    releases: int
    cost: Cost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a lineage has been used for by one study, which is named by its hash.

    `rounds` and `numbers` count, `void` rounds do not. Of the rounds, so many ended in a way that is `unknown` here.
    """

    lineage: str
    study: bytes
    rounds: int
    numbers: int
    void: int
    unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Everything that one answer writes."""

    call: RoundCall
    study: Study
    epoch: Epoch
    stage: Stage
    request: bytes = field(repr=False)
    reply: bytes = field(repr=False)
    keys: EpochBytes | None = None
    roster: tuple[str, ...] | None = None
    published: tuple[str, ...] | None = None
    use: Use | None = None
    verdict: Verdict | None = None
    void: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One round as the operator of the vault sees it."""

    study: Study
    round: Round
    began: datetime
    stages: tuple[Stage, ...]
    use: Use | None
    verdict: Verdict | None
    ended: datetime | None
    aborted: str | None
    void: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which ledger this is, whose, and where it was last said to be."""

    id: str
    member: str
    directory: str


# Retries come within seconds or minutes; the replies of a paper protocol have tens of megabytes.
KEPT_ROUNDS = 4
KEPT_OPEN_ROUNDS = 16


class Ledger:
    """The open ledger of one vault. One process writes; `status` and `rounds` may read beside it."""

    def __init__(self, file: SqliteFile, chain: Chain | None = None, lock: int | None = None) -> None:
        self._file = file
        self._chain = chain
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, older: bool = False) -> Ledger:
        """Open the vault's ledger for writing, or make it; refused while another vault has it open.

        One that is damaged is refused, and so is one that ends before the place where it did, unless an `older` one is
        taken on purpose.
        """
        lock = hold(_lock_of(path))
        try:
            kept = kept_head(path)
            if kept is not None and not path.exists():
                raise ConfigError(f"The ledger {path} is gone, and there was one. {RESTORE}")
            file = SqliteFile.open(path, LEDGER, make=kept is None)
            try:
                chain = Chain(file, check_chain(file, tuple(PERMANENT), kept, older=older))
                chain.keep()
            except BaseException:
                file.close()
                raise
        except BaseException:
            os.close(lock)
            raise
        return cls(file, chain, lock)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Open a ledger to look at it, whether or not its vault runs; one that is damaged is refused."""
        # In this order: what is written meanwhile makes the ledger longer than its head was.
        kept = kept_head(path)
        file = SqliteFile.read(path, LEDGER)
        try:
            with file.snapshot():
                check_chain(file, tuple(PERMANENT), kept)
        except BaseException:
            file.close()
            raise
        return cls(file)

    @staticmethod
    def in_use(path: Path) -> bool:
        """Whether a vault works with this ledger at this moment."""
        return is_held(_lock_of(path))

    def close(self) -> None:
        """Close the file; what was written is on disk already."""
        self._file.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Writing

    def record(self, entry: Entry, *, at: datetime) -> None:
        """Write one answer, all of it or nothing; another answer for the same stage is impossible."""
        round_id, when = entry.call.id, at.isoformat()
        with self._transaction():
            self._insert_once("studies", hash=entry.call.study, study=entry.study.to_bytes())
            self._insert_once(
                "rounds",
                id=round_id,
                study=entry.call.study,
                call=wire.encode(entry.call),
                epoch=entry.epoch.id,
                epoch_leader=entry.epoch.leader,
                at=when,
            )
            self._insert(
                "stages",
                round=round_id,
                stage=entry.stage.value,
                request=entry.request,
                reply=sha256(entry.reply).digest(),
                at=when,
            )
            self._insert("replies", round=round_id, stage=entry.stage.value, body=entry.reply)
            self._note(entry, when)
            self._drop_old_bytes()

    def _note(self, entry: Entry, when: str) -> None:
        round_id, epoch = entry.call.id, entry.epoch
        if entry.keys is not None:
            if self.epoch(epoch.id) is None:
                bundle = entry.keys.id(epoch.leader)
                self._insert("epochs", id=epoch.id, leader=epoch.leader, bundle=bundle, at=when)
            self._insert_once("epoch_bytes", id=epoch.id, bundle=entry.keys.bundle, box=entry.keys.box)
        if entry.roster is not None:
            self._insert("rosters", round=round_id, names=msgspec.msgpack.encode(entry.roster))
        if entry.published is not None:
            self._insert("openings", round=round_id, groups=msgspec.msgpack.encode(entry.published))
        if entry.use is not None:
            self._insert("uses", round=round_id, lineage=entry.use.lineage, releases=entry.use.releases)
            if entry.use.cost is not None:
                self._insert("noise", round=round_id, epsilon=entry.use.cost.epsilon, rho=entry.use.cost.rho)
        if entry.verdict is not None:
            content = verdict_to_bytes(entry.verdict)
            self._insert("endings", round=round_id, ending=entry.verdict.ending.value, verdict=content, at=when)
        if entry.void:
            self._insert_once("voids", round=round_id, at=when)

    def abort(self, round_id: str, reason: str, *, at: datetime) -> None:
        """Note that a round goes no further here, whatever comes."""
        with self._transaction():
            self._insert_once("aborts", round=round_id, reason=reason, at=at.isoformat())

    def settle(self, ledger_id: str, member: str, directory: str, reason: str, *, at: datetime) -> None:
        """Note whose ledger this is, and that it lies in this directory from now on."""
        with self._transaction():
            self._insert(
                "places", ledger=ledger_id, member=member, directory=directory, reason=reason, at=at.isoformat()
            )

    def reset_budget(self, lineage: str, reason: str, *, at: datetime) -> None:
        """Begin to count anew for a lineage: earlier rounds neither count nor are compared any more."""
        known = sorted(row[0] for row in self._rows("SELECT DISTINCT lineage FROM uses"))
        if lineage not in known:
            have = f"these have: {', '.join(known)}" if known else "no lineage has"
            raise ConfigError(f"No round has used the lineage {lineage!r}; {have}. Check the name.")
        with self._transaction():
            (last,) = self._row("SELECT MAX(number) FROM rounds")
            self._insert("resets", lineage=lineage, last_round=last, reason=reason, at=at.isoformat())

    def use_policy(self, version: int, policy_hash: bytes, *, at: datetime) -> None:
        """Note the policy in use; an older one than was ever used, or another of the same version, is refused."""
        newest = self._row("SELECT version, hash FROM policies ORDER BY version DESC LIMIT 1")
        if newest is not None and version < newest[0]:
            raise ConfigError(
                f"The kit has policy version {version}, and this vault has used version {newest[0]} before. "
                "Put the newest policy into the kit: fheval consortium update"
            )
        if newest is not None and version == newest[0]:
            if policy_hash != newest[1]:
                raise ConfigError(
                    f"There are two different policies of version {version}. Ask the authority which one holds."
                )
            return
        with self._transaction():
            self._insert("policies", version=version, hash=policy_hash, at=at.isoformat())

    def require_room(self) -> None:
        """Refuse where nothing can be written, or too little for a round."""
        require_room(self._file.path)

    # Reading

    def round(self, round_id: str) -> RoundRecord | None:
        row = self._row(
            "SELECT call, epoch, epoch_leader, studies.study FROM rounds JOIN studies ON hash = rounds.study "
            "WHERE id = ?",
            round_id,
        )
        if row is None:
            return None
        answered = self._rows("SELECT stage, request FROM stages WHERE round = ? ORDER BY number", round_id)
        roster = self._row("SELECT names FROM rosters WHERE round = ?", round_id)
        return RoundRecord(
            call=_call(row[0]),
            study=Study.from_bytes(row[3]),
            epoch=Epoch(id=row[1], leader=row[2]),
            answered={Stage(stage): request for stage, request in answered},
            roster=None if roster is None else msgspec.msgpack.decode(roster[0], type=tuple[str, ...]),
            aborted=self._row("SELECT 1 FROM aborts WHERE round = ?", round_id) is not None,
            void=self._is_void(round_id),
        )

    def reply(self, round_id: str, stage: Stage) -> bytes | None:
        """The bytes that a stage was answered with, unless they are so old that they were dropped."""
        if self._chain is not None:
            self._chain.keep()
        row = self._row(
            "SELECT body, reply FROM replies JOIN stages USING (round, stage) WHERE round = ? AND stage = ?",
            round_id,
            stage.value,
        )
        if row is None:
            return None
        if not isinstance(row[0], bytes) or sha256(row[0]).digest() != row[1]:
            raise ConfigError(f"The answer for stage {stage.value!r} of round {round_id} is damaged in the ledger.")
        return row[0]

    def verdict(self, round_id: str) -> Verdict | None:
        """What a round ended with here, if it has ended."""
        row = self._row("SELECT verdict FROM endings WHERE round = ?", round_id)
        return None if row is None else verdict_from_bytes(row[0])

    def epoch(self, epoch_id: str) -> EpochRecord | None:
        row = self._row("SELECT leader, bundle, at FROM epochs WHERE id = ?", epoch_id)
        if row is None:
            return None
        return EpochRecord(
            epoch=Epoch(id=epoch_id, leader=row[0]), bundle_id=row[1], since=datetime.fromisoformat(row[2])
        )

    def epoch_bytes(self, epoch_id: str) -> EpochBytes | None:
        """This party's bundle and box of an epoch, as they came."""
        row = self._row("SELECT bundle, box FROM epoch_bytes WHERE id = ?", epoch_id)
        return None if row is None else EpochBytes(bundle=row[0], box=row[1])

    def seen_bundle(self, bundle_id: bytes) -> bool:
        return self._row("SELECT 1 FROM epochs WHERE bundle = ?", bundle_id) is not None

    def releases(self, lineage: str) -> int:
        """How many releases a lineage has had, or may have had, since its budget was last reset.

        A release counts from the moment the party's counts leave the vault, because from then on nothing that the
        party does prevents it. Whatever the round ends with, it is not given back: from the number of rounds that a
        vault still answers, the aggregator would learn which of its answers were accepted. A round that is void has
        ended before there was an answer, and does not count.
        """
        row = self._row("SELECT COALESCE(SUM(releases), 0) FROM spent WHERE lineage = ?", lineage)
        return 0 if row is None else int(row[0])

    def privacy_spent(self, lineage: str) -> list[Cost]:
        """What rounds under noise have spent of a lineage's privacy, each by itself: those that count as releases."""
        rows = self._rows("SELECT epsilon, rho FROM spent JOIN noise USING (round) WHERE lineage = ?", lineage)
        return [Cost(epsilon=epsilon, rho=rho) for epsilon, rho in rows]

    def rounds_of(self, study: bytes) -> int:
        """In how many rounds of a study, named by its hash, this party's counts have left the vault."""
        row = self._row("SELECT COUNT(*) FROM spent WHERE study = ?", study)
        return int(row[0])

    def place(self) -> Place | None:
        """Which ledger this is; None for one that was just made."""
        row = self._row("SELECT ledger, member, directory FROM places ORDER BY number DESC LIMIT 1")
        return None if row is None else Place(id=row[0], member=row[1], directory=row[2])

    def spending(self) -> list[Spending]:
        """What each lineage has been used for since its budget was last reset, study by study."""
        rows = self._rows(
            "SELECT lineage, study, SUM(NOT void), SUM(releases * NOT void), SUM(void), "
            "SUM(NOT void AND round NOT IN (SELECT round FROM endings)) FROM used GROUP BY lineage, study "
            "ORDER BY lineage, MIN(number)"
        )
        names = ("lineage", "study", "rounds", "numbers", "void", "unknown")
        return [Spending(**dict(zip(names, row, strict=True))) for row in rows]

    def rosters(self, lineage: str) -> list[tuple[str, ...]]:
        """The rosters of all rounds of a lineage that this party opened, or was told the outcome of."""
        noted = self._rows("SELECT names FROM rosters JOIN spent USING (round) WHERE lineage = ?", lineage)
        told = self._rows("SELECT verdict FROM endings JOIN spent USING (round) WHERE lineage = ?", lineage)
        opened = [msgspec.msgpack.decode(names, type=tuple[str, ...]) for (names,) in noted]
        return list(dict.fromkeys([*opened, *(verdict_from_bytes(each).roster for (each,) in told)]))

    def published_groups(self, lineage: str, column: str) -> frozenset[str]:
        """The groups of a column that rounds of a lineage have published, or may have, as far as this party knows."""
        query = (
            "SELECT verdict, groups, studies.study FROM spent JOIN studies ON hash = spent.study "
            "LEFT JOIN endings USING (round) LEFT JOIN openings USING (round) WHERE lineage = ?"
        )
        found: set[str] = set()
        for verdict, opened, study in self._rows(query, lineage):
            asked = Study.from_bytes(study)
            if asked.group_column == column and asked.hides_groups:
                found.update(() if verdict is None else verdict_from_bytes(verdict).groups)
                found.update(() if opened is None else msgspec.msgpack.decode(opened, type=tuple[str, ...]))
        return frozenset(found)

    def lineage_of(self, round_id: str) -> str | None:
        """The lineage that a round takes releases from; None while this party has not uploaded."""
        row = self._row("SELECT lineage FROM uses WHERE round = ?", round_id)
        return None if row is None else str(row[0])

    def _is_void(self, round_id: str) -> bool:
        return self._row("SELECT 1 FROM voids WHERE round = ?", round_id) is not None

    def last_use(self, study: bytes) -> datetime | None:
        """When the newest round of a study, named by its hash, began that took releases and is not void."""
        query = "SELECT MAX(rounds.at) FROM spent JOIN rounds ON rounds.id = spent.round WHERE spent.study = ?"
        row = self._row(query, study)
        return None if row[0] is None else datetime.fromisoformat(row[0])

    def policy_version(self) -> int | None:
        """The highest policy version that was ever used."""
        row = self._row("SELECT MAX(version) FROM policies")
        return None if row is None else row[0]

    def history(self) -> list[History]:
        query = "SELECT id, call, studies.study, at FROM rounds JOIN studies ON hash = rounds.study ORDER BY number"
        return [self._history(*row) for row in self._rows(query)]

    def _history(self, round_id: str, call: bytes, asked: bytes, at: str) -> History:
        stages = self._rows("SELECT stage FROM stages WHERE round = ? ORDER BY number", round_id)
        use = self._row("SELECT lineage, releases FROM uses WHERE round = ?", round_id)
        noise = self._row("SELECT epsilon, rho FROM noise WHERE round = ?", round_id)
        cost = None if noise is None else Cost(epsilon=noise[0], rho=noise[1])
        ending = self._row("SELECT verdict, at FROM endings WHERE round = ?", round_id)
        abort = self._row("SELECT reason FROM aborts WHERE round = ?", round_id)
        study = Study.from_bytes(asked)
        return History(
            study=study,
            round=study.round(_call(call)),
            began=datetime.fromisoformat(at),
            stages=tuple(Stage(stage) for (stage,) in stages),
            use=None if use is None else Use(lineage=use[0], releases=use[1], cost=cost),
            verdict=None if ending is None else verdict_from_bytes(ending[0]),
            ended=None if ending is None else datetime.fromisoformat(ending[1]),
            aborted=None if abort is None else abort[0],
            void=self._is_void(round_id),
        )

    # SQL

    # The names of tables and columns are those above; only values come from outside, and they are bound.

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Everything inside is written as a whole, and is on disk and in the chain at the end."""
        if self._chain is None:
            raise LocalProtocolError("This ledger is open for reading only.")
        with self._chain.transaction():
            yield

    def _insert(self, table: str, **values: Any) -> None:
        self._write("INSERT", table, values)

    def _insert_once(self, table: str, **values: Any) -> None:
        self._write("INSERT OR IGNORE", table, values)

    def _write(self, verb: str, table: str, values: dict[str, Any]) -> None:
        marks = ", ".join("?" * len(values))
        done = self._file.execute(f"{verb} INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values())
        if self._chain is not None and table in PERMANENT and done.rowcount == 1 and done.lastrowid is not None:
            self._chain.append(table, done.lastrowid)

    def _drop_old_bytes(self) -> None:
        # What was just written may be lost on its way, be it of an old round.
        self._file.execute(
            "DELETE FROM replies WHERE round NOT IN (SELECT id FROM rounds ORDER BY number DESC LIMIT ?) "
            "AND rowid <> (SELECT MAX(rowid) FROM replies)",
            KEPT_ROUNDS,
        )
        # The outcome of a round that was left open may still come.
        self._file.execute(
            "DELETE FROM epoch_bytes WHERE id NOT IN (SELECT epoch FROM rounds ORDER BY number DESC LIMIT ?) "
            "AND id NOT IN (SELECT epoch FROM rounds JOIN uses ON round = id WHERE id NOT IN "
            "(SELECT round FROM endings UNION SELECT round FROM voids UNION SELECT round FROM aborts) "
            "ORDER BY number DESC LIMIT ?)",
            KEPT_ROUNDS,
            KEPT_OPEN_ROUNDS,
        )

    def _row(self, query: str, *values: Any) -> Any:
        return self._file.row(query, *values)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._file.rows(query, *values)


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


def _call(data: bytes) -> RoundCall:
    return wire.decode(data, RoundCall, sender="ledger")
