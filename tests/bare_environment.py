"""Environments that hold wheels and what these ask for, and nothing else that is installed where the tests run.

No network is needed: what the wheels ask for is linked from the environment of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cli.session import Transcript

_SEVERAL = """
import contextlib, io, json, sys
from fheval.cli import main
found = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    found.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(found))
"""


def build_wheel(project: Path, folder: Path) -> Path:
    """Build a project's wheel with the hatchling that is installed here."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    before = set(folder.iterdir())
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (made,) = set(folder.iterdir()) - before
    return made


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@dataclass(frozen=True)
class Bare:
    """A virtual environment with a few wheels and their dependencies."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def __call__(self, *words: str | Path) -> Transcript:
        """Run the script `fheval` that the wheel brought, in a folder where no source lies."""
        return self._run([self.folder / "bin" / "fheval", *words])

    def several(self, *commands: Sequence[str]) -> list[Transcript]:
        """Run several commands in one process: starting one for each would take most of a test's time."""
        done = self.execute(_SEVERAL, json.dumps(commands))
        assert done.status == 0, done.err
        return [Transcript(*each) for each in json.loads(done.out)]

    def execute(self, program: str, *words: str) -> Transcript:
        """Run a program of a few lines."""
        return self._run([self.python, "-c", program, *words])

    def _run(self, words: Sequence[str | Path]) -> Transcript:
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        environ = {name: value for name, value in os.environ.items() if name not in hidden}
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env={**environ, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        return Transcript(done.returncode, done.stdout, done.stderr)


def install(folder: Path, wheels: Sequence[Path]) -> Bare:
    """Make an environment of the wheels and the distributions that they ask for without any extra."""
    venv.create(folder, symlinks=True)
    made = Bare(folder)
    # Its own pip is not needed: the one of the tests' environment installs into another.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(made.python)]
    options = ["install", "-qq", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*pip, *options, *map(str, wheels)], check=True, capture_output=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    own = {canonicalize_name(wheel.name.split("-")[0]): wheel for wheel in wheels}
    wanted = {name for wheel in wheels for name in _asked_for(_requirements(wheel))}
    for name in _closure(wanted - own.keys()):
        _link(distribution(name), packages)
    return made


def _requirements(wheel: Path) -> list[str]:
    (metadata,) = (text for name, text in contents(wheel).items() if name.endswith(".dist-info/METADATA"))
    lines = metadata.decode().partition("\n\n")[0].splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


def _asked_for(requirements: Sequence[str]) -> Iterator[str]:
    """The names that apply here when no extra is asked for."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _closure(names: set[str]) -> set[str]:
    """The distributions of these names, and all that they ask for in turn."""
    found: set[str] = set()
    ahead = set(names)
    while ahead:
        name = ahead.pop()
        found.add(name)
        ahead |= {*_asked_for(distribution(name).requires or [])} - found
    return found


def _link(installed: Distribution, packages: Path) -> None:
    """Link a distribution's modules and metadata, whole folders at once."""
    for top in sorted({file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}):
        (packages / top).symlink_to(Path(str(installed.locate_file(top))))
