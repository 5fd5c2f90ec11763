"""Tables from arrays and files: several models, classes, groups and clusters, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fheval.counting import Table, TableColumns, TableFile, delimited, parquet
from fheval.errors import InputError

ALL = TableColumns(label="outcome", models=("old", "new"), group="sex", cluster="patient")
FRAME = pl.DataFrame(
    {
        "patient": [7, 7, 8, None],
        "sex": ["F", "F", None, "M"],
        "new": [0.5, 0.25, 1.0, 0.0],
        "outcome": [1, 0, 1, 0],
        "old": [0.1, 0.2, 0.3, 0.4],
    }
)


def write(folder: Path, ending: str, frame: pl.DataFrame = FRAME) -> Path:
    path = folder / f"party{ending}"
    if ending == ".parquet":
        frame.write_parquet(path)
    elif ending == ".npy":
        fields = [(name, "U8" if name in ("sex", "patient") else "f8") for name in frame.columns]
        rows = [tuple("" if value is None else value for value in row) for row in frame.rows()]
        np.save(path, np.array(rows, dtype=fields))
    else:
        frame.write_csv(path, separator="\t" if ending == ".tsv" else ",")
    return path


def gathered(tables: list[Table]) -> dict[str, list[object]]:
    def joined(parts: list[np.ndarray]) -> list[object]:
        return [value for part in parts for value in part.tolist()]

    return {
        "labels": joined([table.labels.values for table in tables]),
        **{model: joined([table.scores[model][0].values for table in tables]) for model in tables[0].scores},
        "groups": joined([table.groups.values for table in tables if table.groups]),
        "clusters": joined([table.clusters.values for table in tables if table.clusters]),
    }


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".npy"])
def test_every_kind_of_file_gives_the_same_table(tmp_path: Path, ending: str) -> None:
    file = TableFile(write(tmp_path, ending), ALL)
    expected = {
        "labels": [1, 0, 1, 0],
        "old": [0.1, 0.2, 0.3, 0.4],
        "new": [0.5, 0.25, 1.0, 0.0],
        "groups": ["F", "F", "", "M"],
        "clusters": ["7", "7", "8", ""],
    }
    assert gathered(list(file)) == expected
    assert gathered(list(file)) == expected  # it can be gone through again


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_large_file_comes_in_stretches(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 40)
    monkeypatch.setattr(parquet, "SLICE_ROWS", 3)
    tables = list(TableFile(write(tmp_path, ending), ALL))
    assert len(tables) > 1
    assert gathered(tables)["labels"] == [1, 0, 1, 0]
    assert [table.first_row for table in tables] == list(np.cumsum([0, *map(len, tables)])[:-1])


def test_classes_have_a_column_each(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,score_cat,score_dog\ncat,0.9,0.1\ndog,0.4,0.6\n")
    (table,) = TableFile(path, TableColumns(classes=("cat", "dog")))
    assert table.labels.values.tolist() == ["cat", "dog"]
    assert [column.values.tolist() for column in table.scores[""]] == [[0.9, 0.4], [0.1, 0.6]]


def test_a_bad_number_is_named_beside_text_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,score,sex\n1,0.5,F\n0,high,M\n")
    with pytest.raises(InputError, match=r"a\.csv, row 2 \(line 3\), column 'score': 'high' is not a number"):
        list(TableFile(path, TableColumns(group="sex")))


def test_labels_may_be_booleans_beside_text_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,score,sex\nTrue, 0.5 , F\nfalse,0.25,\n")
    (table,) = TableFile(path, TableColumns(group="sex"))
    assert table.labels.values.tolist() == [1.0, 0.0]
    assert table.groups is not None
    assert table.groups.values.tolist() == ["F", ""]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (TableColumns(models=("old",), group="ward"), "no group column 'ward' among"),
        (TableColumns(models=("old",), cluster="ward"), "no cluster column 'ward'"),
        (TableColumns(models=("old", "newer")), "no score column 'newer'"),
        (TableColumns(label="outcome"), "no score column 'score' or 's'"),
        (TableColumns(label="old", models=("old",)), "'old' was named for both labels and scores"),
    ],
)
def test_missing_columns_are_named(tmp_path: Path, columns: TableColumns, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(
            TableFile(
                write(tmp_path, ".parquet", FRAME.rename({"outcome": "label"} if not columns.label else {})), columns
            )
        )


@pytest.mark.parametrize("ending", [".txt", ".npy"])
def test_files_without_names_have_a_label_and_a_score_only(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    if ending == ".npy":
        np.save(path, np.array([[1.0, 0.5], [0.0, 0.2]]))
    else:
        path.write_text("1 0.5\n0 0.2\n")
    (table,) = TableFile(path, TableColumns())
    assert table.scores[""][0].values.tolist() == [0.5, 0.2]
    with pytest.raises(InputError, match="no named columns"):
        list(TableFile(path, TableColumns(group="sex")))


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,score\n")
    with pytest.raises(InputError, match="there are no rows"):
        list(TableFile(path, TableColumns()))


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="2 labels but 3 groups"):
        Table.of([0, 1], [0.5, 0.5], groups=["a", "b", "c"])
    with pytest.raises(InputError, match="2 dimensions"):
        Table.of([0, 1], [0.5, 0.5], groups=[["a", "b"]])


def test_a_table_does_not_print_its_rows() -> None:
    assert "0.123" not in repr(Table.of([0, 1], [0.123, 0.5]))
