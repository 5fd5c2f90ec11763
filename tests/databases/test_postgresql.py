"""A real PostgreSQL with five million rows: every metric is the file's, and what goes wrong is one sentence.

`make databases` runs it; where PostgreSQL is not installed, it is skipped by name.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fheval
from databases import postgresql
from databases.postgresql import PASSWORD, READER, Server
from fheval import Counts, FhevalError, Grid, InputError, TransportError
from fheval.counting import TableColumns, TableFile
from fheval.databases import TableQuery, read_query
from fheval.evaluation.run import count_share
from fheval.party import data_set
from fheval.party.columns import StudyColumns
from fheval.party.data_set import DataSet
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval_lab.clear import ClearEngine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(postgresql.programs() is None, reason="PostgreSQL is not installed"),
]
pytest.importorskip("adbc_driver_postgresql")

ROWS = 5_000_000
COLUMNS = TableColumns(label="died", models=("risk",))
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # A socket's path has room for a hundred characters, and pytest's own folders may take more.
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as folder, postgresql.server(Path(folder)) as running:
        yield running


@pytest.fixture(scope="module")
def parquet(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows as a file; the same rows are in the table `scores`."""
    rng = np.random.default_rng(17)
    labels = (rng.random(ROWS) < 0.2).astype(np.int16)
    scores = 1 / (1 + np.exp(-rng.normal(labels - 1.5, 1.0)))
    # Decision points themselves, and the floats beside them.
    points = Grid.wide(1000).points
    beside = np.concatenate([points, np.nextafter(points, 0), np.minimum(np.nextafter(points, 2), 1)])
    scores[: len(beside)] = beside
    path = tmp_path_factory.mktemp("rows") / "scores.parquet"
    pl.DataFrame({"died": labels, "risk": scores}).write_parquet(path)
    server.run("CREATE SEQUENCE numbers; GRANT UPDATE ON SEQUENCE numbers TO " + READER)
    server.run("CREATE UNLOGGED TABLE scores (died smallint NOT NULL, risk double precision NOT NULL)")
    _load(server, path)
    server.run("VACUUM ANALYZE scores")
    return path


def _load(server: Server, path: Path) -> None:
    with _owner(server) as connection:
        with connection.cursor() as cursor:
            for rows in pl.read_parquet(path).iter_slices(500_000):
                cursor.adbc_ingest("scores", rows.to_arrow(), mode="append")
        connection.commit()


def _owner(server: Server) -> Any:
    from urllib.parse import quote

    from adbc_driver_postgresql import dbapi

    return dbapi.connect(f"{server.address(postgresql.OWNER)}&password={quote(PASSWORD, safe='')}")


