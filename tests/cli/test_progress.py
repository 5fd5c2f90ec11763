"""Progress bars: on standard error, on a terminal, and never when told to be quiet."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from cli.session import command
from fheval.cli.progress import round_bar


def on_terminal(arguments: list[str]) -> tuple[str, str]:
    """Run with standard error on a terminal; give standard output and what the terminal got."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*command(), *arguments], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how Linux says that nobody has the terminal open any more
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.decode(), shown.decode()


@pytest.mark.parametrize("quiet", [False, True])
def test_bars_are_for_terminals(parties: list[str], files: list[Path], quiet: bool) -> None:
    out, shown = on_terminal(["evaluate", *parties, "--json", "-", *["--quiet"] * quiet])
    assert out.startswith("{")
    assert out.count("\n") == 1
    if quiet:
        assert shown == ""
    else:
        assert "Counting" in shown
        assert "Round: " in shown


def test_a_round_counts_parties_and_never_more_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, str]] = []

    def note(self: object, task: object, *, completed: float, description: str) -> None:
        seen.append((completed, description))

    monkeypatch.setattr("rich.progress.Progress.update", note)
    with round_bar(2, quiet=True) as on_work:
        for role in ("counting", "counting", "leader", "party", "aggregator", "party", "decrypt", "party"):
            on_work(role)
    assert seen == [
        (1, "Counting"),
        (2, "Counting"),
        (0, "Round: the parties submit"),
        (1, "Round: the parties submit"),
        (2, "Round: the aggregator answers"),
        (2, "Round: the aggregator answers"),
    ]


def test_a_study_that_takes_seconds_to_check_shows_that_it_is_being_checked(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text('name = "s"\nmetrics = ["auc"]\nreveals = "counts"\n')
    _, shown = on_terminal(["study", "check", str(study)])
    assert "What the numbers give away" in shown
