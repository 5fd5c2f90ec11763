"""Outsourced division over den from 10³ to 10¹⁰: how wrong each way is, what it takes, what it would have to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite

import numpy as np

from fheval.engines import Engine, load_engine, why_unavailable
from fheval.errors import ConfigError, PrecisionError
from fheval_lab.baselines import division
from fheval_lab.baselines.division import Approximation, Method
from fheval_lab.reproduce.cells import Cell, Plan
from fheval_lab.reproduce.rows import Row

AUC = 0.75
SMALLEST, LARGEST = 1e3, 1e10
METHODS: tuple[Method, ...] = ("chebyshev", "newton")
EFFORT_NAMES: dict[Method, str] = {"chebyshev": "degree", "newton": "steps"}

# Four a decade where slots share a ciphertext, one where each den needs its own.
_FINE = np.rint(np.geomspace(SMALLEST, LARGEST, 29))
_COARSE = _FINE[::4]

# The ratio of the bounds: a factor of ten up to the whole range.
SPREADS = (10, 100, 1_000, 100_000, 10_000_000)


@dataclass(frozen=True, slots=True)
class Case:
    """One way to divide, under one pair of public bounds."""

    approximation: Approximation

    @property
    def name(self) -> str:
        chosen = self.approximation
        bounds = f"den from {chosen.low:.3g} to {chosen.high:.3g}" + ("" if chosen.scaled else ", not scaled")
        return f"{chosen.method} {EFFORT_NAMES[chosen.method]} {chosen.effort}, {bounds}"

    def batches(self) -> Iterator[tuple[float, ...]]:
        """Which den share a ciphertext: an overflowing slot spoils its neighbours, and den above `high` overflow."""
        high = self.approximation.high
        yield tuple(_FINE[high >= _FINE].tolist())
        yield from ((den,) for den in _COARSE[high < _COARSE].tolist())


def _case(method: Method, effort: int, low: float, high: float = LARGEST, *, scaled: bool = True) -> Case:
    return Case(Approximation(method=method, effort=effort, low=low, high=high, scaled=scaled))


# With 11 levels a degree of 247 and five steps are about the most; bounds get narrower down the list, then wrong.
CASES = (
    _case("chebyshev", 247, SMALLEST, scaled=False),
    _case("newton", 5, SMALLEST, scaled=False),
    _case("chebyshev", 247, SMALLEST),
    _case("newton", 5, SMALLEST),
    _case("chebyshev", 247, 1e7),
    _case("chebyshev", 59, 1e8),
    _case("chebyshev", 27, 1e9),
    _case("newton", 5, 1e9),
    _case("newton", 5, 2.5e9),
    _case("chebyshev", 27, 1e5, 1e6),
    _case("newton", 5, 2.5e5, 1e6),
)


def plan() -> Plan:
    """A cell for each case, and one for what would be needed."""
    measured = tuple(
        Cell(name=f"division {case.name}", weight=8.0 * len(list(case.batches())), work=partial(measure, case))
        for case in CASES
    )
    return Plan((Cell(name="division needs", weight=0.1, work=needs), *measured))


def needs() -> Sequence[Row]:
    """Degree or steps, and levels, for five decimals of the AUC, by how wide the bounds on den are."""
    rows = []
    for spread in SPREADS:
        for method in METHODS:
            effort = division.effort_needed(method, spread, division.TOLERANCE)
            depth = division.depth_needed(method, effort)
            told = f"bounds a factor of {spread:,} apart"
            rows += [
                Row(size=spread, column=f"{method} needs {EFFORT_NAMES[method]}", value=effort, unit="", note=told),
                Row(size=spread, column=f"{method} needs levels", value=depth, unit="levels", note=told),
            ]
    return rows


def measure(case: Case) -> Sequence[Row]:
    """The error at each den, levels and seconds of one case."""
    engine = _engine()
    try:
        results = [
            (dens, division.divide(engine, case.approximation, [AUC * den for den in dens], dens))
            for dens in case.batches()
        ]
    except PrecisionError as error:
        return [Row(column=f"{case.name} error", value=None, note=str(error))]
    rows = [_error(case, den, auc) for dens, result in results for den, auc in zip(dens, result.aucs, strict=True)]
    depth = max(result.depth for _, result in results)
    seconds = float(np.median([result.seconds for _, result in results]))
    return [
        *rows,
        Row(column=f"{case.name} levels", value=depth, unit="levels"),
        Row(column=f"{case.name} seconds", value=seconds, unit="s"),
    ]


def _engine() -> Engine:
    reason = why_unavailable("openfhe")
    if reason is not None:
        raise ConfigError(
            f"It needs the engine openfhe, which does not load here ({reason}). Run `fheval reproduce division` with "
            "the same --out in an environment where it does (`make setup` makes .venv-openfhe), then this command "
            "again: it takes up what it finds."
        )
    return load_engine("openfhe")


def _error(case: Case, den: float, auc: float) -> Row:
    wrong = abs(auc - AUC)
    row = Row(size=round(den), column=f"{case.name} error", value=None, note="no number came out")
    return replace(row, value=wrong, note=None) if isfinite(wrong) else row
