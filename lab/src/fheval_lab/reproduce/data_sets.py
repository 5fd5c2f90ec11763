"""The published evaluation data: which files there are, which are missing, and how they are dealt out to parties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fheval.cli.simulate import split_randomness, split_rows
from fheval.counting import read_pair
from fheval_lab.reproduce import printed
from fheval_lab.reproduce.cells import Skip
from fheval_lab.reproduce.rows import Row

Name = Literal["criteo", "celeba"]
Share = tuple[NDArray[np.uint8], NDArray[np.float64]]

PRINTED: dict[Name, dict[int, printed.AtSize]] = {"criteo": printed.CRITEO, "celeba": printed.CELEBA}
TITLES: dict[Name, str] = {"criteo": "Criteo", "celeba": "CelebA"}

_PREFIX = {"criteo": "_criteo", "celeba": ""}

_read = lru_cache(maxsize=2)(read_pair)

# Any split gives the same AUC; a fixed one lets a resumed run go on where the other stopped.
_SPLIT_SEED = 1


@dataclass(frozen=True, slots=True)
class DataSet:
    """One pair of files of the published data."""

    name: Name
    size: int
    folder: Path

    @property
    def files(self) -> tuple[Path, Path]:
        """Labels and scores."""
        # The name of the largest says no size.
        ending = _PREFIX[self.name] + ("" if self.size == max(PRINTED[self.name]) else f"_{self.size}")
        return self.folder / f"labels{ending}.txt", self.folder / f"pred_cons{ending}.txt"

    @property
    def title(self) -> str:
        return f"{TITLES[self.name]}, {self.size:,} samples"

    @property
    def missing(self) -> list[str]:
        return [file.name for file in self.files if not file.is_file()]

    @property
    def printed(self) -> printed.AtSize:
        return PRINTED[self.name][self.size]

    def digest(self) -> str:
        """Tells these files from others of the same names."""
        content = sha256()
        for file in self.files:
            content.update(sha256(file.read_bytes()).digest())
        return content.hexdigest()[:16]

    def row(self, column: str, value: float, **others: Any) -> Row:
        return Row(data=self.name, size=self.size, column=column, value=value, **others)

    def load(self) -> Share:
        return _read(*self.files)

    def shares(self, parties: int) -> list[Share]:
        """The samples dealt out at random, equally many to each party to within one."""
        labels, scores = self.load()
        dealt = split_rows(len(labels), parties, split_randomness(_SPLIT_SEED))
        return [(labels[rows], scores[rows]) for rows in dealt]


def data_sets(folder: Path, name: Name) -> Sequence[DataSet]:
    """All sizes that the paper has of a data set, the smallest first, present or not."""
    return [DataSet(name, size, folder) for size in sorted(PRINTED[name])]


def present_and_missing(folder: Path, name: Name) -> tuple[list[DataSet], list[Skip]]:
    """The data sets whose files are there, and for each other one which files are not."""
    every = data_sets(folder, name)
    return [each for each in every if not each.missing], [without(each, each.title) for each in every if each.missing]


def without(data: DataSet, what: str) -> Skip:
    """Leave out what needs a data set that is not there."""
    files = " and ".join(data.missing)
    return Skip(what, f"{files} not found in {data.folder}. Put them there and run again.")
