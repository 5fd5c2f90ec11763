"""Progress bars on standard error, for people: on a terminal only, and gone when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

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

T = TypeVar("T")


def each(items: Sequence[T], what: str, *, quiet: bool) -> Iterator[T]:
    """Go through the items with a bar that counts them."""
    with _bar(quiet) as bar:
        task = bar.add_task(what, total=len(items))
        for item in items:
            yield item
            bar.advance(task)


@contextmanager
def waiting(what: str, *, quiet: bool) -> Iterator[None]:
    """Show that something is going on whose length is not known."""
    with _bar(quiet) as bar:
        bar.add_task(what, total=None)
        yield


@contextmanager
def steps(total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show work of known steps; what is yielded wants to be told the name of each step as it begins."""
    with _bar(quiet) as bar:
        task = bar.add_task("", total=total)
        begun = 0

        def on_step(what: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=what)
            begun += 1

        yield on_step


@contextmanager
def round_bar(parties: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a round as it goes; what is yielded wants to be told each time a role has worked."""
    with _bar(quiet) as bar:
        # Before the parties the leader makes keys; after them the aggregator answers and a party opens the result.
        task = bar.add_task("Round: the leader makes keys", total=parties)
        done = 0

        def on_work(role: str) -> None:
            nonlocal done
            done += role == "party"
            finished = min(done, parties)
            now = "the parties submit" if finished < parties else "the aggregator answers"
            if done or role == "leader":
                bar.update(task, completed=finished, description=f"Round: {now}")

        yield on_work


class WeightedBar:
    """A bar over pieces of work of unequal length, with the time that remains."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("Planning", total=None)

    def begin(self, weight: float) -> None:
        """So much lies ahead."""
        self._bar.update(self._task, total=weight)

    def start(self, name: str) -> None:
        """This piece is next."""
        self._bar.update(self._task, description=name)

    def finish(self, weight: float) -> None:
        """So much of what lay ahead is done."""
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
