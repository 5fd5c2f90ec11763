"""Queries in SQLite and DuckDB, and the files that queries are written in."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import fheval
from fheval import ConfigError, Counts, Grid, InputError, TransportError
from fheval.counting import TableColumns, count_file
from fheval.databases import TableQuery, read_query
from fheval.databases.pushdown import Bins
from fheval.databases.query_file import PASSWORD_VARIABLE
from fheval.party.columns import StudyColumns
from fheval.party.data_set import DataSet
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval_lab.clear import ClearEngine

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("adbc_driver_sqlite")

GRIDS = [Grid.wide(1000), Grid.even(101), Grid.even(100), Grid.logit(33), Grid.explicit([0.9, 0.5, 0.1]), Grid.even(2)]


def delicate_scores(grid: Grid) -> NDArray[np.float64]:
    """Every decision point and the floats beside it, and others."""
    points = np.concatenate([grid.points, np.nextafter(grid.points, 2), np.nextafter(grid.points, -1)])
    scores = np.concatenate([points, np.random.default_rng(3).random(2000), [0.0, -0.0, 1.0, 5e-324, 1e-300]])
    return scores[(scores >= 0) & (scores <= 1)]


def written(folder: Path, labels: Any, scores: Any) -> Path:
    folder.mkdir(exist_ok=True)
    pl.DataFrame({"died": labels, "risk": scores}).write_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def query_file(folder: Path, database: str, query: str, **others: str) -> Path:
    fields = {"name": "icu", "database": database, "query": query, **others}
    path = folder / "icu.toml"
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items()))
    return path


def over_parquet(folder: Path, labels: Any, scores: Any) -> Path:
    rows = written(folder, labels, scores)
    return query_file(folder, "duckdb:", f"SELECT * FROM read_parquet('{rows}');")


def over_sqlite(folder: Path, labels: Any, scores: Any) -> Path:
    folder.mkdir(exist_ok=True)
    with sqlite3.connect(folder / "rows.db") as connection:
        connection.execute("CREATE TABLE rows (died INTEGER, risk REAL)")
        pairs = zip(np.asarray(labels).tolist(), np.asarray(scores).tolist(), strict=True)
        connection.executemany("INSERT INTO rows VALUES (?, ?)", pairs)
    connection.close()
    return query_file(folder, "sqlite:rows.db", "SELECT died, risk FROM rows")


COLUMNS = TableColumns(label="died", models=("risk",))


def table(path: Path, columns: TableColumns = COLUMNS) -> TableQuery:
    found = read_query(path).table(columns)
    assert isinstance(found, TableQuery)
    return found


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@pytest.mark.parametrize("over", [over_parquet, over_sqlite])
def test_counts_are_those_of_the_file(tmp_path: Path, over: Any, grid: Grid) -> None:
    scores = delicate_scores(grid)
    labels = np.random.default_rng(4).integers(0, 2, len(scores))
    query = table(over(tmp_path, labels, scores))
    expected = Counts.from_scores(labels, scores, grid)
    assert query.count(grid) == expected
    assert super(TableQuery, query).count(grid) == expected
    assert query.counts_in_place == (over is over_parquet)


def test_a_bin_off_by_one_float_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the cuts themselves the limits, a score equal to a decision point would be in the wrong bin."""
    grid = Grid.even(101)
    scores = delicate_scores(grid)
    labels = np.ones(len(scores), dtype=int)
    path = over_parquet(tmp_path, labels, scores)
    right = Bins.of(grid).limits
    naive = np.array([right[0], *grid.cuts[-2:0:-1], right[-1]])
    monkeypatch.setattr(Bins, "of", classmethod(lambda cls, grid: cls(grid, naive)))
    assert table(path).count(grid) != Counts.from_scores(labels, scores, grid)


@pytest.mark.parametrize("over", [over_parquet, over_sqlite])
def test_every_metric_of_a_study_is_that_of_the_file(tmp_path: Path, over: Any) -> None:
    rng = np.random.default_rng(1)
    queries, files = {}, {}
    for name in ("north", "south", "east"):
        labels = rng.integers(0, 2, 300)
        scores = np.clip(rng.normal(0.4 + 0.2 * labels, 0.2), 0, 1)
        queries[name] = read_query(over(tmp_path / name, labels, scores))
        files[name] = written(tmp_path / name, labels, scores)
    asked: dict[str, Any] = {"label": "died", "score": "risk", "metrics": ["auc", "f1@0.3", "brier", "log-loss"]}
    found, expected = (
        fheval.evaluate(parties, **asked, precision="exact", engine=ClearEngine()) for parties in (queries, files)
    )
    assert [row.value for row in found.results] == [row.value for row in expected.results]


