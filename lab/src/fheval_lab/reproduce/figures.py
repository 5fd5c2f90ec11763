"""The two figures: what changes with decision points at 15 parties, and with parties at 100 decision points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median, pstdev

from fheval.counting import Grid
from fheval.engines import Engine
from fheval.evaluation import evaluate
from fheval.protocols import padded, padded_verified, paper_malicious, paper_semi_honest
from fheval_lab.baselines.mpc import mpc_auc
from fheval_lab.baselines.pooled import sklearn_auc
from fheval_lab.bench.aggregators import aggregator_work
from fheval_lab.reproduce import communication
from fheval_lab.reproduce.accuracy import PROTOCOLS
from fheval_lab.reproduce.cells import Cell, Plan, Skip, Workbench
from fheval_lab.reproduce.data_sets import TITLES, DataSet, data_sets, present_and_missing, without
from fheval_lab.reproduce.printed import ACCURACY, PARTIES, SECONDS_100_PARTIES
from fheval_lab.reproduce.rows import Row

# Four splits fit the 8,192 slots of the paper's ciphertexts up to 2,048 points.
POINTS = (10, 25, 50, 100, 250, 500, 1000, 2000)
CLOSENESS_POINTS = POINTS[:-1]
FIXED_POINTS = 100
PARTY_COUNTS = (5, 10, 15, 25, 50, 75, 100)
TRAFFIC_PARTIES = (5, 10, 15, 50, 100)

# MPC at sizes that take seconds: parties, and samples of all of them together.
MPC_RUNS = ((3, 100), (8, 100), (15, 100), (8, 200), (8, 400), (8, 1000))

# How often a time is measured.
REPEATS = 5

# Seconds of preparation, and of all rounds for each party, about.
_WEIGHTS = {
    padded.NAME: (0.5, 0.0),
    padded_verified.NAME: (0.5, 0.0),
    paper_semi_honest.NAME: (3.0, 0.08),
    paper_malicious.NAME: (5.0, 0.2),
}


def plan_points(setting: Workbench) -> Plan:
    """Time against decision points, and how near the AUC comes to the exact one."""
    engine = setting.engine
    cells = [_time_cell(engine, protocol, PARTIES, points) for protocol in PROTOCOLS for points in POINTS]
    skipped: list[Skip] = []
    for name in TITLES:
        present, missing = present_and_missing(setting.data, name)
        if present:
            cells += [_closeness_cell(present[-1], points, engine) for points in CLOSENESS_POINTS]
        else:
            skipped += missing
    return Plan(tuple(cells), tuple(skipped))


def plan_parties(setting: Workbench) -> Plan:
    """Time against parties, traffic, and how MPC grows."""
    cells: list[Cell] = []
    for protocol in PROTOCOLS:
        cells += [_time_cell(setting.engine, protocol, parties, FIXED_POINTS) for parties in PARTY_COUNTS]
        cells += [communication.cell(setting.engine, protocol, parties) for parties in TRAFFIC_PARTIES]
    needed = max(samples for _, samples in MPC_RUNS)
    source = next(each for each in data_sets(setting.data, "celeba") if each.size == needed)
    if source.missing:
        return Plan(tuple(cells), (without(source, "MPC against samples and parties"),))
    return Plan((*cells, *(_mpc_cell(source, parties, samples) for parties, samples in MPC_RUNS)))


def _time_cell(engine: Engine, protocol: str, parties: int, points: int) -> Cell:
    fixed, for_each = _WEIGHTS[protocol]
    work = partial(aggregator_time, engine, protocol, parties, points)
    name = f"time {protocol} M={parties} N={points} {engine.name}"
    return Cell(name=name, weight=fixed + for_each * parties, work=work)


def aggregator_time(engine: Engine, protocol: str, parties: int, points: int) -> Sequence[Row]:
    """The median of five rounds of the aggregator, after one that warms up."""
    once = aggregator_work(engine, protocol, parties, points)
    once()
    seconds = [once().seconds for _ in range(REPEATS)]
    row = Row(column=protocol, value=median(seconds), std=pstdev(seconds), unit="s", note=f"engine {engine.name}")
    row = replace(row, parties=parties, decision_points=points)
    if protocol in (paper_semi_honest.NAME, paper_malicious.NAME) and (parties, points) == (100, 100):
        return [replace(row, printed=SECONDS_100_PARTIES[communication.SETTINGS[protocol]])]
    return [row]


def _closeness_cell(data: DataSet, points: int, engine: Engine) -> Cell:
    name = f"accuracy {data.name} {data.size} N={points} {engine.name}"
    return Cell(name=name, inputs={"data": data.digest()}, weight=0.6, work=partial(closeness, data, points, engine))


def closeness(data: DataSet, points: int, engine: Engine) -> Sequence[Row]:
    """100·(1 − |AUC − exact|/exact), the AUC being a verified exact release of 15 parties."""
    exact = sklearn_auc([data.load()]).auc
    grid = Grid.even(points)
    found = evaluate(data.shares(PARTIES), protocol=padded_verified.NAME, decision_points=grid, engine=engine)
    value = 100 * (1 - abs(found.auc - exact) / exact)
    printed = ACCURACY if (data.name, data.size, points) == ("celeba", 100_000, 100) else None
    return [data.row("accuracy", value, decision_points=points, parties=PARTIES, printed=printed, unit="%")]


def _mpc_cell(data: DataSet, parties: int, samples: int) -> Cell:
    # Seconds to start, and for each sample.
    name, weight = f"mpc growth M={parties} samples={samples}", 3.0 + 0.03 * samples
    work = partial(mpc_growth, data, parties, samples)
    return Cell(name=name, inputs={"data": data.digest()}, weight=weight, work=work)


def mpc_growth(data: DataSet, parties: int, samples: int) -> Sequence[Row]:
    """Seconds of the exact AUC by multi-party computation, and megabytes between its processes."""
    # A share of a random split is a random sample of the data.
    done = mpc_auc(data.shares(parties * (data.size // samples))[:parties])
    row = Row(data=data.name, size=done.samples, parties=parties, column="mpc", value=done.computing_seconds, unit="s")
    return [row, replace(row, column="mpc traffic", value=done.bytes_sent / 1e6, unit="MB")]
