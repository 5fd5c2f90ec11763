"""A program of its own: a vault is killed at every write to its ledger, in turn, and started again.

    python kill_everywhere.py FOLDER

The vault under fire runs in a process that is forked from this one and speaks over a socket pair; the others run here.
It is killed before and behind each statement that writes, the statements of the commit among them. Whoever asks gets no
answer, starts the vault again and asks again, as a transport would. What must hold afterwards is asserted here; the
number of kills is printed as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import load_kit
from fheval.errors import TransportError
from fheval.party.accepted import AcceptedStudies
from fheval.party.client import receive_frame, send_frame
from fheval.party.core import VaultCore
from fheval.party.ledger import Ledger
from fheval.party.messages import REFUSAL
from fheval.protocols.base import Stage
from fheval.study import Study
from keys_consortium import NOW
from vault.trial import NAMES, RULES, PicksTheFirst, Trial, make_consortium, write_scores

WRITES = ("BEGIN", "INSERT", "DELETE", "COMMIT", "CREATE", "PRAGMA")
SECONDS = 60.0
MEMBERS = NAMES[:3]


class Deadly(sqlite3.Connection):
    """A connection that ends its process at the n-th chance: before or behind a statement that writes."""

    left = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        writes = sql.startswith(WRITES)
        if writes:
            self._chance()
        cursor = super().execute(sql, *values)
        if writes:
            self._chance()
        return cursor

    def _chance(self) -> None:
        if Deadly.left:
            Deadly.left -= 1
            if not Deadly.left:
                os.kill(os.getpid(), signal.SIGKILL)


def deadly_connections() -> None:
    """Let every ledger of this process be one that may kill it."""
    connect = sqlite3.connect

    def replaced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return connect(*arguments, factory=Deadly, **options)

    setattr(sqlite3, "connect", replaced)  # noqa: B010 (the type checker would not have it)


class VaultUnderFire:
    """A vault in a process of its own, which dies at a chance that was chosen beforehand."""

    def __init__(self, make: Callable[[], VaultCore]) -> None:
        self._make = make
        self._process = 0
        self._line: socket.socket | None = None
        self.kills = 0

    def start(self, chances: int) -> None:
        """Start it; it dies at that chance, counted from when it has opened its ledger. 0 is never."""
        here, there = socket.socketpair()
        process = os.fork()
        if process == 0:
            here.close()
            _serve(there, self._make, chances)
        there.close()
        self._process, self._line = process, here

    def ask(self, data: bytes) -> bytes | None:
        """Its reply, or None if it died over the request."""
        assert self._line is not None
        try:
            send_frame(self._line, data, seconds=SECONDS)
            return receive_frame(self._line, seconds=SECONDS)
        except TransportError:
            return None

    def stop(self) -> bool:
        """Let it go, or bury it; whether it was killed."""
        assert self._line is not None
        self._line.close()
        _, status = os.waitpid(self._process, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, status
        self.kills += killed
        return killed


def _serve(line: socket.socket, make: Callable[[], VaultCore], chances: int) -> None:
    status = 1
    try:
        vault = make()
        Deadly.left = chances
        while (data := receive_frame(line, seconds=SECONDS)) is not None:
            send_frame(line, vault.handle(data), seconds=SECONDS)
        status = 0
    finally:
        os._exit(status)


def opening(folder: Path) -> int:
    """Kill at every write while a new ledger is made; gives how many kills there were."""
    kills = 0
    while True:
        state = folder / f"opening-{kills}"
        state.mkdir(mode=0o700)
        process = os.fork()
        if process == 0:
            Deadly.left = kills + 1
            with Ledger.open(state / "ledger.sqlite") as ledger:
                ledger.use_policy(1, bytes(32), at=NOW)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        with Ledger.open(state / "ledger.sqlite") as ledger:
            ledger.use_policy(1, bytes(32), at=NOW)
            assert ledger.policy_version() == 1
        if status == 0:
            return kills
        kills += 1


def rounds(trial: Trial, target: str) -> int:
    """Kill at every write of a member's part in a round, one round for each; gives how many kills there were."""

    def make() -> VaultCore:
        kit = load_kit(trial.consortium.path(target), now=trial.clock.now)
        ledger = Ledger.open(trial.ledger_path(target))
        return VaultCore(
            kit, ledger, AcceptedStudies.open(trial.studies_path(target)), {"clear": trial.engine}, clock=trial.clock
        )

    fired_at = VaultUnderFire(make)
    chance = 1
    with Ledger.open(trial.ledger_path(target)) as ledger:
        history = ledger.history()
    while True:
        received = one_round(trial, target, fired_at, chance)
        with Ledger.read(trial.ledger_path(target)) as ledger:
            now = ledger.history()
            assert now[: len(history)] == history, "what was in the ledger has changed"
            assert len(now) == len(history) + 1, "one round, one entry"
            history = now
            newest = now[-1]
            assert newest.verdict is not None
            assert newest.aborted is None
            assert abs(float(newest.verdict.ratios[0] or 0) - trial.pooled(MEMBERS)) < 1e-4
            assert newest.stages == tuple(received)
        digests = reply_digests(trial.ledger_path(target), newest.round.id)
        assert digests == {stage.value: sha256(reply).digest() for stage, reply in received.items()}
        if fired_at.kills < chance:
            return fired_at.kills
        chance += 1