def test_a_vault_counts_a_query_like_a_file(tmp_path: Path) -> None:
    labels, scores = np.arange(50) % 2, np.linspace(0, 1, 50)
    study = Study.of(metrics=("auc",), decision_points=101)
    columns = StudyColumns(label="died", models={"": "risk"})
    query = DataSet(over_parquet(tmp_path, labels, scores), columns)
    file = DataSet(tmp_path / "rows.parquet", columns)
    shares = [each.count(study, SystemRandomness()) for each in (query, file)]
    assert shares[0].rows == shares[1].rows == 50
    assert shares[0].contribution.table.tolist() == shares[1].contribution.table.tolist()
    before = query.version()
    os.utime(query.path, ns=(1, 1))
    assert query.version() != before, "whoever touches the file has the query asked again"


def test_the_command_takes_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fheval.cli import main

    labels, scores = np.arange(50) % 2, np.linspace(0, 1, 50)
    words = [word for name in "abc" for word in ("--party", str(over_parquet(tmp_path / name, labels, scores)))]
    assert main(["evaluate", *words, "--label-column", "died", "--score-column", "risk", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["parties"] == 3


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([1, 0, None], [0.1, 0.2, 0.3], "icu: a row has a label that is missing, or neither 0 nor 1"),
        ([1, 0, 2], [0.1, 0.2, 0.3], "a label that is missing, or neither 0 nor 1"),
        ([1.0, 0.0, 0.5], [0.1, 0.2, 0.3], "a label that is missing, or neither 0 nor 1"),
        ([1, 0, 0], [0.1, None, None], r"icu: a row has no score \(2 of 3 rows\)"),
        ([1, 0, 0], [0.1, 1.5, 0.2], r"a score that is not in \[0, 1\]"),
        ([1, 0, 0], [0.1, float("nan"), 0.2], r"a score that is not in \[0, 1\]"),
        ([1, 0, 0], [0.1, -1e-300, 0.2], r"a score that is not in \[0, 1\]"),
        ([1, 0, 0], ["a", "b", "c"], "icu, column 'risk': holds values of type string, not numbers"),
        ([], [], "there are no rows"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_a_sentence(
    tmp_path: Path, labels: Any, scores: Any, message: str
) -> None:
    path = over_parquet(tmp_path, pl.Series(labels, strict=False), pl.Series(scores, strict=False))
    if not labels:
        path = query_file(tmp_path, "duckdb:", "SELECT 1 AS died, 0.5 AS risk WHERE false")
    with pytest.raises(InputError, match=message) as caught:
        table(path).count(Grid.even(11))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError):
        super(TableQuery, table(path)).count(Grid.even(11))


def test_a_missing_value_in_sqlite_is_refused(tmp_path: Path) -> None:
    path = over_sqlite(tmp_path, [1, 0], [0.5, None])
    with pytest.raises(InputError, match=r"icu, row 2, column 'risk': the value is missing\. Nothing was sent"):
        table(path).count(Grid.even(11))


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM rows",
        "SELECT * FROM rows) AS x UNION DELETE FROM rows",
        "WITH gone AS (DELETE FROM rows RETURNING *) SELECT * FROM gone",
        "no such thing",
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_nothing_but_a_select_is_run(tmp_path: Path, kind: str, query: str) -> None:
    over_sqlite(tmp_path, [1, 0], [0.5, 0.25])
    with duckdb.connect(tmp_path / "rows.duckdb") as connection:
        connection.execute("CREATE TABLE rows AS SELECT 1 AS died, 0.5::DOUBLE AS risk")
    file = tmp_path / ("rows.db" if kind == "sqlite" else "rows.duckdb")
    before = file.read_bytes()
    with pytest.raises(InputError, match="icu: the database refused") as caught:
        table(query_file(tmp_path, f"{kind}:{file}", query)).count(Grid.even(11))
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == before


def test_a_query_is_one_statement(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a semicolon in it"):
        read_query(query_file(tmp_path, "duckdb:", "SELECT 1; DELETE FROM rows"))


def test_words_and_percentages_are_read_rather_than_counted_there(tmp_path: Path) -> None:
    path = over_parquet(tmp_path, ["yes", "no", "yes"], [80.0, 20.0, 60.0])
    columns = TableColumns(label="died", models=("risk",), positive="yes", percent=True)
    query = table(path, columns)
    assert not query.counts_in_place
    assert query.count(Grid.even(11)) == Counts.from_scores([1, 0, 1], [0.8, 0.2, 0.6], Grid.even(11))


def test_it_is_said_who_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="fheval.databases"):
        table(over_parquet(tmp_path, [1, 0], [0.5, 0.25])).count(Grid.even(11))
        table(over_sqlite(tmp_path, [1, 0], [0.5, 0.25])).count(Grid.even(11))
    assert "counts by itself, in one GROUP BY" in caplog.messages[0]
    assert "are read from the database and counted here" in caplog.messages[1]


@pytest.mark.parametrize(
    ("database", "message"),
    [
        ("mysql://x/y", "the database must be one of postgresql:…, sqlite:…, duckdb:…"),
        ("postgresql://reader:hunter2@host/db", "there is a password in the address"),
        ("postgresql://reader@host/db?password=hunter2", "there is a password in the address"),
        ("postgresql://[::1/db", "Correct the address"),
    ],
)
def test_addresses_that_cannot_be_are_refused(tmp_path: Path, database: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_query(query_file(tmp_path, database, "SELECT 1"))
    assert "hunter2" not in str(caught.value)


def test_a_password_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    secret.chmod(0o644)
    query = read_query(query_file(tmp_path, "postgresql://reader@host/db", "SELECT 1", password_file="password"))
    with pytest.raises(ConfigError, match="0600"):
        query.table(COLUMNS)
    secret.chmod(0o600)
    found = query.table(COLUMNS)
    assert isinstance(found, TableQuery)
    assert found.password is not None
    assert found.password.reveal() == "hunter2"
    assert "hunter2" not in repr(found) + repr(query)


def test_a_password_may_be_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "hunter2")
    found = table(query_file(tmp_path, "postgresql://reader@host/db", "SELECT 1"))
    assert found.password is not None
    assert found.password.reveal() == "hunter2"


@pytest.mark.parametrize(
    "text", ["", "name = 1", 'name = "a"\ndatabase = "duckdb:"\nquery = " "', 'name = "a"\nother = 1', "\xff\xfe"]
)
def test_files_that_are_no_queries_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "icu.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"icu\.toml: "):
        read_query(path)
    with pytest.raises(ConfigError, match="cannot be opened"):
        read_query(tmp_path / "none.toml")


def test_databases_that_are_not_there_are_refused(tmp_path: Path) -> None:
    for kind in ("sqlite", "duckdb"):
        with pytest.raises(InputError, match="there is no database"):
            table(query_file(tmp_path, f"{kind}:none.db", "SELECT 1")).count(Grid.even(11))
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("place", ["nowhere.invalid/db", "127.0.0.1:1/db", "/db?host={folder}"])
def test_no_server_is_one_sentence(tmp_path: Path, place: str) -> None:
    pytest.importorskip("adbc_driver_postgresql")
    secret = tmp_path / "password"
    secret.write_text("hunter2")
    secret.chmod(0o600)
    database = f"postgresql://reader@{place.format(folder=tmp_path)}"
    query = table(query_file(tmp_path, database, "SELECT 1 AS died, 0.5 AS risk", password_file="password"))
    with pytest.raises(
        TransportError, match=r"icu: the database cannot be reached \(.+\)\. Nothing was sent"
    ) as caught:
        query.count(Grid.even(11))
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_files_in_a_query_are_looked_for_beside_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service starts elsewhere than the operator wrote the query, and another file of that name may lie there."""
    labels, scores = np.array([0, 1, 1]), np.array([0.1, 0.4, 0.9])
    (tmp_path / "lake").mkdir()
    rows = written(tmp_path / "lake", labels, scores)
    path = query_file(tmp_path, "duckdb:", f"SELECT * FROM read_parquet('lake/*{rows.suffix}')")
    other = tmp_path / "elsewhere"
    (other / "lake").mkdir(parents=True)
    written(other / "lake", 1 - labels, scores)
    monkeypatch.chdir(other)
    assert table(path).count(Grid.even(11)) == Counts.from_scores(labels, scores, Grid.even(11))


def test_one_file_counted_two_ways(tmp_path: Path) -> None:
    labels, scores = np.arange(500) % 2, np.random.default_rng(2).random(500)
    query, file = over_parquet(tmp_path, labels, scores), tmp_path / "rows.parquet"
    assert table(query).count(Grid.wide(1000)) == count_file(file, label_column="died", score_column="risk")


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "omop" / "make.py"


def test_the_omop_example_runs_as_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import runpy
    import shlex

    from fheval.cli import main

    namespace = runpy.run_path(str(EXAMPLE))
    made = [namespace["make"](tmp_path, name, seed) for seed, name in enumerate(namespace["NAMES"])]
    command = "--label-column died --score-column risk --group-column sex --json -"
    words = [word for path in made for word in ("--party", str(path))]
    assert main(["evaluate", *words, *shlex.split(command)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["group"] for row in found["results"]} == {None, "sex=F", "sex=M"}
    assert 0.7 < found["auc"] < 0.95
