"""What intervals cost: one round with 200 resamples of two models and three groups, all roles together."""

from __future__ import annotations

from time import process_time
from typing import Literal

import numpy as np

from fheval import evaluate
from fheval.counting import Table
from fheval.engines import Engine
from fheval.secrets import SEED_BYTES, Secret, bits, derive, symmetric_floats

PARTIES = 10
ROWS = 10_000
GROUPS = ("a", "b", "c")
MODELS = ("first", "second")


def resampled_round(
    engine: Engine, precision: float | Literal["exact"] | None = None, *, rows: int = ROWS, replicates: int = 200
) -> tuple[float, float]:
    """Processor seconds of all roles, counting included, and what the leader uploads, in megabytes without keys.

    >>> from fheval_lab.clear import ClearEngine
    >>> seconds, megabytes = resampled_round(ClearEngine(), rows=100, replicates=40)
    >>> seconds > 0, megabytes > 0
    (True, True)
    """
    tables = [_table(number, rows) for number in range(PARTIES)]
    start = process_time()
    result = evaluate(
        tables,
        decision_points=100,
        group_column="group",
        minimum_group=1,
        ci=0.95,
        replicates=replicates,
        precision=precision,
        engine=engine,
    )
    return process_time() - start, result.bytes["leader_upload"] / 1e6


def _table(number: int, rows: int) -> Table:
    stream = derive(Secret(bytes(SEED_BYTES)), "bench/resamples", number)
    labels = bits(stream, rows).astype(np.int64)
    scores = {model: 0.2 * labels + 0.4 * (1.0 + symmetric_floats(stream, 1.0, rows)) for model in MODELS}
    return Table.of(labels, scores, groups=np.array(GROUPS)[np.arange(rows) % len(GROUPS)])
