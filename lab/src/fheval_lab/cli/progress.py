"""The laboratory's progress bars on standard error: counted steps, and long work with the time that remains."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich import progress
from rich.console import Console


@contextmanager
def steps(total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show work of known steps: call what it gives with the name of each step as it begins."""
    with _bar(progress.MofNCompleteColumn(), progress.TimeElapsedColumn(), quiet=quiet) as bar:
        task = bar.add_task("", total=total)
        begun = 0

        def on_step(what: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=what)
            begun += 1

        yield on_step


class WeightedBar:
    """A bar over pieces of work of unequal length, with the time that remains: a watcher of `reproduce.run`."""

    def __init__(self, bar: progress.Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("Planning", total=None)

    def begin(self, weight: float) -> None:
        self._bar.update(self._task, total=weight)

    def start(self, name: str) -> None:
        self._bar.update(self._task, description=name)

    def finish(self, weight: float) -> None:
        self._bar.advance(self._task, weight)


@contextmanager
def weighted_bar(*, quiet: bool) -> Iterator[WeightedBar]:
    """Show how far a long computation is, and when it will be done."""
    columns = progress.TaskProgressColumn(), progress.TimeRemainingColumn(compact=True), progress.TextColumn("left")
    # Pieces take up to a minute: the estimate is over many of them.
    with _bar(*columns, quiet=quiet, speed_estimate_period=600) as bar:
        yield WeightedBar(bar)


def _bar(*columns: progress.ProgressColumn, quiet: bool, **others: Any) -> progress.Progress:
    disable = quiet or not sys.stderr.isatty()
    begin = progress.TextColumn("{task.description}"), progress.BarColumn()
    return progress.Progress(*begin, *columns, console=Console(stderr=True), transient=True, disable=disable, **others)
