"""`fheval reproduce`: files for machines and people, and refusals before anything is computed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cli.session import Session
from fheval_lab.clear import ClearEngine
from fheval_lab.reproduce import run as running
from fheval_lab.reproduce.cells import Cell, Plan
from fheval_lab.reproduce.rows import Row


@pytest.fixture(autouse=True)
def plaintext(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fheval_lab.cli.reproduce.load_engine", lambda _: ClearEngine())


def test_json_csv_and_a_page(fheval: Session, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    done = fheval("reproduce", "security", "--data", tmp_path, "--out", out)
    assert (done.status, done.err) == (0, "")
    assert "security           6 rows, 3 beside a printed value" in done.out
    rows = json.loads((out / "security.json").read_text(encoding="utf-8"))["rows"]
    assert {"data", "size", "decision_points", "column", "value", "std", "printed"} <= rows[0].keys()
    assert [row["printed"] for row in rows[:3]] == [60, 107, 103]
    with (out / "security.csv").open(encoding="utf-8", newline="") as file:
        assert [line["column"] for line in csv.DictReader(file)] == [row["column"] for row in rows]
    assert (out / "security.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_missing_data_are_named_and_no_error(fheval: Session, tmp_path: Path) -> None:
    done = fheval("reproduce", "table1", "--data", tmp_path, "--out", tmp_path / "out")
    assert (done.status, done.err) == (0, "")
    assert "labels_criteo_100.txt and pred_cons_criteo_100.txt not found" in done.out
    assert "labels_criteo.txt and pred_cons_criteo.txt not found" in done.out
    content = json.loads((tmp_path / "out" / "table1.json").read_text(encoding="utf-8"))
    assert content["rows"] == []
    assert len(content["skipped"]) == 4


def test_quiet_says_nothing(fheval: Session, tmp_path: Path) -> None:
    done = fheval("reproduce", "security", "--data", tmp_path, "--out", tmp_path / "out", "--quiet")
    assert (done.status, done.out, done.err) == (0, "", "")


def test_interrupted_it_ends_quietly_and_goes_on_later(
    fheval: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: list[str] = []
    stops = [True]

    def work(name: str) -> list[Row]:
        if name == "second" and stops[0]:
            raise KeyboardInterrupt
        worked.append(name)
        return [Row(column=f"paper-malicious {name}", value=1.0, unit="bits")]

    cells = tuple(Cell(name=name, weight=1.0, work=lambda name=name: work(name)) for name in ("first", "second"))  # type: ignore[misc]
    monkeypatch.setitem(running.EXPERIMENTS, "security", lambda _: Plan(cells))
    words = ("reproduce", "security", "--data", tmp_path, "--out", tmp_path / "out")
    assert fheval(*words).status == 130
    stops[0] = False
    assert fheval(*words).status == 0
    assert worked == ["first", "second"]


def test_what_needs_no_data_asks_for_none(fheval: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert fheval("reproduce", "security", "--out", "out", "--quiet").status == 0
    assert "padded-verified primes=4 runs=1" in Path("out/security.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["table9", "--data", ".", "--out", "out"], "There is no experiment 'table9'"),
        (["table1", "--data", "nowhere", "--out", "out"], "--data nowhere: there is no such directory."),
        (["table1", "--data", ".", "--out", "file"], "--out file: this is a file."),
        (["table1", "--data", "."], "Missing option '--out'"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    fheval: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    done = fheval("reproduce", *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(complaint)
    assert not Path("out").exists()
