"""How the exact AUC by multi-party computation grows with samples and parties, at sizes that take seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from fheval_lab.baselines.mpc import mpc_auc
from fheval_lab.reproduce.cells import Cell
from fheval_lab.reproduce.data_sets import DataSet
from fheval_lab.reproduce.rows import Row

# Parties, and samples of all of them together.
RUNS = ((3, 100), (8, 100), (15, 100), (8, 200), (8, 400), (8, 1000))
SAMPLES_NEEDED = max(samples for _, samples in RUNS)

_SECONDS_TO_START = 3.0
_SECONDS_PER_SAMPLE = 0.03


def cells(data: DataSet) -> Iterator[Cell]:
    """One for each run."""
    for parties, samples in RUNS:
        yield Cell(
            name=f"mpc growth M={parties} samples={samples}",
            inputs={"data": data.digest()},
            weight=_SECONDS_TO_START + samples * _SECONDS_PER_SAMPLE,
            work=partial(grown, data, parties, samples),
        )


def grown(data: DataSet, parties: int, samples: int) -> Sequence[Row]:
    """Seconds, and megabytes between the processes."""
    # A share of a random split is a random sample of the data.
    done = mpc_auc(data.shares(parties * (data.size // samples))[:parties])
    row = Row(data=data.name, size=done.samples, parties=parties, column="mpc", value=done.computing_seconds, unit="s")
    return [row, replace(row, column="mpc traffic", value=done.bytes_sent / 1e6, unit="MB")]