def one_round(trial: Trial, target: str, fired_at: VaultUnderFire, chance: int) -> dict[Stage, bytes]:
    """A whole round with one kill in it; gives the target's replies."""
    received: dict[Stage, bytes] = {}
    fired_at.start(chance)

    def ask_target(data: bytes) -> bytes:
        reply = fired_at.ask(data)
        if reply is None:
            assert fired_at.stop(), "it went away without being killed"
            fired_at.start(0)
            reply = fired_at.ask(data)
        assert reply is not None
        assert reply != REFUSAL
        # A retry gets the same bytes, after a restart as well.
        assert fired_at.ask(data) == reply
        return reply

    def exchange(asked: Exchange) -> dict[str, bytes]:
        replies = {}
        for name, data in asked.requests.items():
            replies[name] = ask_target(data) if name == target else trial.vaults[name].handle(data)
            if name == target:
                assert asked.stage not in received
                if asked.stage is not Stage.HELLO:  # which the ledger has nothing of
                    received[asked.stage] = replies[name]
        return replies

    report = drive(trial.conduct(asked_often(trial), rng=PicksTheFirst(), members=MEMBERS, attempts=1), exchange)
    assert report.confirmed == MEMBERS
    fired_at.stop()
    return received


def asked_often(trial: Trial) -> Study:
    """A study with a round for every kill."""
    return trial.study(rounds=1000)


def reply_digests(path: Path, round_id: str) -> dict[str, bytes]:
    """The digest of the reply that the ledger has for each stage."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT stage, reply FROM stages WHERE round = ?", (round_id,)).fetchall()
    connection.close()
    return dict(rows)


def main(folder: Path) -> None:
    """Kill everywhere."""
    deadly_connections()
    consortium = make_consortium(folder, msgspec.structs.replace(RULES, releases_per_lineage=1000))
    # The reader of CSV files has threads, which do not survive a fork.
    trial = Trial(folder, consortium, ending=".npy")
    for seed, name in enumerate(MEMBERS):
        write_scores(trial.data(name), seed, rows=12)
    kills = {"opening": opening(folder)}
    # With this randomness the first member leads.
    for part, target in (("leader", MEMBERS[0]), ("party", MEMBERS[1])):
        trial.start(*MEMBERS)
        trial.accept(asked_often(trial))
        trial.stop(target)
        kills[part] = rounds(trial, target)
        trial.stop()
    print(json.dumps(kills))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
