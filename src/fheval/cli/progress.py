"""Progress bars on standard error, for people: on a terminal only, and gone when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def waiting(what: str, *, quiet: bool) -> Iterator[None]:
    """Show that something is going on whose length is not known."""
    with _bar(quiet) as bar:
        bar.add_task(what, total=None)
        yield


@contextmanager
def steps(total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show work of known steps: call what it gives with the name of each step as it begins."""
    with _bar(quiet) as bar:
        task = bar.add_task("", total=total)
        begun = 0

        def on_step(what: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=what)
            begun += 1

        yield on_step


@contextmanager
def round_bar(parties: int, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show a round as it goes: call what it gives with the role's name each time a role has worked."""
    with _bar(quiet) as bar:
        task = bar.add_task("Counting", total=parties)
        done = {"counting": 0, "party": 0}

        def on_work(role: str) -> None:
            if role in done:
                done[role] = min(done[role] + 1, parties)
            elif role != "leader" or done["party"]:
                return
            if role == "counting":
                now = "Counting"
            else:
                now = "Round: the parties submit" if done["party"] < parties else "Round: the aggregator answers"
            bar.update(task, completed=done.get(role, 0), description=now)

        yield on_work


class WeightedBar:
    """A bar over pieces of work of unequal length, with the time that remains."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("Planning", total=None)

    def begin(self, weight: float) -> None:
        """Say how much work there is in all."""
        self._bar.update(self._task, total=weight)

    def start(self, name: str) -> None:
        """Name the piece of work that begins."""
        self._bar.update(self._task, description=name)

    def finish(self, weight: float) -> None:
        """Say how much of the work was just done."""
        self._bar.advance(self._task, weight)


@contextmanager
def weighted_bar(*, quiet: bool) -> Iterator[WeightedBar]:
    """Show how far a long computation is, and when it will be done."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
        # Pieces take up to a minute: the estimate is over many of them.
        speed_estimate_period=600,
        disable=quiet or not sys.stderr.isatty(),
    )
    with progress:
        yield WeightedBar(progress)


def _bar(quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    )
