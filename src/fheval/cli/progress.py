"""Progress bars on standard error, for people: on a terminal only, and gone when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def waiting(what: str, *, quiet: bool) -> Iterator[None]:
    """Show that something is going on whose length is not known."""
    with _bar(quiet) as bar:
        bar.add_task(what, total=None)
        yield


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
