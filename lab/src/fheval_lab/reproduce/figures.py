"""The two figures: what changes with decision points at 15 parties, and with parties at 100 decision points."""

from __future__ import annotations

from fheval_lab.reproduce import closeness, communication, mpc_growth, timing
from fheval_lab.reproduce.accuracy import PROTOCOLS
from fheval_lab.reproduce.cells import Cell
from fheval_lab.reproduce.data_sets import Name, data_sets
from fheval_lab.reproduce.experiment import Plan, Setting, Skip, present_and_missing, without
from fheval_lab.reproduce.printed import PARTIES

# Four splits fit the 8,192 slots of the paper's ciphertexts up to 2,048 points.
POINTS = (10, 25, 50, 100, 250, 500, 1000, 2000)
FIXED_POINTS = 100
PARTY_COUNTS = (5, 10, 15, 25, 50, 75, 100)
TRAFFIC_PARTIES = (5, 10, 15, 50, 100)


def plan_points(setting: Setting) -> Plan:
    """Time against decision points, and how near the AUC comes to the exact one."""
    cells = [timing.cell(setting.engine, protocol, PARTIES, points) for protocol in PROTOCOLS for points in POINTS]
    skipped: list[Skip] = []
    names: tuple[Name, ...] = ("criteo", "celeba")
    for name in names:
        present, missing = present_and_missing(setting.data, name)
        if present:
            cells += closeness.cells(present[-1], setting.engine)
        else:
            skipped += missing
    return Plan(tuple(cells), tuple(skipped))


def plan_parties(setting: Setting) -> Plan:
    """Time against parties, traffic, and how MPC grows."""
    engine = setting.engine
    cells: list[Cell] = []
    for protocol in PROTOCOLS:
        cells += [timing.cell(engine, protocol, parties, FIXED_POINTS) for parties in PARTY_COUNTS]
        cells += [communication.cell(engine, protocol, parties) for parties in TRAFFIC_PARTIES]
    source = next(each for each in data_sets(setting.data, "celeba") if each.size == mpc_growth.SAMPLES_NEEDED)
    if source.missing:
        return Plan(tuple(cells), (without(source, "MPC against samples and parties"),))
    return Plan((*cells, *mpc_growth.cells(source)))
