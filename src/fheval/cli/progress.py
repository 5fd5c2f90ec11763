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
            elif role not in ("leader", "member") or done["party"]:
                return
            if role == "counting":
                now = "Counting"
            else:
                now = "Round: the parties submit" if done["party"] < parties else "Round: the aggregator answers"
            bar.update(task, completed=done.get(role, 0), description=now)

        yield on_work


@contextmanager
def exchange_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show the exchanges of a consortium's round: a bar on a terminal, a line for each exchange elsewhere.

    Call what it gives with a stage, how many have answered and how many were asked; with zeros, a sentence is said.
    """
    with _bar(quiet=False) as bar:
        task = bar.add_task("connecting", total=None)

        def show(words: str, done: int, whole: int) -> None:
            if not whole:
                bar.console.print(words, markup=False, highlight=False)
            elif not bar.disable:
                bar.update(task, description=words, completed=done, total=whole)
            elif not done:
                asked = f"{whole} member{'s' if whole > 1 else ''}"
                bar.console.print(f"{words}: asking {asked}", markup=False, highlight=False, soft_wrap=True)

        yield show


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
