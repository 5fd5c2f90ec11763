"""Files of every kind give the counts of their arrays, and a bad one is named by file, row and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from fheval.counting import Counts, Grid, count_file, delimited, npy, parquet, read_pair
from fheval.counting.readers import read_chunks
from fheval.errors import InputError

ROWS = 5000
Writer = Callable[[Path, NDArray[Any], NDArray[Any]], Path]


def data() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 2, size=ROWS)
    # A third of the scores lie exactly on the points of an even grid with 11 points.
    scores = np.where(rng.random(ROWS) < 1 / 3, np.round(rng.random(ROWS), 1), rng.random(ROWS))
    return labels, scores


def frame(labels: NDArray[Any], scores: NDArray[Any], label: str = "label", score: str = "score") -> pl.DataFrame:
    return pl.DataFrame({"id": np.arange(len(labels)), label: labels, score: scores})


def write_csv(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    frame(labels, scores).write_csv(folder / "a.csv")
    return folder / "a.csv"


def write_boolean_csv(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    frame(labels == 1, scores).write_csv(folder / "b.csv")
    return folder / "b.csv"


def write_windows_csv(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    frame(labels, scores, "y", "s").write_csv(
        folder / "w.csv", separator=";", line_terminator="\r\n", include_bom=True, quote_style="always"
    )
    return folder / "w.csv"


def write_csv_with_remarks(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    remarks = pl.Series("remark", ['two\nlines, "quoted"', "", "plain"])
    table = frame(labels, scores).with_columns(remarks.gather(np.arange(len(labels)) % 3))
    table.select("remark", "score", "label").write_csv(folder / "r.csv")
    return folder / "r.csv"


def write_tsv(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    frame(labels, scores).write_csv(folder / "t.tsv", separator="\t")
    return folder / "t.tsv"


def write_parquet(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    frame(labels.astype(np.int8), scores).write_parquet(folder / "a.parquet", row_group_size=700)
    return folder / "a.parquet"


def write_parquet_of_other_types(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    table = frame(labels, scores, "y", "s").with_columns(pl.col("y").cast(pl.Decimal(10, 0)))
    table.write_parquet(folder / "[o].pq")
    return folder / "[o].pq"


def write_rows_npy(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    np.save(folder / "r.npy", np.column_stack((labels, scores)))
    return folder / "r.npy"


def write_columns_npy(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    np.save(folder / "c.npy", np.asfortranarray(np.column_stack((labels, scores))))
    return folder / "c.npy"


def write_fields_npy(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    table = np.empty(len(labels), dtype=[("score", ">f8"), ("label", "?")])
    table["label"], table["score"] = labels, scores
    np.save(folder / "f.npy", table)
    return folder / "f.npy"


def write_text(folder: Path, labels: NDArray[Any], scores: NDArray[Any]) -> Path:
    lines = [f"{label} {score!r}\n" for label, score in zip(labels.tolist(), scores.tolist(), strict=True)]
    (folder / "a.txt").write_text("".join(lines) + "\n \n")
    return folder / "a.txt"


def write_column(path: Path, values: NDArray[Any]) -> Path:
    if path.suffix == ".npy":
        np.save(path, values)
    else:
        path.write_text("\n".join(repr(value) for value in values.tolist()))
    return path


WRITERS = [
    write_csv,
    write_boolean_csv,
    write_windows_csv,
    write_csv_with_remarks,
    write_tsv,
    write_parquet,
    write_parquet_of_other_types,
    write_rows_npy,
    write_columns_npy,
    write_fields_npy,
    write_text,
]


@pytest.fixture(params=["whole", "pieces"])
def piecewise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a test as it is, and with pieces so small that every file falls into many."""
    if request.param == "whole":
        return False
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1021)
    monkeypatch.setattr(npy, "STRETCH_ROWS", 333)
    monkeypatch.setattr(parquet, "SLICE_ROWS", 999)
    return True


@pytest.mark.parametrize("write", WRITERS)
def test_every_kind_of_file_counts_as_its_arrays(tmp_path: Path, write: Writer, piecewise: bool) -> None:
    labels, scores = data()
    path = write(tmp_path, labels, scores)
    grid = Grid.even(11)
    assert count_file(path, grid) == Counts.from_scores(labels, scores, grid)
    chunks = list(read_chunks(path))
    assert (len(chunks) > 1) == piecewise
    assert np.array_equal(np.concatenate([chunk.labels for chunk in chunks]), labels)
    assert np.array_equal(np.concatenate([chunk.scores for chunk in chunks]), scores)


