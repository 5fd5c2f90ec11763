"""A ledger that was damaged, cut off, set back or deleted is refused in words; a full or locked disk is called so."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from cli.session import Session
from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.cli import vault
from fheval.counting import Grid
from fheval.errors import ConfigError
from fheval.party import ledger, ledger_chain, sqlite_file
from fheval.party.ledger import Ledger
from fheval.party.messages import REFUSAL
from fheval.party.sqlite_file import SqliteFile
from fheval.party.steps import Steps
from fheval.protocols.base import Stage
from fuzz.ledgers import MEMBER, State, attack, make_state
from keys_consortium import NOW
from vault.requests import a_party, played_until
from vault.trial import NAMES, PicksTheFirst, Trial, Wire


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged lock looks like one that somebody holds."""
    monkeypatch.setattr(sqlite_file, "_BUSY_SECONDS", 0.05)


@pytest.mark.slow
def test_thousands_of_damaged_copies(trial: Trial, folder: Path) -> None:
    campaign(trial, folder, 5000)


def test_damaged_copies(trial: Trial, folder: Path) -> None:
    started = campaign(trial, folder, 300)
    # What is damaged without consequence, such as the shared memory file, is no reason to refuse.
    assert 30 < started < 250


def campaign(trial: Trial, folder: Path, copies: int) -> int:
    state, draw = make_state(trial, folder), Random(20)
    return attacks(state, folder, draw, copies)


def attacks(state: State, folder: Path, draw: Random, copies: int) -> int:
    """On how many of so many damaged copies a vault would start."""
    return sum(attack(state, folder / "copy", draw)[1] for _ in range(copies))


def test_without_the_chain_damage_goes_unseen(trial: Trial, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, draw = make_state(trial, folder), Random(20)
    monkeypatch.setattr(ledger, "check_chain", lambda *_, **__: ledger_chain.EMPTY)
    with pytest.raises(AssertionError, match=r"history is another|forgotten"):
        attacks(state, folder, draw, 3000)


# One thing at a time


def test_a_damaged_reply_is_not_given_again(trial: Trial) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)
    reply = trial.vaults[name].handle(asked[name])
    assert trial.vaults[name].handle(asked[name]) == reply != REFUSAL
    trial.ledgers[name]._file.execute("UPDATE replies SET body = ?", reply[:-1] + b"x")
    assert trial.vaults[name].handle(asked[name]) == REFUSAL


def test_a_log_that_was_cut_off_is_noticed(trial: Trial, folder: Path) -> None:
    trial.play()
    shutil.copytree(trial.ledger_path(MEMBER).parent, folder / "copy")
    log = folder / "copy" / "ledger.sqlite-wal"
    os.truncate(log, log.stat().st_size * 2 // 3)
    with pytest.raises(
        ConfigError, match=r"is not the newest ledger of this vault: it ends at entry \d+, and there were"
    ):
        Ledger.open(folder / "copy" / "ledger.sqlite")


def test_an_older_ledger_is_taken_on_purpose_only(trial: Trial, folder: Path) -> None:
    path = trial.ledger_path(MEMBER)
    trial.play()
    trial.stop(MEMBER)
    old = path.read_bytes()
    trial.start(MEMBER)
    trial.play()
    trial.stop(MEMBER)
    path.write_bytes(old)
    with pytest.raises(ConfigError, match="vault moved"):
        Ledger.open(path)
    with Ledger.open(path, older=True) as ledger_:
        ledger_.settle("id", MEMBER, str(folder), "restored", at=NOW)
    with Ledger.open(path) as ledger_:
        assert len(ledger_.history()) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ledger.sqlite", "is gone, and there was one"),
        ("ledger.head", "nothing says where it did"),
    ],
)
def test_a_file_that_is_gone(trial: Trial, name: str, words: str) -> None:
    trial.play()
    trial.stop(MEMBER)
    path = trial.ledger_path(MEMBER)
    path.with_name(name).unlink()
    with pytest.raises(ConfigError, match=words):
        Ledger.open(path)


def test_an_empty_file_is_no_new_ledger(trial: Trial) -> None:
    trial.stop(MEMBER)
    path = trial.ledger_path(MEMBER)
    path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(ConfigError, match="version 0"):
            Ledger.open(path)


