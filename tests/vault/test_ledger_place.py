"""A kit knows its ledger: another one, an empty one or a copy is refused, and moving it is written down."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from fheval.consortium import ledger_place
from fheval.consortium.enrolment import enrol_with_new_keys
from fheval.errors import ConfigError
from fheval.party.ledger import Ledger
from fheval.party.ledger_place import ledger_file, move_ledger, open_ledger, replace_ledger
from keys_consortium import NOW, Consortium


@pytest.fixture
def kit(consortium: Consortium) -> Path:
    return consortium.path("alder")


def begin(kit: Path, state: Path | None = None, member: str = "alder") -> Path:
    """Start the vault once; gives its ledger's directory."""
    path = ledger_file(kit, state)
    open_ledger(kit, member, path, now=NOW).close()
    return path.parent


def reasons(state: Path) -> list[str]:
    connection = sqlite3.connect(state / "ledger.sqlite")
    rows = connection.execute("SELECT reason FROM places ORDER BY number").fetchall()
    connection.close()
    return [reason for (reason,) in rows]


def test_the_kit_finds_its_ledger_again(kit: Path, folder: Path) -> None:
    state = folder / "state"
    assert begin(kit, state) == state
    # Without being told where.
    assert begin(kit) == state
    assert begin(kit, state) == state
    assert reasons(state) == ["began"]
    place = ledger_place(kit)
    assert place is not None
    assert place.directory == str(state.resolve())


def test_a_second_directory_is_refused_and_nothing_is_made_there(kit: Path, folder: Path) -> None:
    begin(kit, folder / "state")
    with pytest.raises(ConfigError, match="A second one would forget"):
        begin(kit, folder / "second")
    assert not (folder / "second").exists()


def test_an_empty_ledger_in_place_of_the_kits_own_is_refused(kit: Path, folder: Path) -> None:
    state = begin(kit, folder / "state")
    shutil.rmtree(state)
    with pytest.raises(ConfigError, match="is gone from"):
        begin(kit)
    state.mkdir(mode=0o700)
    Ledger.open(state / "ledger.sqlite").close()
    with pytest.raises(ConfigError, match="another vault's"):
        begin(kit)


def test_a_copied_kit_shares_the_ledger_and_gets_no_empty_one(kit: Path, folder: Path) -> None:
    inside = begin(kit)
    assert inside == kit / "vault"
    copy = Path(shutil.copytree(kit, folder / "copy"))
    assert begin(copy) == inside
    with pytest.raises(ConfigError, match="A second one would forget"):
        begin(copy, folder / "empty")
    # The copy of the ledger that came with it is no other: it is refused as well.
    with pytest.raises(ConfigError, match="A second one would forget"):
        begin(copy, copy / "vault")


def test_another_members_ledger_is_refused(kit: Path, consortium: Consortium, folder: Path) -> None:
    state = begin(kit, folder / "state")
    with pytest.raises(ConfigError, match="another vault's"):
        begin(consortium.path("birch"), state, "birch")
    assert ledger_place(consortium.path("birch")) is None


def test_a_kit_killed_before_it_remembers_goes_on(kit: Path, folder: Path) -> None:
    state = begin(kit, folder / "state")
    (kit / "ledger.fhev").unlink()
    assert begin(kit, state) == state
    assert reasons(state) == ["began"]


def test_a_renewed_kit_goes_on_with_the_ledger(kit: Path, consortium: Consortium, folder: Path) -> None:
    state = begin(kit, folder / "state")
    renewed = folder / "renewed"
    enrol_with_new_keys(consortium.authority, "alder", renewed, renew=True, now=NOW, days=9)
    with pytest.raises(ConfigError, match="has a ledger already"):
        begin(renewed)
    with pytest.raises(ConfigError, match="has a ledger already"):
        begin(renewed, folder / "new")
    assert begin(renewed, state) == state
    assert begin(renewed) == state


def test_a_ledger_moves_by_a_command_that_it_writes_down(kit: Path, folder: Path) -> None:
    old, new = begin(kit, folder / "old"), folder / "new"
    shutil.copytree(old, new)
    with pytest.raises(ConfigError, match="A second one would forget"):
        begin(kit, new)
    move_ledger(kit, "alder", new / "ledger.sqlite", "new disk", now=NOW)
    assert reasons(new) == ["began", "moved: new disk"]
    assert begin(kit) == new
    with pytest.raises(ConfigError, match="A second one would forget"):
        begin(kit, old)
    # Neither can a kit that has forgotten go back to a copy of it.
    (kit / "ledger.fhev").unlink()
    shutil.copytree(new, folder / "copy")
    with pytest.raises(ConfigError, match="is a copy, or was moved there"):
        begin(kit, folder / "copy")


def test_only_the_kits_own_ledger_moves(kit: Path, consortium: Consortium, folder: Path) -> None:
    begin(kit, folder / "state")
    other = begin(consortium.path("birch"), folder / "other", "birch")
    for path, reason in ((folder / "none", "There is no ledger"), (other, "is not the ledger of this kit")):
        with pytest.raises(ConfigError, match=reason):
            move_ledger(kit, "alder", path / "ledger.sqlite", "a try", now=NOW)
    assert reasons(other) == ["began"]


def test_a_lost_ledger_is_replaced_by_one_that_says_so(kit: Path, folder: Path) -> None:
    state = begin(kit, folder / "state")
    with pytest.raises(ConfigError, match="exists"):
        replace_ledger(kit, "alder", state / "ledger.sqlite", "a try", now=NOW)
    shutil.rmtree(state)
    replace_ledger(kit, "alder", folder / "new" / "ledger.sqlite", "disk broke", now=NOW)
    assert reasons(folder / "new") == ["began after a loss: disk broke"]
    assert begin(kit) == folder / "new"


def test_a_kit_that_cannot_be_written(kit: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("fheval.party.ledger_place.place_ledger", refuse)
    with pytest.raises(ConfigError, match="by hand, as the user who owns the kit"):
        begin(kit, folder / "state")