def query_file(folder: Path, server: Server, query: str, *, password: str = PASSWORD, user: str = READER) -> Path:
    secret = folder / "password"
    secret.write_text(password)
    secret.chmod(0o600)
    fields = {"name": "icu", "database": server.address(user), "query": query, "password_file": "password"}
    (folder / "icu.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items()))
    return folder / "icu.toml"


def table(path: Path, columns: TableColumns = COLUMNS) -> TableQuery:
    found = read_query(path).table(columns)
    assert isinstance(found, TableQuery)
    return found


@pytest.mark.parametrize("grid", [Grid.wide(1000), Grid.even(1000), Grid.explicit([0.9, 0.5, 0.1])], ids=repr)
def test_the_database_counts_what_we_count(tmp_path: Path, server: Server, parquet: Path, grid: Grid) -> None:
    query = table(query_file(tmp_path, server, "SELECT died, risk FROM scores"))
    assert query.counts_in_place
    assert query.count(grid) == TableFile(parquet, COLUMNS).count(grid)


def test_every_metric_of_a_study_is_that_of_the_file(tmp_path: Path, server: Server, parquet: Path) -> None:
    study = Study.of(
        metrics=("auc", "f1@0.3", "brier", "log-loss", "recall@0.2", "o/e"),
        models=("risk",),
        decision_points=1000,
        max_samples=4 * ROWS,
    )
    query = table(query_file(tmp_path, server, "SELECT * FROM scores"))
    streamed, file = (
        count_share(study, source, "icu", SystemRandomness()) for source in (query, TableFile(parquet, COLUMNS))
    )
    assert streamed.rows == file.rows == ROWS
    assert streamed.contribution.table.tolist() == file.contribution.table.tolist()


def test_counting_in_place_is_faster(tmp_path: Path, server: Server, parquet: Path) -> None:
    """Both are timed by turns, and the best of each is compared: what else the machine does slows both."""
    query, grid = table(query_file(tmp_path, server, "SELECT died, risk FROM scores")), Grid.wide(1000)
    times: dict[str, list[float]] = {"in place": [], "streamed": []}
    for _ in range(4):
        for name, count in (("in place", query.count), ("streamed", super(TableQuery, query).count)):
            started = time.perf_counter()
            assert count(grid).samples == ROWS
            times[name].append(time.perf_counter() - started)
    best = {name: min(found) for name, found in times.items()}
    ratio = best["streamed"] / best["in place"]
    print(f"\nin place {best['in place']:.2f} s, streamed {best['streamed']:.2f} s: {ratio:.1f} times")
    assert ratio > 1, times


# What `resource` calls the peak is that of the process that started this one, where it is larger.
_MEASURED = """
import sys
from pathlib import Path
from fheval.counting import Grid, TableColumns
from fheval.databases import TableQuery, read_query
from fheval.evaluation.run import count_share
from fheval.secrets import SystemRandomness
from fheval.study import Study
query = read_query(sys.argv[1]).table(TableColumns(label="died", models=("risk",)))
study = Study.of(metrics=("auc", "brier"), models=("risk",), max_samples=10_000_000)
count_share(study, query, "icu", SystemRandomness())
super(TableQuery, query).count(Grid.wide(1000))
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


def test_rows_stream_in_bounded_memory(tmp_path: Path, server: Server, parquet: Path) -> None:
    path = query_file(tmp_path, server, "SELECT died, risk FROM scores")
    command = [sys.executable, "-c", _MEASURED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    peak = int(done.stdout) * 1024
    print(f"\npeak memory {peak / MEGABYTE:.0f} MB")
    assert peak < 500 * MEGABYTE


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 AS died, 'high' AS risk", "icu, column 'risk': holds values of type text, not numbers"),
        ("SELECT true AS died, now() AS risk", "icu, column 'risk': holds values of type timestamptz, not numbers"),
        ("SELECT 1 AS died, NULL::float8 AS risk", "icu: a row has no score"),
        ("SELECT NULL::int AS died, 0.5::float8 AS risk", "icu: a row has a label that is missing, or neither 0 nor 1"),
        ("SELECT 2 AS died, 0.5::float8 AS risk", "a label that is missing, or neither 0 nor 1"),
        ("SELECT 1 AS died, 'NaN'::float8 AS risk", r"a score that is not in \[0, 1\]"),
        ("SELECT 1 AS died, 'Infinity'::float8 AS risk", r"a score that is not in \[0, 1\]"),
        ("SELECT 1 AS died, 1.5 AS risk", r"a score that is not in \[0, 1\]"),
        ("SELECT 1 AS died, 0.5 AS risk WHERE false", "there are no rows"),
        ("SELECT 1 AS died", "there is no score column 'risk'"),
        ("SELECT * FROM nowhere", r"icu: the database refused \(relation \"nowhere\" does not exist\)"),
        ("SELECT died, 1 / (died - died) AS risk FROM scores", r"icu: the database refused \(division by zero\)"),
        ("WITH gone AS (DELETE FROM scores RETURNING *) SELECT * FROM gone", "icu: the database refused"),
        ("DROP TABLE scores", "icu: the database refused"),
        ("SELECT 1 AS died, setval('numbers', 7) AS risk", r"cannot execute setval\(\) in a read-only transaction"),
    ],
)
@pytest.mark.parametrize("way", ["in place", "streamed"])
def test_what_goes_wrong_is_one_sentence(
    tmp_path: Path, server: Server, parquet: Path, query: str, message: str, way: str
) -> None:
    found = table(query_file(tmp_path, server, query))
    count = found.count if way == "in place" else super(TableQuery, found).count
    with pytest.raises(InputError) as caught:
        count(Grid.even(11))
    said = str(caught.value)
    assert "\n" not in said
    assert PASSWORD not in said
    if way == "in place":
        caught.match(message)


def test_writing_is_refused_by_the_connection_itself(tmp_path: Path, server: Server) -> None:
    """Even its owner could not change the table through such a connection."""
    server.run(
        "CREATE TABLE kept (died int, risk float8); INSERT INTO kept VALUES (1, 0.5);"
        "CREATE FUNCTION spoil() RETURNS float8 LANGUAGE sql VOLATILE AS 'DELETE FROM kept RETURNING 0.5::float8';"
    )
    path = query_file(tmp_path, server, "SELECT 1 AS died, spoil() AS risk", user=postgresql.OWNER)
    with pytest.raises(InputError, match="cannot execute DELETE in a read-only transaction"):
        table(path).count(Grid.even(11))


def test_a_wrong_password_is_one_sentence(tmp_path: Path, server: Server) -> None:
    path = query_file(tmp_path, server, "SELECT 1 AS died, 0.5 AS risk", password="not the one")
    with pytest.raises(InputError, match=r"icu: the database refused \(password authentication failed") as caught:
        table(path).count(Grid.even(11))
    assert "not the one" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", ["in place", "streamed"])
def test_a_connection_that_breaks_off_is_no_end_of_the_rows(
    tmp_path: Path, server: Server, parquet: Path, way: str
) -> None:
    """The server ends the session in the middle: nobody may take what came until then for all there is."""
    found = table(query_file(tmp_path, server, "SELECT died, risk FROM scores"))
    count = found.count if way == "in place" else super(TableQuery, found).count
    ended = threading.Event()

    def end_it() -> None:
        with closing(_owner(server)) as connection, closing(connection.cursor()) as cursor:
            while not ended.is_set():
                cursor.execute(
                    f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{READER}' "
                    "AND backend_type = 'client backend' AND now() - query_start > interval '0.3 s'"
                )
                cursor.fetchall()
                connection.rollback()
                time.sleep(0.02)

    killer = threading.Thread(target=end_it, daemon=True)
    killer.start()
    try:
        with pytest.raises(TransportError, match="icu: the connection to the database broke off") as caught:
            count(Grid.wide(1000))
    finally:
        ended.set()
        killer.join(30)
    assert "\n" not in str(caught.value)


def test_types_of_scores_and_labels(tmp_path: Path, server: Server) -> None:
    """Booleans, decimals and single precision are counted as the floats that they are nearest to or equal."""
    server.run(
        "CREATE TABLE kinds AS SELECT (i % 3 = 0) AS flag, (i % 3 = 0)::int::numeric AS exact, "
        "(i / 1000.0)::numeric(6, 4) AS decimal, (i / 1000.0)::float4 AS single, "
        "CASE WHEN i % 3 = 0 THEN 'yes' ELSE 'no' END AS word FROM generate_series(0, 1000) i"
    )
    grid, numbers = Grid.even(101), np.arange(1001)
    labels = numbers % 3 == 0
    scores = {"decimal": numbers / 1000, "single": (numbers / 1000).astype(np.float32).astype(np.float64)}
    path = query_file(tmp_path, server, "SELECT * FROM kinds")
    for score, values in scores.items():
        expected = Counts.from_scores(labels, values, grid)
        for label, positive in (("flag", None), ("exact", None), ("word", "yes")):
            found = table(path, TableColumns(label=label, models=(score,), positive=positive))
            assert found.count(grid) == expected
            assert super(TableQuery, found).count(grid) == expected


def test_a_vault_sends_nothing_when_its_database_fails(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting for a study either gives the integers of all rows or raises; there is nothing in between to send."""
    study = Study.of(metrics=("auc", "brier"), decision_points=101)
    columns = StudyColumns(label="died", models={"": "risk"})
    made: list[Any] = []

    def noted(*arguments: Any, **others: Any) -> Any:
        made.append(count_share(*arguments, **others))
        return made[-1]

    monkeypatch.setattr(data_set, "count_share", noted)
    for query in ("SELECT 1 AS died, NULL::float8 AS risk", "SELECT 1 AS died, 'x' AS risk", "SELECT * FROM nowhere"):
        with pytest.raises(FhevalError):
            DataSet(query_file(tmp_path, server, query), columns).count(study, SystemRandomness())
    assert not made
    DataSet(query_file(tmp_path, server, "SELECT 1 AS died, 0.5 AS risk"), columns).count(study, SystemRandomness())
    assert len(made) == 1


def test_an_evaluation_over_a_query_and_files(tmp_path: Path, server: Server, parquet: Path) -> None:
    query = read_query(query_file(tmp_path, server, "SELECT died, risk FROM scores"))
    asked: dict[str, Any] = {"label": "died", "score": "risk", "precision": "exact", "engine": ClearEngine()}
    result = fheval.evaluate({"north": query, "south": parquet, "east": parquet}, **asked, max_samples=4 * ROWS)
    files = fheval.evaluate([parquet] * 3, **asked, max_samples=4 * ROWS)
    assert result.auc == files.auc
