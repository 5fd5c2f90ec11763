"""Every command's help, as it prints it, on one page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import typer

from fheval.cli import installed_commands

_PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "TERMINAL_WIDTH": "100"}


def page() -> str:
    """The help of every command and every command below it."""
    parts = ["# Commands", "Each command tells the same with `--help`."]
    for words in _commands():
        parts += [f"## fheval {' '.join(words)}", f"```text\n{_help(words)}\n```"]
    return "\n\n".join(parts) + "\n"


def _commands() -> Iterator[tuple[str, ...]]:
    for name, module, _ in installed_commands():
        yield (name,)
        __import__(module)
        command: Any = typer.main.get_command(sys.modules[module].app)
        for below in getattr(command, "commands", {}):
            yield name, below


def _help(words: tuple[str, ...]) -> str:
    command = [sys.executable, "-m", "fheval", *words, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **_PLAIN})
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())
