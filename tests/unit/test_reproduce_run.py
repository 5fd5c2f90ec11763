"""`fheval reproduce`: what is kept, what is left out, and what is written."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fheval.errors import ConfigError, VerificationFailed
from fheval_lab.clear import ClearEngine
from fheval_lab.reproduce import run as running
from fheval_lab.reproduce.cells import Cell, Finished, Plan, Skip, Store, Workbench
from fheval_lab.reproduce.data_sets import DataSet, data_sets, present_and_missing
from fheval_lab.reproduce.rows import Row, as_csv, as_json

CONTRACT = ["data", "size", "decision_points", "column", "value", "std", "printed"]
ROW = Row(data="celeba", size=100, decision_points=25, column="padded", value=0.9, std=0.0, printed=0.8934)
MACHINE = {"processor": "abacus"}


class Log:
    """A watcher that notes what it is told, and interrupts where a cell of some name would start."""

    def __init__(self, interrupt_at: str | None = None) -> None:
        self.ahead = 0.0
        self.started: list[str] = []
        self._interrupt_at = interrupt_at

    def begin(self, weight: float) -> None:
        self.ahead = weight

    def start(self, name: str) -> None:
        if name == self._interrupt_at:
            raise KeyboardInterrupt
        self.started.append(name)

    def finish(self, weight: float) -> None:
        self.ahead -= weight


def cell(name: str, rows: Sequence[Row] = (ROW,), **inputs: object) -> Cell:
    return Cell(name=name, inputs=inputs, weight=2.0, work=lambda: rows)


@pytest.fixture
def setting(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path, ClearEngine())


def experiment(monkeypatch: pytest.MonkeyPatch, *cells: Cell, skipped: tuple[Skip, ...] = ()) -> None:
    monkeypatch.setitem(running.EXPERIMENTS, "security", lambda _: Plan(cells, skipped))


def test_a_kept_cell_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept = cell("time padded M=15 N=10", engine="seal")
    store.put(kept, Finished(rows=(ROW,), machine=MACHINE))
    assert Store(tmp_path).get(kept) == Finished(rows=(ROW,), machine=MACHINE)
    assert [file.name for file in (tmp_path / "cells").iterdir()] == ["time-padded-M-15-N-10.json"]


def test_a_cell_of_other_inputs_or_name_or_version_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    kept = cell("a", data="1")
    store.put(kept, Finished(rows=(ROW,), machine=MACHINE))
    assert store.get(replace(kept, inputs={"data": "2"})) is None
    assert store.get(replace(kept, name="b")) is None
    monkeypatch.setattr("fheval_lab.reproduce.cells.__version__", "999")
    assert store.get(kept) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"inputs": {}}', '{"rows": [{"nonsense": 1}]}'])
def test_a_damaged_cell_is_none(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    kept = cell("a")
    store.put(kept, Finished(rows=(ROW,), machine=MACHINE))
    (tmp_path / "cells" / "a.json").write_text(damage)
    assert store.get(kept) is None


def test_an_interrupted_run_goes_on_where_it_stopped(
    setting: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment(monkeypatch, cell("one"), cell("two"), cell("three"))
    with pytest.raises(KeyboardInterrupt):
        running.run("security", setting, tmp_path, Log(interrupt_at="three"))
    assert not (tmp_path / "security.json").exists()
    log = Log()
    (outcome,) = running.run("security", setting, tmp_path, log)
    assert log.started == ["three"]
    assert log.ahead == 0
    assert len(outcome.rows) == 3
    again = Log()
    running.run("security", setting, tmp_path, again)
    assert again.started == []


def test_work_that_stops_half_way_leaves_nothing_behind(
    setting: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> Sequence[Row]:
        raise KeyboardInterrupt

    experiment(monkeypatch, Cell(name="one", weight=1.0, work=stopped))
    with pytest.raises(KeyboardInterrupt):
        running.run("security", setting, tmp_path, Log())
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_leaves_out_its_cells_by_name(
    setting: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Sequence[Row]:
        raise ConfigError("DPAUC needs opendp. Install it.")

    experiment(monkeypatch, Cell(name="noisy", weight=1.0, work=missing), cell("plain"))
    (outcome,) = running.run("security", setting, tmp_path, Log())
    assert outcome.skipped == (Skip("noisy", "DPAUC needs opendp. Install it."),)
    assert len(outcome.rows) == 1
    content = json.loads((tmp_path / "security.json").read_text())
    assert content["skipped"] == [{"what": "noisy", "why": "DPAUC needs opendp. Install it."}]


def test_a_wrong_result_stops_everything(setting: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forged() -> Sequence[Row]:
        raise VerificationFailed

    experiment(monkeypatch, Cell(name="forged", weight=1.0, work=forged))
    with pytest.raises(VerificationFailed):
        running.run("security", setting, tmp_path, Log())


def test_a_cell_of_two_experiments_is_worked_out_once(
    setting: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = cell("shared")
    for name in running.EXPERIMENTS:
        monkeypatch.setitem(running.EXPERIMENTS, name, lambda _: Plan((shared,)))
    log = Log()
    outcomes = running.run("all", setting, tmp_path, log)
    assert log.started == ["shared"]
    assert log.ahead == 0
    assert len(outcomes) == 7
    assert len(json.loads((tmp_path / "all.json").read_text())["rows"]) == 7


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(ConfigError, match="There is no experiment 'table4'"):
        running.chosen("table4")


def test_rows_are_those_of_the_contract() -> None:
    content = json.loads(as_json([ROW], experiment="table2"))
    assert list(content["rows"][0])[: len(CONTRACT)] == CONTRACT
    assert content["rows"][0]["value"] == 0.9
    assert content["experiment"] == "table2"
    (line,) = csv.DictReader(as_csv([ROW]).splitlines())
    assert list(line)[: len(CONTRACT)] == CONTRACT
    assert (line["value"], line["printed"], line["printed_std"]) == ("0.9", "0.8934", "")
    assert Row(**content["rows"][0]) == ROW


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_row_holds_what_json_can_say(value: float) -> None:
    with pytest.raises(ValueError, match="JSON cannot say"):
        replace(ROW, value=value)


def write_data(folder: Path, data: DataSet, rows: int) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, rows)
    np.savetxt(data.files[0], labels, fmt="%d")
    np.savetxt(data.files[1], np.clip(0.3 * labels + 0.7 * rng.random(rows), 0, 1), fmt="%.6f")


def test_missing_files_are_named_and_the_full_criteo_is_found_by_its_name(tmp_path: Path) -> None:
    full = data_sets(tmp_path, "criteo")[-1]
    assert [file.name for file in full.files] == ["labels_criteo.txt", "pred_cons_criteo.txt"]
    write_data(tmp_path, full, 30)
    present, missing = present_and_missing(tmp_path, "criteo")
    assert present == [full]
    assert [skip.what for skip in missing] == [f"Criteo, {size} samples" for size in ("100", "1,000", "10,000")]
    assert "labels_criteo_100.txt and pred_cons_criteo_100.txt not found" in missing[0].why


def test_other_data_under_the_same_name_are_told_apart(tmp_path: Path) -> None:
    data = data_sets(tmp_path, "celeba")[0]
    write_data(tmp_path, data, 40)
    before = data.digest()
    write_data(tmp_path, data, 41)
    assert data.digest() != before


def test_every_sample_goes_to_one_party_and_the_split_repeats(tmp_path: Path) -> None:
    data = data_sets(tmp_path, "celeba")[0]
    write_data(tmp_path, data, 40)
    shares = data.shares(15)
    assert sorted(np.concatenate([scores for _, scores in shares]).tolist()) == sorted(data.load()[1].tolist())
    assert all(np.array_equal(one, other) for (_, one), (_, other) in zip(shares, data.shares(15), strict=True))
