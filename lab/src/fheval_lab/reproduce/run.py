"""Run experiments cell by cell, keep what is finished, and write rows and a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from fheval.errors import ConfigError, TransportError
from fheval.report.page import replace_file
from fheval.version import __version__
from fheval_lab.reproduce import accuracy, communication, divisions, figures, noise, security
from fheval_lab.reproduce.cells import Finished, Plan, Skip, Store, Workbench
from fheval_lab.reproduce.machine import describe
from fheval_lab.reproduce.rows import Row, as_csv, as_json

EXPERIMENTS: dict[str, Callable[[Workbench], Plan]] = {
    "table1": partial(accuracy.plan, "criteo"),
    "table2": partial(accuracy.plan, "celeba"),
    "noise": noise.plan,
    "table3": communication.plan,
    "figure-points": figures.plan_points,
    "figure-parties": figures.plan_parties,
    "security": lambda _: security.plan(),
    "division": lambda _: divisions.plan(),
}
ALL = "all"

# Its cells are in tables 1 and 2.
_ALONE = "noise"

# Formulas and synthetic data: the published files play no part.
WITHOUT_DATA = frozenset({"table3", "security", "division"})


class Watcher(Protocol):
    """Is told how much work there is, which cell starts, and how much is done; weights are about seconds."""

    def begin(self, weight: float) -> None: ...

    def start(self, name: str) -> None: ...

    def finish(self, weight: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What an experiment gave, what it left out, and the machines that its rows come from."""

    name: str
    rows: tuple[Row, ...]
    skipped: tuple[Skip, ...]
    machines: tuple[dict[str, str], ...]


def chosen(target: str) -> list[str]:
    """The experiments behind a name: one, or all of them."""
    if target == ALL:
        return [name for name in EXPERIMENTS if name != _ALONE]
    if target not in EXPERIMENTS:
        raise ConfigError(f"There is no experiment {target!r}. Choose one of: {', '.join(EXPERIMENTS)}, {ALL}.")
    return [target]


def run(target: str, setting: Workbench, out: Path, watch: Watcher) -> list[Reproduction]:
    """Run what is not finished yet in `out`, and write the rows of each experiment there."""
    plans = {name: EXPERIMENTS[name](setting) for name in chosen(target)}
    out.mkdir(parents=True, exist_ok=True)
    store = Store(out)
    ahead = {cell.name: cell.weight for plan in plans.values() for cell in plan.cells if store.get(cell) is None}
    watch.begin(sum(ahead.values()))
    outcomes = []
    for name, plan in plans.items():
        outcomes.append(_run(name, plan, store, watch))
        write_rows(out, name, [outcomes[-1]])
    if target == ALL:
        write_rows(out, ALL, outcomes)
    return outcomes


def write_rows(out: Path, name: str, outcomes: Sequence[Reproduction]) -> None:
    """NAME.json and NAME.csv."""
    rows = [row for outcome in outcomes for row in outcome.rows]
    skipped = [asdict(skip) for outcome in outcomes for skip in outcome.skipped]
    about = {"experiment": name, "skipped": skipped, "machines": distinct_machines(outcomes), "fheval": __version__}
    replace_file(out / f"{name}.json", as_json(rows, **about))
    replace_file(out / f"{name}.csv", as_csv(rows))


def distinct_machines(outcomes: Iterable[Reproduction]) -> list[dict[str, str]]:
    """Every machine that a row comes from, once."""
    found: list[dict[str, str]] = []
    for outcome in outcomes:
        found += [machine for machine in outcome.machines if machine not in found]
    return found


def left_out(outcomes: Iterable[Reproduction]) -> dict[str, list[str]]:
    """What was left out, by the reason why."""
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        for skip in outcome.skipped:
            reasons.setdefault(skip.why, []).append(skip.what)
    return reasons


def _run(name: str, plan: Plan, store: Store, watch: Watcher) -> Reproduction:
    rows: list[Row] = []
    machines: list[dict[str, str]] = []
    skipped = list(plan.skipped)
    for cell in plan.cells:
        finished = store.get(cell)
        if finished is None:
            watch.start(cell.name)
            # A library or engine that is missing, or a time limit, stops one cell and not the others. Anything else
            # would be a wrong result or a bug, and stops everything.
            try:
                finished = Finished(rows=tuple(cell.work()), machine=describe())
                store.put(cell, finished)
            except (ConfigError, TransportError) as error:
                skipped.append(Skip(cell.name, str(error)))
            watch.finish(cell.weight)
        if finished is not None:
            rows += finished.rows
            if finished.machine not in machines:
                machines.append(finished.machine)
    return Reproduction(name, tuple(rows), tuple(skipped), tuple(machines))