def test_chunks_of_rows_know_where_they_start(tmp_path: Path, piecewise: bool) -> None:
    labels, scores = data()
    for write in WRITERS:
        row = 0
        for chunk in read_chunks(write(tmp_path, labels, scores)):
            assert chunk.first_row == row
            row += len(chunk)
        assert row == ROWS


@pytest.mark.parametrize("labels_kind", ["txt", "npy"])
@pytest.mark.parametrize("scores_kind", ["txt", "npy"])
def test_a_pair_of_files_reads_as_its_arrays(
    tmp_path: Path, labels_kind: str, scores_kind: str, piecewise: bool
) -> None:
    labels, scores = data()
    labels_path = write_column(tmp_path / f"labels.{labels_kind}", labels.astype(float))
    scores_path = write_column(tmp_path / f"scores.{scores_kind}", scores)
    read_labels, read_scores = read_pair(labels_path, scores_path, 11)
    assert np.array_equal(read_labels, labels)
    assert np.array_equal(read_scores, scores)


def test_columns_may_be_named(tmp_path: Path) -> None:
    labels, scores = data()
    table = frame(labels, scores, "died", "p(death)").with_columns(label=pl.lit(7), y=pl.lit("?"))
    table.write_csv(tmp_path / "a.csv")
    table.write_parquet(tmp_path / "a.parquet")
    expected = Counts.from_scores(labels, scores, Grid.even(11))
    for name in ("a.csv", "a.parquet"):
        assert count_file(tmp_path / name, Grid.even(11), label_column="died", score_column="p(death)") == expected


def test_text_scores_are_read_as_the_nearest_float(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,score\n1,0.3\n1,0.30000000000000004\n0,3e-1\n0,.29999999999999998\n")
    counts = count_file(tmp_path / "a.csv", Grid.even(11))
    assert counts.tp[7] == 1
    assert counts.fp[7] == 0


REFUSED_CSV = [
    ("label,score\n1,0.5\n2,0.5\n", "row 2 (line 3), column 'label': the label 2.0 is neither 0 nor 1"),
    ("label,score\n1,0.5\n0,nan\n", "row 2 (line 3), column 'score': the score nan is not a finite number"),
    ("label,score\n1,-inf\n0,0.5\n", "row 1 (line 2), column 'score': the score -inf is not a finite number"),
    ("label,score\n1,0.5\n0,1e400\n", "row 2 (line 3), column 'score': the score inf is not a finite number"),
    ("label,score\n1,0.5\n0,1.5\n", "row 2 (line 3), column 'score': the score 1.5 is outside [0, 1]"),
    ("label,score\n1,0.5\n0,high\n", "row 2 (line 3), column 'score': 'high' is not a number"),
    ("label,score\n1,0.5\n0,true\n", "row 2 (line 3), column 'score': 'true' is not a number"),
    (
        "label,score\n1,0.5\nno,0.1\n",
        "row 2 (line 3), column 'label': 'no' is not a number. Correct it, leave the row out, or say which label is "
        "positive (positive=…, --positive).",
    ),
    ("label,score\n1,0.5\n0,\n", "row 2 (line 3), column 'score': the value is missing"),
    ("label,score\n1,0.5\n0\n", "row 2 (line 3), column 'score': the value is missing"),
    ("label,score\n1,0.5\n\n0,0.5\n", "row 2 (line 3), column 'label': the value is missing"),
    ("label,score\n1,0.5\n0,0.5,9\n", "row 2 (line 3): there are 3 values where 2 are expected"),
    ('label,score,note\n1,0.5,"a\nb"\n0,7,\n', "row 2, column 'score': the score 7.0 is outside [0, 1]"),
    ('label,score,note\n1,0.5,"never\n0,0.7,closed\n', "line 2: a quote is opened and never closed"),
    ("label,score\n1,0,5\n", "row 1 (line 2): there are 3 values where 2 are expected"),
    ("label,score\n", "there are no rows"),
    ("label,score", "there are no rows"),
    ("", "there are no rows"),
    ("\n\n", "there are no rows"),
    ("id,score\n1,0.5\n", "there is no label column 'label' or 'y' among 'id', 'score'"),
    ("y,id\n1,0.5\n", "there is no score column 'score' or 's' among 'y', 'id'"),
    ("label,score,label\n1,0.5,1\n", "2 columns are called 'label'"),
    (b"label,score\n1,0.5\n0,\xff\xfe\n", "rows 1 to 2: these rows cannot be read as UTF-8"),
    ("label,score\n1,0.5\n".encode("utf-16"), "the header cannot be read"),
]


@pytest.mark.parametrize(("content", "told"), REFUSED_CSV)
def test_a_bad_csv_is_named(tmp_path: Path, content: str | bytes, told: str) -> None:
    path = tmp_path / "hospital.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as error:
        count_file(path)
    assert str(error.value).startswith(str(path))
    assert told in str(error.value)


def test_a_bad_row_far_down_a_csv_is_named(tmp_path: Path, piecewise: bool) -> None:
    labels, scores = data()
    path = write_csv(tmp_path, labels, scores)
    lines = path.read_text().splitlines()
    lines[4321] = "4320,1,0.5x"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"row 4321 \(line 4322\), column 'score': '0\.5x' is not a number"):
        count_file(path)
    lines[4321] = "4320,3,0.5"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"row 4321 \(line 4322\), column 'label': the label 3\.0 is neither"):
        count_file(path)


