"""Counting on Ray Data, for real, and through Spark's Arrow interface."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fheval import Counts, Grid, InputError
from fheval.databases.clusters import count_ray, count_spark

pyarrow = pytest.importorskip("pyarrow")

GRID = Grid.wide(1000)


def rows(number: int, seed: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, number)
    return labels, np.clip(rng.normal(0.4 + 0.2 * labels, 0.2), 0, 1)


class SparkLike:
    """As much of a Spark frame as counting uses: `select`, `mapInArrow` over partitions of batches, `collect`."""

    def __init__(self, partitions: list[Any], function: Any = None) -> None:
        self._partitions = partitions
        self._function = function

    def select(self, *names: str) -> SparkLike:
        return SparkLike([table.select(list(names)) for table in self._partitions])

    def mapInArrow(self, function: Any, schema: str) -> SparkLike:  # noqa: N802 (Spark's own name)
        assert schema == "tp array<bigint>, fp array<bigint>, problem string"
        return SparkLike(self._partitions, function)

    def collect(self) -> list[Any]:
        class Row(dict[str, Any]):
            def asDict(self) -> dict[str, Any]:  # noqa: N802
                return dict(self)

        batches = [
            batch for table in self._partitions for batch in self._function(iter(table.to_batches(max_chunksize=100)))
        ]
        return [Row(row) for batch in batches for row in batch.to_pylist()]


def test_spark_counts_what_we_count() -> None:
    labels, scores = rows(1000)
    whole = pyarrow.table({"id": np.arange(1000), "y": labels, "s": scores})
    frame = SparkLike([whole.slice(0, 300), whole.slice(300, 0), whole.slice(300)])
    assert count_spark(frame, GRID, label="y", score="s") == Counts.from_scores(labels, scores, GRID)
    words = whole.set_column(1, "y", [np.where(labels == 1, "yes", "no")])
    counted = count_spark(SparkLike([words]), GRID, label="y", score="s", positive="yes")
    assert counted == Counts.from_scores(labels, scores, GRID)


def test_a_bad_value_in_any_batch_is_refused() -> None:
    bad = pyarrow.table({"y": [0, 1, 1], "s": [0.1, 0.2, None]})
    with pytest.raises(InputError, match="A batch, row 3, column 's': the value is missing"):
        count_spark(SparkLike([bad]), GRID, label="y", score="s")
    with pytest.raises(InputError, match="there are no rows"):
        count_spark(SparkLike([bad.slice(0, 0)]), GRID, label="y", score="s")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Spark on two threads of this machine; the extra does not bring it, whoever has it runs the test."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
    }
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patched:
        # Workers are processes, and need fheval as much as this one.
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_real_spark_counts_what_we_count(spark: Any, tmp_path: Path) -> None:
    labels, scores = rows(200_000)
    pl.DataFrame({"y": labels, "s": scores}).write_parquet(tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet")).repartition(4)
    assert count_spark(frame, GRID, label="y", score="s") == Counts.from_scores(labels, scores, GRID)
    with pytest.raises(InputError, match="neither 0 nor 1"):
        count_spark(spark.createDataFrame([(2, 0.5)], ["y", "s"]), GRID, label="y", score="s")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    found.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield found
    found.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_counts_what_we_count(ray: Any, tmp_path: Path) -> None:
    """A real run: a million rows in four files, counted by Ray's workers."""
    labels, scores = rows(1_000_000)
    for number, part in enumerate(np.array_split(np.arange(len(labels)), 4)):
        pl.DataFrame({"y": labels[part], "s": scores[part]}).write_parquet(tmp_path / f"{number}.parquet")
    dataset = ray.data.read_parquet(str(tmp_path))
    assert count_ray(dataset, GRID, label="y", score="s") == Counts.from_scores(labels, scores, GRID)
    with pytest.raises(InputError, match="neither 0 nor 1"):
        count_ray(ray.data.from_items([{"y": 2, "s": 0.5}]), GRID, label="y", score="s")
