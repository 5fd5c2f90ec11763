"""How fast counting is: beside sorting on the same arrays, and beside reading the same file; each pair in one run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from fheval.counting import Counts, Grid, count_file
from fheval.counting.readers import read_chunks
from fheval.secrets import SEED_BYTES, Secret, bits, derive, symmetric_floats

# Counting takes a fraction of a second, so that one hiccup of the machine would count; the best of a few does not.
REPEATS = 5

# Rows of the file that are alike, since random bits for all of them would take longer than everything else.
REPEATED_ROWS = 10**6


def counting_speedups(samples: int, grids: Iterable[Grid]) -> list[dict[str, float]]:
    """Time `Counts.from_scores` and its AUC at each grid against `roc_auc_score`, in processor time, one thread each.

    The counting time is the best of five; scikit-learn runs once, after a run on few samples that pays for its
    imports.

    >>> (measured,) = counting_speedups(samples=10_000, grids=[Grid.wide(100)])
    >>> measured["speedup"] > 0, abs(measured["difference"]) < 1e-3
    (True, True)
    """
    from sklearn.metrics import roc_auc_score

    labels, scores = _rows(samples)
    roc_auc_score(labels[:1000], scores[:1000])
    sorting_seconds, exact = _timed(lambda: float(roc_auc_score(labels, scores)), process_time)
    measured = []
    for grid in grids:
        count = partial(_auc, labels, scores, grid)
        seconds, binned = min(_timed(count, process_time) for _ in range(REPEATS))
        measured.append(
            {
                "counting_seconds": seconds,
                "sklearn_seconds": sorting_seconds,
                "speedup": sorting_seconds / seconds,
                "difference": binned - exact,
            }
        )
    return measured


def _auc(labels: NDArray[np.int64], scores: NDArray[np.float64], grid: Grid) -> float:
    return Counts.from_scores(labels, scores, grid).auc()


def scan_ratios(rows: int = 10**8, repeats: int = 3) -> list[float]:
    """Time `count_file` on a Parquet file against going through it with the same reader and counting nothing.

    By the clock, since the reader has threads of its own. The file is in the system's folder for temporary files, and
    read once before anything is timed.

    >>> [ratio > 0 for ratio in scan_ratios(rows=10_000, repeats=1)]
    [True]
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        _write(path, rows)
        _scan(path)
        pairs = [
            (_timed(lambda: count_file(path).samples, perf_counter)[0], _timed(lambda: _scan(path), perf_counter)[0])
            for _ in range(repeats)
        ]
    return [counting / reading for counting, reading in pairs]


def _rows(samples: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    stream = derive(Secret(bytes(SEED_BYTES)), "bench/counting")
    labels = bits(stream, samples).astype(np.int64)
    return labels, 0.2 * labels + 0.4 * (1.0 + symmetric_floats(stream, 1.0, samples))


def _write(path: Path, rows: int) -> None:
    import polars as pl

    labels, scores = _rows(min(rows, REPEATED_ROWS))
    part = pl.DataFrame({"label": labels.astype(np.int8), "score": scores})
    pl.concat([part] * -(-rows // len(part))).head(rows).write_parquet(path, row_group_size=REPEATED_ROWS)


def _scan(path: Path) -> int:
    deque(read_chunks(path), maxlen=0)
    return 0


def _timed(work: Callable[[], float], clock: Callable[[], float]) -> tuple[float, float]:
    start = clock()
    result = work()
    return clock() - start, result
