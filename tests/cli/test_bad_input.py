"""Bad input ends in one sentence with file, row and column, status 2, and nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli.session import Session

Column = list[float]
Writer = Callable[[Path, Column, Column], Path]

LABELS: Column = [1, 0, 1, 0]
SCORES: Column = [0.9, 0.1, 0.8, 0.3]


def _delimited(name: str, separator: str, header: bool) -> Writer:
    def write(folder: Path, labels: Column, scores: Column) -> Path:
        lines = [f"label{separator}score"] * header
        lines += [f"{label:g}{separator}{score:g}" for label, score in zip(labels, scores, strict=True)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
        return folder / name

    return write


def _parquet(folder: Path, labels: Column, scores: Column) -> Path:
    frame = pl.DataFrame({"label": labels, "score": scores}, schema={"label": pl.Float64, "score": pl.Float64})
    frame.write_parquet(folder / "bad.parquet")
    return folder / "bad.parquet"


def _npy(folder: Path, labels: Column, scores: Column) -> Path:
    np.save(folder / "bad.npy", np.array([labels, scores], dtype=np.float64).T)
    return folder / "bad.npy"


def _npy_fields(folder: Path, labels: Column, scores: Column) -> Path:
    rows = np.zeros(len(labels), dtype=[("label", "f8"), ("score", "f8")])
    rows["label"], rows["score"] = labels, scores
    np.save(folder / "fields.npy", rows)
    return folder / "fields.npy"


# How each kind of file names its columns in a message.
WRITERS: dict[str, tuple[Writer, str, str]] = {
    "csv": (_delimited("bad.csv", ",", True), "'label'", "'score'"),
    "tsv": (_delimited("bad.tsv", "\t", True), "'label'", "'score'"),
    "txt": (_delimited("bad.txt", " ", False), "'label'", "'score'"),
    "parquet": (_parquet, "'label'", "'score'"),
    "npy": (_npy, "'0'", "'1'"),
    "npy with fields": (_npy_fields, "'label'", "'score'"),
}
BAD_VALUES = [
    ("label", 2.0, "neither 0 nor 1"),
    ("label", 0.5, "neither 0 nor 1"),
    ("label", float("nan"), "neither 0 nor 1"),
    ("score", float("nan"), "not a finite number"),
    ("score", float("inf"), "not a finite number"),
    ("score", 1.5, "outside [0, 1]"),
    ("score", -0.1, "outside [0, 1]"),
]


def refused(fheval: Session, folder: Path, *arguments: str | Path) -> str:
    """Run a command that must be refused, and give its one sentence."""
    target = folder / "out" / "result.json"
    target.parent.mkdir()
    done = fheval(*arguments, "--json", target)
    assert (done.status, done.out) == (2, "")
    assert list(target.parent.iterdir()) == []
    assert done.err.count("\n") == 1
    return done.err


def evaluated(fheval: Session, folder: Path, bad: Path) -> str:
    """Let a party with bad data meet two good ones."""
    good = folder / "good.csv"
    good.write_text("label,score\n1,0.5\n0,0.25\n")
    return refused(fheval, folder, "evaluate", "--party", good, "--party", bad, "--party", good)


@pytest.mark.parametrize(("column", "value", "reason"), BAD_VALUES)
@pytest.mark.parametrize("kind", WRITERS)
def test_a_bad_value(fheval: Session, tmp_path: Path, kind: str, column: str, value: float, reason: str) -> None:
    write, label_name, score_name = WRITERS[kind]
    labels, scores = list(LABELS), list(SCORES)
    (labels if column == "label" else scores)[2] = value
    file = write(tmp_path, labels, scores)
    message = evaluated(fheval, tmp_path, file)
    assert message.startswith(f"{file}, row 3")
    assert f"column {label_name if column == 'label' else score_name}: " in message
    assert reason in message


@pytest.mark.parametrize("kind", WRITERS)
def test_no_rows(fheval: Session, tmp_path: Path, kind: str) -> None:
    file = WRITERS[kind][0](tmp_path, [], [])
    assert evaluated(fheval, tmp_path, file).startswith(f"{file}: there are no rows.")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.parquet", "a.npy"])
def test_an_empty_file(fheval: Session, tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert evaluated(fheval, tmp_path, tmp_path / name).startswith(str(tmp_path / name))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.npy", "a.txt", "a.xlsx"])
def test_no_such_file(fheval: Session, tmp_path: Path, name: str) -> None:
    assert f"{tmp_path / name}: cannot be opened" in evaluated(fheval, tmp_path, tmp_path / name)


def test_a_word_in_place_of_a_number(fheval: Session, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,score\n1,0.5\n0,high\n")
    message = evaluated(fheval, tmp_path, tmp_path / "a.csv")
    assert message.startswith(f"{tmp_path / 'a.csv'}, row 2 (line 3), column 'score': 'high' is not a number.")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_missing_value(fheval: Session, tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame({"label": [1, 0], "score": [0.5, None]})
    frame.write_csv(tmp_path / name) if name.endswith("csv") else frame.write_parquet(tmp_path / name)
    message = evaluated(fheval, tmp_path, tmp_path / name)
    assert message.startswith(f"{tmp_path / name}, row 2")
    assert "column 'score': the value is missing" in message


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "npy with fields"])
def test_no_such_column(fheval: Session, tmp_path: Path, kind: str) -> None:
    file = WRITERS[kind][0](tmp_path, LABELS, SCORES)
    message = refused(fheval, tmp_path, "evaluate", "--party", file, "--score-column", "risk", "--minimum-cohort", "1")
    assert message.startswith(f"{file}: there is no score column 'risk' among 'label', 'score'.")


def test_an_unknown_kind_of_file(fheval: Session, tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").touch()
    assert "unknown kind of file '.xlsx'" in evaluated(fheval, tmp_path, tmp_path / "a.xlsx")


def _pair(folder: Path, ending: str, labels: Column, scores: Column) -> tuple[Path, Path]:
    paths = folder / f"labels.{ending}", folder / f"scores.{ending}"
    for path, column in zip(paths, (labels, scores), strict=True):
        if ending == "npy":
            np.save(path, np.array(column))
        else:
            path.write_text("".join(f"{value:g}\n" for value in column))
    return paths


@pytest.mark.parametrize(("column", "value", "reason"), BAD_VALUES)
@pytest.mark.parametrize("ending", ["txt", "npy"])
def test_a_bad_value_in_a_pair_of_files(
    fheval: Session, tmp_path: Path, ending: str, column: str, value: float, reason: str
) -> None:
    columns = {"label": list(LABELS), "score": list(SCORES)}
    columns[column][2] = value
    labels, scores = _pair(tmp_path, ending, columns["label"], columns["score"])
    message = refused(fheval, tmp_path, "simulate", "--labels", labels, "--scores", scores, "--parties", "3")
    assert message.startswith(f"{labels if column == 'label' else scores}, row 3")
    assert reason in message


@pytest.mark.parametrize("ending", ["txt", "npy"])
def test_lengths_that_differ(fheval: Session, tmp_path: Path, ending: str) -> None:
    labels, scores = _pair(tmp_path, ending, LABELS[:3], SCORES)
    message = refused(fheval, tmp_path, "simulate", "--labels", labels, "--scores", scores, "--parties", "3")
    assert message.startswith(f"{labels} has 3 rows and {scores} has 4.")


def test_more_parties_than_rows(fheval: Session, tmp_path: Path) -> None:
    labels, scores = _pair(tmp_path, "txt", LABELS, SCORES)
    message = refused(fheval, tmp_path, "simulate", "--labels", labels, "--scores", scores, "--parties", "5")
    assert message.startswith("4 rows do not go round 5 parties.")


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ("0.9\n0.95\n0.1\n", "must strictly decrease, but 0.95 follows 0.9"),
        ("0.9\nhalf\n0.1\n", "row 2 (line 2): 'half' is not a number"),
        ("0.9\n", "at least 2 decision points"),
    ],
)
def test_a_bad_list_of_points(fheval: Session, tmp_path: Path, points: str, reason: str) -> None:
    file = tmp_path / "points.txt"
    file.write_text(points)
    message = refused(fheval, tmp_path, "evaluate", "--party", "a.csv", "--grid", file)
    assert message.startswith(str(file))
    assert reason in message
