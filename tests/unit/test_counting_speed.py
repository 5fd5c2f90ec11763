"""What counting promises on large data: speed and bounded memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from fheval.counting import Counts, Grid
from fheval_lab.bench.counting import counting_speedups, scan_ratios

# VmHWM and not ru_maxrss: the latter starts at the peak of the process that started this one.
PEAK = """
import sys
from pathlib import Path
from fheval.counting import count_file
counts = count_file(sys.argv[1], 1000)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(counts.samples, status["VmHWM"].split()[0])
"""


@pytest.mark.slow
def test_ten_million_scores_count_a_hundred_times_faster_than_they_sort() -> None:
    times = {Grid.wide(): 80, Grid.even(1000): 100}
    for least, measured in zip(times.values(), counting_speedups(10**7, times), strict=True):
        assert measured["speedup"] >= least
        assert abs(measured["difference"]) < 1e-4


@pytest.mark.slow
def test_a_parquet_file_counts_at_the_speed_of_reading_it() -> None:
    assert min(scan_ratios(rows=10**8)) < 1.5


def test_counting_a_million_scores_takes_a_fraction_of_the_work_of_sorting_them() -> None:
    """In processor time, which others on the machine disturb little; the ratio was measured as 50 to 60."""
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, 10**6), rng.random(10**6)
    counting = min(
        processor_seconds(lambda: Counts.from_scores(labels, scores, Grid.even(1000)).auc()) for _ in range(3)
    )
    assert processor_seconds(lambda: roc_auc_score(labels, scores)) >= 8 * counting


def processor_seconds(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start


def write_rows(path: Path, rows: int) -> None:
    row = pl.int_range(rows, dtype=pl.Int64, eager=False)
    label, score = (row % 7 == 0).cast(pl.Int8), (row * 7919 % 1_000_003) / 1_000_003
    pl.LazyFrame().select(label=label, score=score).sink_parquet(path, row_group_size=1_000_000)


def peak_bytes(path: Path, rows: int) -> int:
    counted, kibibytes = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True
    ).stdout.split()
    assert int(counted) == rows
    return int(kibibytes) * 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_a_parquet_file_of_a_hundred_million_rows_counts_in_less_than_a_gigabyte(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    write_rows(path, 10**8)
    assert peak_bytes(path, 10**8) < 10**9
    path.unlink()
