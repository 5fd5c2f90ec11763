"""Every command's help, as it prints it, on one page."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

# No colours, and a hundred columns; typer reads this when it is imported.
os.environ |= {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "TERMINAL_WIDTH": "100"}

import typer

from fheval.cli import installed_commands, main


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
    printed = StringIO()
    with redirect_stdout(printed):
        main([*words, "--help"])
    return "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())