def test_a_full_disk_is_called_so_and_nothing_is_answered(trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT, grid=Grid.even(2000))
    name = a_party(round_)
    file = trial.ledgers[name]._file
    file.execute("PRAGMA max_page_count = 1")
    assert trial.vaults[name].handle(asked[name]) == REFUSAL
    assert f"The disk is full, and {file.path} was not written" in caplog.text
    file.execute("PRAGMA max_page_count = 1073741823")
    assert trial.vaults[name].handle(asked[name]) != REFUSAL


def test_a_head_that_could_not_be_written_is_written_before_anything_is_told(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_chain, "replace_private", full)
        # The answer is in the ledger, and stays there while nothing outside says so.
        assert trial.vaults[name].handle(asked[name]) == REFUSAL
        assert trial.vaults[name].handle(asked[name]) == REFUSAL
    assert trial.vaults[name].handle(asked[name]) != REFUSAL
    trial.start(name)
    assert trial.ledgers[name].releases(f"of-{name}") == 1


def test_a_lock_is_called_so(trial: Trial) -> None:
    trial.start(MEMBER)
    other = sqlite3.connect(trial.ledger_path(MEMBER), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConfigError, match=r"Another program has locked .*ledger.sqlite"):
        trial.ledgers[MEMBER].abort("a round", "for the test", at=NOW)
    other.close()


class Failing:
    """A connection to a database whose every statement fails."""

    in_transaction = False

    def __init__(self, error: str) -> None:
        self.error = error

    def execute(self, *_: object) -> None:
        raise sqlite3.OperationalError(self.error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("attempt to write a readonly database", "read-only"),
        ("unable to open database file", "read-only"),
        ("disk I/O error", "The disk cannot read or write"),
    ],
)
def test_what_sqlite_says_in_words(trial: Trial, error: str, words: str) -> None:
    file = SqliteFile(Failing(error), trial.ledger_path(MEMBER), "ledger")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=words), file.transaction():
        pass


@pytest.mark.parametrize("error", ["unable to open database file", "disk I/O error"])
def test_an_error_on_a_disk_that_is_full_is_for_want_of_room(
    trial: Trial, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=0))
    file = SqliteFile(Failing(error), trial.ledger_path(MEMBER), "ledger")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="The disk is full"), file.transaction():
        pass


def nothing_left(_path: Path) -> SimpleNamespace:
    return SimpleNamespace(f_bavail=sqlite_file.LEAST_ROOM - 1, f_frsize=1)


def failing(*_: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize(("what", "how"), [("statvfs", nothing_left), ("fsync", failing)])
def test_whoever_cannot_write_is_absent_before_anybody_uploads(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, what: str, how: Callable[..., object]
) -> None:
    """A leader with a full disk would otherwise cost all others a release."""
    wire = Wire(trial)

    def meddle(asked: Exchange, name: str, data: bytes) -> bytes:
        if asked.stage is Stage.HELLO and name == "alder":
            monkeypatch.setattr(os, what, how)
        else:
            monkeypatch.undo()
        return data

    wire.meddle = meddle
    report = drive(trial.conduct(trial.study(), PicksTheFirst()), wire)
    assert report.attempts[0].leader == "alder"
    assert report.roster == NAMES[1:]
    assert [trial.ledgers[name].releases(f"of-{name}") for name in NAMES] == [0, 1, 1, 1, 1]


def test_a_vault_without_memory_refuses_and_answers_later(
    trial: Trial, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)

    def none_left(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Steps, "submit", none_left)
        assert trial.vaults[name].handle(asked[name]) == REFUSAL
    assert "could not answer (MemoryError)" in caplog.text
    assert trial.ledgers[name].releases(f"of-{name}") == 0
    assert trial.vaults[name].handle(asked[name]) != REFUSAL


def test_commands_say_that_a_ledger_is_damaged(
    trial: Trial, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault, "utc_now", lambda: NOW)
    trial.play()
    trial.stop(MEMBER)
    path = trial.ledger_path(MEMBER)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"of-alder")
    content[place : place + 8] = b"of-older"
    path.write_bytes(content)
    for command in ("rounds", "status"):
        done = Session(capsys)("vault", command, "--kit", trial.consortium.path(MEMBER), "--state", path.parent)
        assert (done.status, done.err.count("\n")) == (2, 1), done.err
        assert "is damaged: its entry" in done.err
