"""What the tests of the command line share: a session, the plaintext engine, and three parties' files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cli.session import Session
from fheval_lab.clear import ClearEngine

Data = list[tuple[NDArray[np.int64], NDArray[np.float64]]]


@pytest.fixture
def fheval(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Session:
    """Commands on a terminal of a known width, with the plaintext engine whatever `--engine` says."""
    monkeypatch.setenv("COLUMNS", "100")
    for module in ("evaluation.run", "cli.demo"):
        monkeypatch.setattr(f"fheval.{module}.load_engine", _plaintext_engine)
    return Session(capsys)


def _plaintext_engine(name: str | None) -> ClearEngine:
    return ClearEngine()


@pytest.fixture(scope="session")
def data() -> Data:
    """Three parties; the second has one class only."""
    rng = np.random.default_rng(5)
    sizes = (40, 7, 25)
    labels = [rng.integers(0, 2, size) for size in sizes]
    labels[1][:] = 1
    return [(each, np.clip(0.35 * each + rng.random(len(each)) * 0.65, 0, 1)) for each in labels]


@pytest.fixture
def files(tmp_path: Path, data: Data) -> list[Path]:
    """The parties' data as CSV, in a folder of their own."""
    folder = tmp_path / "parties"
    folder.mkdir()
    paths = [folder / f"{name}.csv" for name in ("north", "south", "east")]
    for path, (labels, scores) in zip(paths, data, strict=True):
        rows = [f"{label},{score!r}" for label, score in zip(labels.tolist(), scores.tolist(), strict=True)]
        path.write_text("\n".join(["label,score", *rows]) + "\n")
    return paths


@pytest.fixture
def parties(files: list[Path]) -> list[str]:
    """The options that name the parties' files."""
    return [word for path in files for word in ("--party", str(path))]
