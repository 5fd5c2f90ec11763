"""What an experiment is made of: cells of work, and what it leaves out. A finished cell is kept, to resume a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fheval.engines import Engine
from fheval.report.page import replace_file
from fheval.version import __version__
from fheval_lab.reproduce.rows import Row


@dataclass(frozen=True, slots=True)
class Workbench:
    """Where the data lie, and the engine that our protocols run on."""

    data: Path
    engine: Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One piece of work: its name, what its rows depend on, about how many seconds it takes, and the work itself.

    `inputs` tells a kept cell that still holds from one that does not: another engine, other data, another version.
    """

    name: str
    inputs: dict[str, Any] = field(default_factory=dict)
    weight: float
    work: Callable[[], Sequence[Row]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Skip:
    """Something that was left out, and why; the reason says what to do."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells of an experiment, in order, and what it has to leave out from the start."""

    cells: tuple[Cell, ...]
    skipped: tuple[Skip, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The rows of a cell, and the machine they come from."""

    rows: tuple[Row, ...]
    machine: dict[str, str]


@dataclass(frozen=True, slots=True)
class Store:
    """Finished cells in a folder, one file each, written whole or not at all."""

    folder: Path

    def get(self, cell: Cell) -> Finished | None:
        """A finished cell of the same name and inputs, if there is one; a file that cannot be read is none."""
        try:
            content = json.loads(self._file(cell).read_text(encoding="utf-8"))
            if content["inputs"] != _inputs(cell):
                return None
            rows = tuple(Row(**each) for each in content["rows"])
            return Finished(rows=rows, machine=dict(content["machine"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, cell: Cell, finished: Finished) -> None:
        file = self._file(cell)
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {"inputs": _inputs(cell), **asdict(finished)}
        replace_file(file, json.dumps(content, indent=1, allow_nan=False) + "\n")

    def _file(self, cell: Cell) -> Path:
        return self.folder / "cells" / (re.sub(r"[^A-Za-z0-9.]+", "-", cell.name) + ".json")


def _inputs(cell: Cell) -> dict[str, Any]:
    return {"fheval": __version__, **cell.inputs}