def test_a_quote_that_is_never_closed_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piecewise: bool
) -> None:
    monkeypatch.setattr(delimited, "RECORD_LIMIT", 2000)
    (tmp_path / "a.csv").write_text('label,score,note\n1,0.5,"oops\n' + "0,0.5,\n" * 5000)
    with pytest.raises(InputError, match=r"longer than|never closed"):
        count_file(tmp_path / "a.csv")


REFUSED_PAIRS = [
    ("1\n0\n", "0.5\nx\n", "scores.txt, row 2 (line 2): 'x' is not a number"),
    ("1\n2\n", "0.5\n0.5\n", "labels.txt, row 2 (line 2): the label 2.0 is neither 0 nor 1"),
    ("1\n0\n", "0.5\n5\n", "scores.txt, row 2 (line 2): the score 5.0 is outside [0, 1]"),
    ("1\n\n0\n", "0.5\n0.5\n0.1", "labels.txt, row 2 (line 2): the value is missing"),
    ("1\n0\n1", "0.5\n0.5\n", "scores.txt has 2. Give one label for each score"),
    ("1\n", "0.5\n0.5\n0.7\n", "labels.txt has 1 rows and"),
    ("", "", "there are no rows"),
    ("1 0\n", "0.5\n", "labels.txt, row 1 (line 1): '1 0' is not a number"),
    ("1,0\n", "0.5\n", "labels.txt, row 1 (line 1): there are 2 values where 1 is expected"),
]


@pytest.mark.parametrize(("labels", "scores", "told"), REFUSED_PAIRS)
def test_a_bad_pair_is_named(tmp_path: Path, labels: str, scores: str, told: str) -> None:
    (tmp_path / "labels.txt").write_text(labels)
    (tmp_path / "scores.txt").write_text(scores)
    with pytest.raises(InputError) as error:
        read_pair(tmp_path / "labels.txt", tmp_path / "scores.txt", 100)
    assert told in str(error.value)


def test_a_pair_may_hold_any_finite_score_until_a_grid_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("True\nfalse\n")
    (tmp_path / "scores.txt").write_text("-7.5\n 12 \n")
    labels, scores = read_pair(tmp_path / "labels.txt", tmp_path / "scores.txt")
    assert (labels.tolist(), scores.tolist()) == ([1, 0], [-7.5, 12.0])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("0.5\n0.7\n", "row 1 (line 1): there is one value, where a label and a score are needed"),
        ("1 0.5\n1  0.7\n", "row 2 (line 2): there are 3 values where 2 are expected"),
        ("1,0.5\n0,\n", "row 2 (line 2), column 'score': the value is missing"),
        ("label score\n1 0.5\n", "row 1 (line 1), column 'label': 'label' is not a number"),
    ],
)
def test_a_bad_text_file_is_named(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(InputError) as error:
        count_file(tmp_path / "a.txt")
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"label": [1, 2], "score": [0.5, 0.5]}, "row 2, column 'label': the label 2 is neither 0 nor 1"),
        ({"label": [1, None], "score": [0.5, 0.5]}, "row 2, column 'label': the value is missing"),
        ({"label": [1, 0], "score": [None, 0.5]}, "row 1, column 'score': the value is missing"),
        ({"label": [1, 0], "score": [0.5, float("nan")]}, "row 2, column 'score': the score nan is not"),
        ({"label": [1, 0], "score": ["0.5", "0.5"]}, "column 'score': holds values of type String"),
        ({"label": [1, 0], "prob": [0.5, 0.5]}, "there is no score column 'score' or 's' among 'label', 'prob'"),
        ({"label": [], "score": []}, "there are no rows"),
    ],
)
def test_a_bad_parquet_is_named(tmp_path: Path, columns: dict[str, list[Any]], told: str) -> None:
    schema = {"label": pl.Int64, "score": pl.Float64} if not columns["label"] else None
    pl.DataFrame(columns, schema=schema).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError) as error:
        count_file(tmp_path / "a.parquet")
    assert str(error.value).startswith(str(tmp_path / "a.parquet"))
    assert told in str(error.value)


