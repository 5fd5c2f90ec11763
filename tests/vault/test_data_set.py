"""The vault's data: counted when asked, read again when changed, recognised by content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from fheval.counting import Grid, count_file
from fheval.errors import InputError
from fheval.metrics.registry import auc_contribution
from fheval.party import data_set
from fheval.party.columns import AllowedColumns
from fheval.party.data_set import DataSet
from fheval.secrets import SystemRandomness
from fheval.study import Study
from vault.trial import write_scores

RNG = SystemRandomness()
AUC = Study(protocol="padded", precision=1e-4, grid=Grid.even(11))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scores.csv"
    write_scores(path, seed=1)
    return path


def test_it_counts_as_evaluate_does(file: Path) -> None:
    counted = DataSet(file).count(AUC, RNG)
    expected = auc_contribution(count_file(file, AUC.grid))
    assert counted.share.rows == 60
    assert np.array_equal(counted.share.contribution.table, expected.table)


def test_other_metrics_and_resamples(file: Path) -> None:
    study = replace(AUC, metrics=("auc", "recall@0.5"), replicates=3, interval=0.3)
    counted = DataSet(file).count(study, RNG)
    assert counted.share.rows == 60
    assert counted.share.contribution.table.shape == (4, study.batch().width)


def test_the_auc_is_the_same_counted_alone_or_among_others(file: Path) -> None:
    alone = DataSet(file).count(AUC, RNG).share.contribution.table
    study = replace(AUC, metrics=("auc", "recall@0.5", "brier"))
    among = DataSet(file).count(study, RNG).share.contribution.table
    assert np.array_equal(alone, among[:, : alone.shape[1]])


def test_resamples_are_drawn_anew_for_each_round(file: Path) -> None:
    data = DataSet(file)
    study = replace(AUC, replicates=3, interval=0.3)
    first, second = (data.count(study, RNG).share.contribution.table for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])


def test_an_unchanged_file_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DataSet(file)
    first = data.count(AUC, RNG)
    monkeypatch.setattr(DataSet, "_hashed", None)
    monkeypatch.setattr(data_set, "count_share", None)
    assert data.count(AUC, RNG) is first


def test_a_changed_file_is_another_data_set(file: Path) -> None:
    data = DataSet(file)
    before = data.count(AUC, RNG)
    with file.open("a") as more:
        more.write("1,0.25\n")
    after = data.count(AUC, RNG)
    assert after.share.rows == before.share.rows + 1
    assert after.data_set != before.data_set


def test_a_data_set_is_its_content(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    copy.write_bytes(file.read_bytes())
    assert DataSet(copy, AllowedColumns(models={"risk": "score"})).fingerprint() == DataSet(file).fingerprint()


def test_a_file_that_changes_while_it_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DataSet(file)
    hashed = DataSet._hashed

    def slowly(self: DataSet) -> str:
        found = hashed(self)
        with file.open("a") as more:
            more.write("0,0.5\n")
        return found

    monkeypatch.setattr(DataSet, "_hashed", slowly)
    with pytest.raises(InputError, match="changed while it was read"):
        data.count(AUC, RNG)


def test_a_file_is_looked_at_before_any_round(file: Path, tmp_path: Path) -> None:
    DataSet(file).check()
    with pytest.raises(InputError, match="no label column"):
        DataSet(file, AllowedColumns(label="sick")).check()
    with pytest.raises(InputError, match="cannot be opened"):
        DataSet(tmp_path / "none.csv").check()
    (tmp_path / "empty.csv").write_text("label,score\n")
    with pytest.raises(InputError, match="no rows"):
        DataSet(tmp_path / "empty.csv").check()


def test_counts_do_not_print(file: Path) -> None:
    counted = DataSet(file).count(AUC, RNG)
    assert repr(counted) == f"Counted(data_set='{counted.data_set}')"
