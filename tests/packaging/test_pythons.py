"""Both distributions as a user gets them: into an empty environment of every Python that we claim, from the index.

A Python that is not on this machine is skipped by its name.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.setup import MAIN_VERSIONS, OPENFHE_VERSION, find

from bare_environment import Bare
from fheval.version import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = (OPENFHE_VERSION, *MAIN_VERSIONS)
UV = Path(sys.executable).with_name("uv")

PARTY = "label,score\n1,0.9\n0,0.2\n1,0.4\n0,0.6\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels and sdists of both distributions."""
    folder = tmp_path_factory.mktemp("dist")
    for project in (ROOT, ROOT / "lab"):
        command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    return folder


def environment(folder: Path, python: tuple[int, int], files: Sequence[Path]) -> Bare:
    """An environment with these distributions, and what the index has for them."""
    found = find(python)
    if found is None:
        pytest.skip(f"there is no Python {python[0]}.{python[1]} on this machine")
    made = Bare(folder / "environment")
    # Outside the checkout, whose pyproject.toml has settings of its own for uv.
    asked: list[list[str | Path]] = [
        ["venv", "--python", found.path, made.folder],
        ["pip", "install", "--python", made.python, *files],
    ]
    for words in asked:
        done = subprocess.run([UV, *words, "--quiet"], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
@pytest.mark.parametrize("python", VERSIONS, ids=lambda version: f"{version[0]}.{version[1]}")
def test_it_installs_and_evaluates(built: Path, tmp_path: Path, python: tuple[int, int], kind: str) -> None:
    files = sorted(built.glob(kind))
    assert len(files) == 2
    fheval = environment(tmp_path, python, files)

    version = fheval("--version")
    assert (version.status, version.err) == (0, "")
    assert f"fheval {__version__}" in version.out
    assert f"Python {python[0]}.{python[1]}." in version.out
    assert "engine seal: tenseal" in version.out

    parties = []
    for name in "abc":
        (fheval.folder / f"{name}.csv").write_text(PARTY)
        parties += ["--party", f"{name}.csv"]
    done = fheval("evaluate", *parties, "--protocol", "padded-verified", "--engine", "seal", "--quiet")
    assert (done.status, done.out, done.err) == (0, "0.750000\n", "")
    assert "--protocol" in fheval("attack", "--help").out
