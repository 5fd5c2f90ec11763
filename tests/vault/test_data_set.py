"""The vault's data: counted as `evaluate` counts them, clipped where a study says so, never while they change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from fheval.counting import Grid, count_file
from fheval.errors import InputError
from fheval.evaluation.run import count_share
from fheval.metrics.registry import auc_contribution
from fheval.party import data_set
from fheval.party.columns import StudyColumns
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
    assert counted.rows == 60
    assert np.array_equal(counted.contribution.table, expected.table)


def test_other_metrics_and_resamples(file: Path) -> None:
    study = replace(AUC, metrics=("auc", "recall@0.5"), replicates=3, interval=0.3)
    counted = DataSet(file).count(study, RNG)
    assert counted.rows == 60
    assert counted.contribution.table.shape == (4, study.batch().width)


def test_the_auc_is_the_same_counted_alone_or_among_others(file: Path) -> None:
    alone = DataSet(file).count(AUC, RNG).contribution.table
    study = replace(AUC, metrics=("auc", "recall@0.5", "brier"))
    among = DataSet(file).count(study, RNG).contribution.table
    assert np.array_equal(alone, among[:, : alone.shape[1]])


def test_resamples_are_drawn_anew_each_time(file: Path) -> None:
    study = replace(AUC, replicates=3, interval=0.3)
    first, second = (DataSet(file).count(study, RNG).contribution.table for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])


def test_values_outside_the_target_range_are_moved_to_its_ends(tmp_path: Path) -> None:
    out, inside = tmp_path / "out.csv", tmp_path / "inside.csv"
    out.write_text("label,score\n-5,0\n12,3\n4,99\n")
    inside.write_text("label,score\n0,0\n10,3\n4,10\n")
    study = replace(AUC, metrics=("mae",), target_range=(0.0, 10.0))
    clipped, exact = (DataSet(path).count(study, RNG) for path in (out, inside))
    assert (clipped.clipped, exact.clipped) == (3, 0)
    assert np.array_equal(clipped.contribution.table, exact.contribution.table)


def test_what_is_no_number_is_not_clipped(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text("label,score\n1,nan\n2,3\n")
    with pytest.raises(InputError):
        DataSet(path).count(replace(AUC, metrics=("mae",), target_range=(0.0, 10.0)), RNG)


def test_a_file_that_changes_while_it_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*arguments: object, **options: object) -> object:
        found = count_share(*arguments, **options)  # type: ignore[arg-type]
        with file.open("a") as more:
            more.write("0,0.5\n")
        return found

    monkeypatch.setattr(data_set, "count_share", slowly)
    with pytest.raises(InputError, match="changed while it was read"):
        DataSet(file).count(AUC, RNG)


def test_files_that_cannot_be_used(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no label column"):
        DataSet(file, StudyColumns(label="sick")).count(AUC, RNG)
    with pytest.raises(InputError, match="cannot be opened"):
        DataSet(tmp_path / "none.csv").count(AUC, RNG)
    (tmp_path / "empty.csv").write_text("label,score\n")
    with pytest.raises(InputError, match="no rows"):
        DataSet(tmp_path / "empty.csv").count(AUC, RNG)


def test_counts_do_not_print(file: Path) -> None:
    assert repr(DataSet(file).count(AUC, RNG)) == "Share()"