def test_a_bad_row_in_a_later_slice_is_named(tmp_path: Path, piecewise: bool) -> None:
    labels, scores = data()
    scores[4000] = np.nan
    with pytest.raises(InputError, match=r"row 4001, column 'score': the score nan"):
        count_file(write_parquet(tmp_path, labels, scores))
    with pytest.raises(InputError, match=r"row 4001, column '1': the score nan"):
        count_file(write_columns_npy(tmp_path, labels, scores))


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.array([[1, 0.5], [3, 0.5]]), "row 2, column '0': the label 3.0 is neither 0 nor 1"),
        (np.array([0.5, 0.7]), "an array of shape (2,)"),
        (np.ones((2, 3)), "an array of shape (2, 3)"),
        (np.array([["1", "0.5"]]), "holds values of type <U3"),
        (np.array([(1, "x")], dtype=[("label", "i4"), ("score", "U1")]), "column 'score': holds values of type <U1"),
        (np.array([(1, 0.5)], dtype=[("a", "i4"), ("score", "f4")]), "there is no label column"),
        (np.empty((0, 2)), "there are no rows"),
    ],
)
def test_a_bad_npy_is_named(tmp_path: Path, array: NDArray[Any], told: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError) as error:
        count_file(tmp_path / "a.npy")
    assert told in str(error.value)


class Trap:
    """Unpickling one of these would show."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return (setattr, (Trap, "sprung", True))


def test_npy_files_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[Trap(), Trap()]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read as NPY"):
        count_file(tmp_path / "a.npy")
    assert not Trap.sprung


@pytest.mark.parametrize("write", [write_parquet, write_rows_npy])
@pytest.mark.parametrize("keep", [0, 1, 7, 60, 200, 5000])
def test_truncated_binary_files_are_refused(tmp_path: Path, write: Writer, keep: int) -> None:
    path = write(tmp_path, *data())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match="cannot be read as"):
        count_file(path)


def test_a_parquet_with_damaged_pages_is_refused_or_read_but_never_crashes(tmp_path: Path) -> None:
    whole = write_parquet(tmp_path, *data()).read_bytes()
    damaged = tmp_path / "damaged.parquet"
    for start in range(4, len(whole), len(whole) // 20):
        damaged.write_bytes(whole[:start] + bytes(64) + whole[start + 64 :])
        try:
            count_file(damaged)
        except InputError as error:
            assert str(error).startswith(str(damaged))  # noqa: PT017 (either outcome is right)


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    (tmp_path / "labels.csv").write_text("1\n")
    (tmp_path / "scores.txt").write_text("0.5\n")
    for path, told in (("none.csv", "No such file"), ("folder.csv", "Is a directory"), ("a.xlsx", "unknown kind")):
        with pytest.raises(InputError, match=told):
            count_file(tmp_path / path)
    with pytest.raises(InputError, match=r"must be \.txt or \.npy"):
        read_pair(tmp_path / "labels.csv", tmp_path / "scores.txt")
    with pytest.raises(InputError, match="No such file"):
        read_pair(tmp_path / "none.txt", tmp_path / "scores.txt")


def test_one_column_cannot_be_both(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,score\n1,0.5\n")
    with pytest.raises(InputError, match="named for both"):
        count_file(tmp_path / "a.csv", label_column="score", score_column="score")
