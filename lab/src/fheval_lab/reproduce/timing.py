"""The aggregator's time for one round, measured several times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median, pstdev

from fheval.engines import Engine
from fheval.protocols import padded, padded_verified, paper_malicious, paper_semi_honest
from fheval_lab.bench.aggregators import aggregator_work
from fheval_lab.reproduce.cells import Cell
from fheval_lab.reproduce.communication import SETTINGS
from fheval_lab.reproduce.printed import SECONDS_100_PARTIES
from fheval_lab.reproduce.rows import Row

REPEATS = 5

# Seconds of preparation, and of all rounds for each party, about.
_WEIGHTS = {
    padded.NAME: (0.5, 0.0),
    padded_verified.NAME: (0.5, 0.0),
    paper_semi_honest.NAME: (3.0, 0.08),
    paper_malicious.NAME: (5.0, 0.2),
}
_PRINTED_AT = (100, 100)


def cell(engine: Engine, protocol: str, parties: int, points: int) -> Cell:
    """The time of one protocol at one number of parties and decision points."""
    fixed, for_each = _WEIGHTS[protocol]
    return Cell(
        name=f"time {protocol} M={parties} N={points} {engine.name}",
        weight=fixed + for_each * parties,
        work=partial(aggregator_time, engine, protocol, parties, points),
    )


def aggregator_time(engine: Engine, protocol: str, parties: int, points: int) -> Sequence[Row]:
    """The median of five rounds of the aggregator, after one that warms up."""
    once = aggregator_work(engine, protocol, parties, points)
    once()
    seconds = [once() for _ in range(REPEATS)]
    paper = protocol in (paper_semi_honest.NAME, paper_malicious.NAME)
    return [
        Row(
            decision_points=points,
            parties=parties,
            column=protocol,
            value=median(seconds),
            std=pstdev(seconds),
            printed=SECONDS_100_PARTIES[SETTINGS[protocol]] if paper and (parties, points) == _PRINTED_AT else None,
            unit="s",
            note=f"engine {engine.name}",
        )
    ]
