"""What an experiment is made of, what it leaves out and why, and what it needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fheval.engines import Engine
from fheval_lab.reproduce.cells import Cell
from fheval_lab.reproduce.data_sets import DataSet, Name, data_sets


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the data lie, and the engine that our protocols run on."""

    data: Path
    engine: Engine


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


def present_and_missing(folder: Path, name: Name) -> tuple[list[DataSet], list[Skip]]:
    """The data sets whose files are there, and for each other one which files are not."""
    every = data_sets(folder, name)
    return [each for each in every if not each.missing], [without(each, each.title) for each in every if each.missing]


def without(data: DataSet, what: str) -> Skip:
    """Leave out what needs a data set that is not there."""
    files = " and ".join(data.missing)
    return Skip(what, f"{files} not found in {data.folder}. Put them there and run again.")
