"""The vault's data: counted as `evaluate` counts them, clipped where a study says so, never while they change."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from fheval.aggregator.conductor import drive
from fheval.counting import Grid, count_file
from fheval.errors import InputError
from fheval.evaluation.run import count_share
from fheval.metrics.registry import auc_contribution
from fheval.party import data_set
from fheval.party.accepted import Facts
from fheval.party.columns import StudyColumns
from fheval.party.data_set import DataSet
from fheval.secrets import SystemRandomness
from fheval.study import Study
from keys_consortium import NOW
from vault.trial import NAMES, PicksTheFirst, Wire, make_consortium, running, write_scores

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


def crowded(path: Path) -> None:
    """Scores below 0.004, between which even points do not tell."""
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 2, 300)
    scores = 0.003 / (1 + np.exp(-draw.normal(2.0 * labels, 1.0)))
    lines = (f"{label},{score!r}\n" for label, score in zip(labels.tolist(), scores.tolist(), strict=True))
    path.write_text("label,score\n" + "".join(lines))


def test_an_operator_is_told_how_far_the_points_move_its_own_auc(file: Path) -> None:
    crowded(file)
    even, wide = replace(AUC, grid=Grid.even(101)), replace(AUC, grid=Grid.wide())
    moved = DataSet(file).binning(even)
    assert moved is not None
    assert moved > 0.4
    fits = DataSet(file).binning(wide)
    assert fits is not None
    assert fits < 1e-3
    assert DataSet(file).binning(replace(AUC, metrics=("recall@0.5",))) is None
    facts = Facts(version=(0,) * 5, rows=1, clipped=0, at=NOW, binning=moved)
    assert facts.fits_badly
    assert not replace(facts, binning=fits).fits_badly
    assert not replace(facts, binning=None).fits_badly


def test_only_so_many_rows_are_looked_at(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DataSet(file).binning(AUC)
    monkeypatch.setattr(data_set, "MOST_ROWS_LOOKED_AT", 20)
    lines = file.read_text().splitlines(keepends=True)
    part = DataSet(file).binning(AUC)
    file.write_text("".join(lines[:21]))
    assert part == DataSet(file).binning(AUC) != whole


def test_it_stays_with_the_operator(tmp_path: Path) -> None:
    """What a vault keeps of it is in its studies, and in no message, whether points fit its scores or not."""
    with running(tmp_path, make_consortium(tmp_path / "kits")) as trial:
        wire = Wire(trial)
        lengths = []
        for spoilt in (False, True):
            if spoilt:
                crowded(trial.data(NAMES[0]))
                trial.prepare(NAMES[0])
            drive(trial.conduct(trial.study(), PicksTheFirst()), wire)
            lengths.append([len(data) for _, _, data in wire.replies])
            wire.replies.clear()
        (standing,) = trial.studies[NAMES[0]].all()
        assert standing.facts is not None
        assert standing.facts.fits_badly
        written = struct.pack(">d", standing.facts.binning or 0.0)
        assert not any(written in data for _, _, data in (*wire.requests, *wire.replies))
        assert lengths[1] == lengths[0][-len(lengths[1]) :]
