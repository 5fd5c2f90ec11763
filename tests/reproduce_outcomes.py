"""Made-up outcomes of every experiment, with the rows that the real ones have."""

from __future__ import annotations

from dataclasses import replace

from fheval_lab.reproduce import divisions, figures, security
from fheval_lab.reproduce.accuracy import PROTOCOLS, ROUNDED
from fheval_lab.reproduce.cells import Skip
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Reproduction

HOSTILE = '<script>alert("machine")</script>'
MACHINE = {"processor": "Abacus, 2 cores", "system": HOSTILE, "threads": "1 (OMP_NUM_THREADS)"}


def every_outcome() -> list[Reproduction]:
    """One for each experiment, in order."""
    made = {
        "table1": _table("criteo", 1000, 0.752500),
        "table2": _table("celeba", 100, 0.891600),
        "noise": [*_noise("criteo", 1000), *_noise("celeba", 100)],
        "table3": _traffic((5, 10, 15)),
        "figure-points": _over_points(),
        "figure-parties": _over_parties(),
        "security": list(security.bounds()),
        "division": _division(),
    }
    left_out = (Skip("Criteo, 458,407 samples", "labels_criteo.txt not found in data. Put it there and run again."),)
    return [
        Reproduction(name, tuple(rows), left_out if name == "table1" else (), (MACHINE,)) for name, rows in made.items()
    ]


def _table(data: str, size: int, exact: float) -> list[Row]:
    first = Row(data=data, size=size, column="scikit-learn", value=exact, printed=exact)
    rows = [first, replace(first, column="mpc"), replace(first, column="tensorflow", decision_points=1000)]
    for column in (*PROTOCOLS, ROUNDED):
        rows.append(
            replace(first, decision_points=25, column=column, value=0.893402, printed=0.8934, note="engine clear")
        )
    for epsilon in (1, 8):
        for column in ("dpauc", "dpauc-sorted"):
            name = f"{column}-epsilon-{epsilon}"
            noisy = replace(first, decision_points=25, column=name, value=-6.2, std=36.1)
            rows.append(replace(noisy, printed=63.00177, printed_std=723.612))
    return rows


def _noise(data: str, size: int) -> list[Row]:
    rows = []
    for epsilon in (1, 8):
        first = Row(data=data, size=size, column=f"noisy-curve-epsilon-{epsilon}", value=0.75, std=0.01)
        rows.append(replace(first, decision_points=41, printed=63.00177, printed_std=723.612, parties=15))
        for name, error in (("noisy-curve", 0.012), ("curator", 0.010), ("dpauc", 0.25)):
            rows.append(replace(first, column=f"{name}-error-epsilon-{epsilon}", value=error, std=error / 40))
    return rows


def _traffic(parties: tuple[int, ...]) -> list[Row]:
    return [
        Row(column=f"{protocol} {part}", parties=count, value=0.0055 * count, printed=6.81, unit="MB")
        for protocol in PROTOCOLS
        for count in parties
        for part in ("client", "server", "client upload", "leader set-up")
    ]


def _over_points() -> list[Row]:
    timed = [
        Row(column=protocol, parties=15, decision_points=points, value=0.06 * number, std=0.002, unit="s")
        for number, protocol in enumerate(PROTOCOLS, start=1)
        for points in figures.POINTS
    ]
    close = [
        Row(data=data, size=1000, column="accuracy", decision_points=points, value=100 - 5 / points, unit="%")
        for data in ("criteo", "celeba")
        for points in (10, 100, 1000)
    ]
    return timed + close


def _over_parties() -> list[Row]:
    timed = [
        Row(column=protocol, parties=count, decision_points=100, value=0.01 * count * number, std=0.01, unit="s")
        for number, protocol in enumerate(PROTOCOLS, start=1)
        for count in figures.PARTY_COUNTS
    ]
    mpc = [
        Row(data="celeba", size=samples, parties=8, column="mpc", value=0.02 * samples, unit="s")
        for samples in (100, 200)
    ]
    return timed + _traffic(figures.TRAFFIC_PARTIES) + mpc + [replace(mpc[0], column="mpc traffic", unit="MB")]


def _division() -> list[Row]:
    rows = list(divisions.needs())
    for number, case in enumerate(divisions.CASES):
        if number == 1:
            rows.append(Row(column=f"{case.name} error", value=None, note="refused"))
            continue
        dens = [den for batch in case.batches() for den in batch]
        rows += [Row(size=round(den), column=f"{case.name} error", value=1e-8 * den / 1e5) for den in dens]
        rows.append(Row(column=f"{case.name} levels", value=10, unit="levels"))
        rows.append(Row(column=f"{case.name} seconds", value=4.2, unit="s"))
    return rows
