"""Command lines and what came of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fheval.cli import main


@dataclass(frozen=True)
class Transcript:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output; anything else there fails."""
        content = json.loads(self.out)
        assert isinstance(content, dict)
        return content


class Session:
    """Runs commands inside the test's own process."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str | Path) -> Transcript:
        self._capture.readouterr()
        status = main([str(argument) for argument in arguments])
        out, err = self._capture.readouterr()
        return Transcript(status, out, err)


def real_process(*arguments: str | Path, module: bool = True, folder: Path | None = None) -> Transcript:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [*command(module=module), *map(str, arguments)], capture_output=True, text=True, check=False, cwd=folder
    )
    return Transcript(done.returncode, done.stdout, done.stderr)


def command(*, module: bool = True) -> Sequence[str]:
    """The words that start `fheval`, as a module or as the script beside this interpreter."""
    return [sys.executable, "-m", "fheval"] if module else [str(Path(sys.executable).with_name("fheval"))]
