"""The ledger: it only grows, knows the newest policy, counts releases, and is closed to others."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from fheval.counting import Grid
from fheval.errors import ConfigError, LocalProtocolError
from fheval.party.ledger import KEPT_ROUNDS, Entry, Ledger, Spending, Use
from fheval.party.ledger_file import PERMANENT
from fheval.party.messages import Epoch
from fheval.protocols.base import Stage
from fheval.protocols.round import Ending, Round, Verdict
from fheval.secrets import SystemRandomness
from fheval.study import Study
from keys_consortium import NOW
from vault.trial import NAMES, Trial

STUDY = Study(protocol="padded", precision=1e-4, grid=Grid.even(5))


@pytest.fixture
def path(folder: Path) -> Path:
    state = folder / "state"
    state.mkdir(mode=0o700)
    return state / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path) as opened:
        yield opened


def a_round() -> Round:
    return STUDY.round(STUDY.call(SystemRandomness(), engine="seal", parties=("a", "b", "c"), leader="a"))


def entry(round_: Round, stage: Stage = Stage.SUBMIT, **parts: object) -> Entry:
    """An answer that writes as little as an answer can, and these parts."""
    return Entry(
        call=round_.call,
        study=STUDY,
        epoch=Epoch(id=round_.id, leader=round_.leader),
        stage=stage,
        request=bytes(32),
        reply=b"reply to " + stage.value.encode(),
        **parts,  # type: ignore[arg-type]
    )


def test_what_is_written_is_read(ledger: Ledger) -> None:
    round_ = a_round()
    ledger.record(entry(round_, use=Use(lineage="d", releases=2)), at=NOW)
    ratios = (Fraction(2, 3), None)
    verdict = Verdict(
        ending=Ending.RELEASED,
        roster=("a", "b", "c"),
        ratios=ratios,
        counts=(7, 2**45),
        verified=True,
        soundness_bits=92.0,
        answer=bytes(32),
        checked=True,
    )
    ledger.record(entry(round_, Stage.BROADCAST, verdict=verdict), at=NOW + timedelta(minutes=1))
    record = ledger.round(round_.id)
    assert record is not None
    assert (record.call, record.study) == (round_.call, STUDY)
    assert list(record.answered) == [Stage.SUBMIT, Stage.BROADCAST]
    assert not record.aborted
    (found,) = ledger.history()
    assert (found.study, found.round) == (STUDY, round_)
    assert found.verdict == verdict
    assert (found.began, found.ended) == (NOW, NOW + timedelta(minutes=1))
    assert found.use == Use(lineage="d", releases=2)
    assert ledger.reply(round_.id, Stage.BROADCAST) == b"reply to broadcast"


def test_a_stage_has_one_answer(ledger: Ledger) -> None:
    round_ = a_round()
    ledger.record(entry(round_), at=NOW)
    with pytest.raises(sqlite3.IntegrityError):
        ledger.record(entry(round_, use=Use(lineage="d", releases=1)), at=NOW)
    # Nothing of the second answer stayed.
    assert ledger.releases("d") == 0


@pytest.mark.parametrize("table", sorted(PERMANENT))
def test_nothing_is_changed_or_deleted(trial: Trial, table: str) -> None:
    trial.play(trial.study(release="noisy-curve", epsilon=1.0))
    trial.play()
    trial.ledgers["alder"].abort(trial.last("alder").round.id, "for the test", at=NOW)
    other = trial.round(trial.study(), "alder")
    trial.ledgers["alder"].record(entry(other, Stage.VOID, void=True, published=()), at=NOW)
    trial.ledgers["alder"].reset_budget(trial.ledgers["alder"].spending()[0].lineage, "for the test", at=NOW)
    trial.ledgers["alder"].settle("id", "alder", "/directory", "for the test", at=NOW)
    found = 0
    for name in NAMES:
        trial.stop(name)
        connection = sqlite3.connect(trial.ledger_path(name))
        (rows,) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()  # noqa: S608
        found += rows
        if rows:
            for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET rowid = rowid + 1"):  # noqa: S608
                with pytest.raises(sqlite3.IntegrityError, match="only grows"):
                    connection.execute(statement)
        connection.close()
    assert found


def test_it_is_durable(path: Path) -> None:
    with Ledger.open(path) as ledger:
        (journal,) = ledger._file.connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = ledger._file.connection.execute("PRAGMA synchronous").fetchone()
    assert (journal, synchronous) == ("wal", 2)


def test_the_bytes_of_old_rounds_are_dropped_and_their_records_kept(ledger: Ledger) -> None:
    rounds = [a_round() for _ in range(KEPT_ROUNDS + 3)]
    for round_ in rounds:
        ledger.record(entry(round_), at=NOW)
    kept = [ledger.reply(round_.id, Stage.SUBMIT) is not None for round_ in rounds]
    assert kept == [False] * 3 + [True] * KEPT_ROUNDS
    assert [each.round for each in ledger.history()] == rounds


# Releases


def test_releases_are_counted_from_submit_on(ledger: Ledger) -> None:
    for releases in (1, 2):
        ledger.record(entry(a_round(), use=Use(lineage="d", releases=releases)), at=NOW)
    assert ledger.releases("d") == 3
    assert ledger.releases("other") == 0


@pytest.mark.parametrize("ending", Ending)
def test_no_ending_gives_releases_back(ledger: Ledger, ending: Ending) -> None:
    """Or the aggregator could tell, by how many rounds are still answered, which of its answers were accepted."""
    round_ = a_round()
    ledger.record(entry(round_, use=Use(lineage="d", releases=1)), at=NOW)
    ledger.record(entry(round_, Stage.BROADCAST, verdict=Verdict(ending=ending, roster=("a",))), at=NOW)
    assert ledger.releases("d") == 1


def test_a_void_round_gives_its_releases_back(ledger: Ledger) -> None:
    rounds = [a_round(), a_round()]
    for round_ in rounds:
        ledger.record(entry(round_, use=Use(lineage="d", releases=2)), at=NOW)
    assert (ledger.releases("d"), ledger.rounds_of(STUDY.hash())) == (4, 2)
    ledger.record(entry(rounds[0], Stage.VOIDED, void=True), at=NOW)
    assert (ledger.releases("d"), ledger.rounds_of(STUDY.hash())) == (2, 1)
    assert [each.void for each in ledger.history()] == [True, False]


def test_an_aborted_round_keeps_its_releases(ledger: Ledger) -> None:
    round_ = a_round()
    ledger.record(entry(round_, use=Use(lineage="d", releases=1)), at=NOW)
    ledger.abort(round_.id, "a reason", at=NOW)
    ledger.abort(round_.id, "another", at=NOW)
    assert ledger.releases("d") == 1
    assert ledger.history()[0].aborted == "a reason"


def test_a_budget_is_reset_by_a_command_that_is_written_down(ledger: Ledger) -> None:
    first, second, other = a_round(), a_round(), a_round()
    for round_, lineage in ((first, "icu"), (other, "ward")):
        ledger.record(entry(round_, use=Use(lineage=lineage, releases=3), roster=("a", "b", "c")), at=NOW)
    assert (ledger.releases("icu"), ledger.rosters("icu")) == (3, [("a", "b", "c")])
    ledger.reset_budget("icu", "all patients are new", at=NOW)
    assert (ledger.releases("icu"), ledger.rosters("icu"), ledger.releases("ward")) == (0, [], 3)
    ledger.record(entry(second, use=Use(lineage="icu", releases=1)), at=NOW)
    assert ledger.releases("icu") == 1
    assert ledger._rows("SELECT lineage, reason FROM resets") == [("icu", "all patients are new")]
    with pytest.raises(ConfigError, match="'icus'; these have: icu, ward"):
        ledger.reset_budget("icus", "a typing error", at=NOW)


def test_what_was_spent_on_what(ledger: Ledger) -> None:
    released, failed, lost = a_round(), a_round(), a_round()
    for round_ in (released, failed, lost):
        ledger.record(entry(round_, use=Use(lineage="icu", releases=2)), at=NOW)
    verdict = Verdict(ending=Ending.RELEASED, roster=("a", "b", "c"))
    ledger.record(entry(released, Stage.BROADCAST, verdict=verdict), at=NOW)
    ledger.record(entry(failed, Stage.VOIDED, void=True), at=NOW)
    assert ledger.spending() == [Spending(lineage="icu", study=STUDY.hash(), rounds=2, numbers=4, void=1, unknown=1)]


# Policies


def test_an_older_policy_is_refused_for_good(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.use_policy(2, b"two", at=NOW)
        ledger.use_policy(2, b"two", at=NOW)
        ledger.use_policy(5, b"five", at=NOW)
    with Ledger.open(path) as ledger:
        with pytest.raises(ConfigError, match="has used version 5 before"):
            ledger.use_policy(2, b"two", at=NOW)
        with pytest.raises(ConfigError, match="two different policies of version 5"):
            ledger.use_policy(5, b"another", at=NOW)
        ledger.use_policy(6, b"six", at=NOW)


def test_a_vault_does_not_start_with_a_kit_from_an_old_backup(trial: Trial) -> None:
    kit = trial.consortium.path("alder")
    old = (kit / "policy.fhev").read_bytes()
    trial.consortium.sign()
    trial.start("alder")
    (kit / "policy.fhev").write_bytes(old)
    with pytest.raises(ConfigError, match="has used version 2 before"):
        trial.start("alder")


# The file


def test_the_file_is_closed_to_others(ledger: Ledger, path: Path) -> None:
    assert ledger.history() == []
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in path.parent.iterdir())


def test_an_open_file_or_directory_is_refused(path: Path) -> None:
    Ledger.open(path).close()
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0644 instead of 0600"):
        Ledger.open(path)
    path.chmod(0o600)
    path.parent.chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        Ledger.open(path)


def test_a_link_in_place_of_the_ledger_is_not_followed(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(ConfigError, match="symbolic links"):
        Ledger.open(path)


def test_one_vault_at_a_time(ledger: Ledger, path: Path) -> None:
    assert ledger.policy_version() is None
    with pytest.raises(ConfigError, match="Another vault"):
        Ledger.open(path)
    # Looking at it is fine.
    with Ledger.read(path) as beside:
        assert beside.history() == []


def test_a_reader_cannot_write(ledger: Ledger, path: Path) -> None:
    assert ledger.history() == []
    with Ledger.read(path) as beside, pytest.raises(LocalProtocolError, match="reading only"):
        beside.use_policy(1, b"", at=NOW)


def test_what_is_no_ledger(path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no ledger"):
        Ledger.read(path)
    path.write_bytes(b"not a database at all, but long enough to look at" * 100)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="cannot be used as a ledger"):
        Ledger.open(path)
    with pytest.raises(ConfigError, match="cannot be used as a ledger"):
        Ledger.read(path)


@pytest.mark.parametrize("version", [1, 9])
def test_a_ledger_of_another_version(path: Path, version: int) -> None:
    """The first version has rounds without studies, which nothing here could read."""
    Ledger.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(ConfigError, match=f"version {version}"):
        Ledger.open(path)
    with pytest.raises(ConfigError, match=f"version {version}"):
        Ledger.read(path)
