"""Which rosters an aggregator remembers, study by study, and how it begins anew."""

from __future__ import annotations

from pathlib import Path

from fheval.aggregator.orders import forget_rosters, keep_roster, kept_rosters

ONE, OTHER = b"one", b"other"


def test_rosters_are_kept_by_study_and_once_each(tmp_path: Path) -> None:
    path = tmp_path / "rosters.json"
    assert kept_rosters(path, ONE) == []
    for roster in (("a", "b", "c"), ("a", "b", "c"), ("d", "e", "f")):
        keep_roster(path, ONE, roster)
    assert kept_rosters(path, ONE) == [("a", "b", "c"), ("d", "e", "f")]
    assert kept_rosters(path, OTHER) == []


def test_beginning_anew_forgets_those_of_one_study(tmp_path: Path) -> None:
    path = tmp_path / "rosters.json"
    forget_rosters(path, ONE)
    assert not path.exists()
    keep_roster(path, ONE, ("a", "b", "c"))
    keep_roster(path, OTHER, ("a", "b", "c"))
    forget_rosters(path, ONE)
    assert kept_rosters(path, ONE) == []
    assert kept_rosters(path, OTHER) == [("a", "b", "c")]


def test_a_file_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rosters.json"
    path.write_bytes(b"{")
    assert kept_rosters(path, ONE) == []
