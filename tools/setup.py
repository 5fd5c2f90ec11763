"""Make the virtual environments that fheval is developed, tested and demonstrated in.

`.venv` has everything that loads on Python 3.11 to 3.14. Where the engine `openfhe` does not load there and a
Python 3.10 is found, `.venv-openfhe` has the core with that engine. Both are installed from lock files with
hashes, and fheval and its laboratory are then installed from this folder. With --examples there is `.venv-examples`
alone, which has what the apps in examples/ train with; with --docs there is also `.venv-docs`, which builds the
documentation site and has nothing of fheval in it. A second run does nothing unless a lock, a project file or the
interpreter has changed.

This is the first thing to run on a fresh machine, so it needs nothing but some Python from 3.8 on.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MAIN_VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))
OPENFHE_VERSION = (3, 10)
OPENFHE_GLIBC = (2, 35)  # what the binary in openfhe's wheel for Python 3.10 is linked against
# The two distributions of this repository: their names, and their folders from here.
PROJECTS = {"fheval": ".", "fheval-lab": "lab"}
ENGINE_MODULES = {"openfhe": "openfhe", "seal": "tenseal.sealapi"}
DESCRIBE_SELF = (
    "import ensurepip, json, sys, venv; "
    "print(json.dumps([sys.version_info[:3], getattr(sys, '_base_executable', None) or sys.executable]))"
)


class SetupError(Exception):
    """Set-up cannot go on; the message says why and what to do."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that can make virtual environments, and how it was found."""

    path: str
    version: tuple[int, int, int]
    found: str

    @property
    def minor(self) -> tuple[int, int]:
        """The version without its patch number."""
        return self.version[:2]

    def __str__(self) -> str:
        return "Python " + ".".join(map(str, self.version))


@dataclass(frozen=True)
class Environment:
    """A virtual environment, the lock it is installed from, and the Python it is made with."""

    name: str
    lock: str
    interpreter: Interpreter
    projects: bool = True

    @property
    def folder(self) -> Path:
        """Where the environment lies."""
        return ROOT / self.name

    @property
    def python(self) -> str:
        """The environment's own interpreter."""
        return str(self.folder / "bin" / "python")

    @property
    def stamp(self) -> Path:
        """The file that tells what the environment was made from; written last."""
        return self.folder / "fheval-setup.json"

    def fingerprint(self) -> str:
        """A digest of all that decides what the environment holds."""
        digest = hashlib.sha256(repr(self.interpreter).encode())
        project_files = (f"{folder}/pyproject.toml" for folder in PROJECTS.values())
        for source in (self.lock, *project_files, "tools/setup.py"):
            digest.update((ROOT / source).read_bytes())
        return digest.hexdigest()


def say(sentence: str) -> None:
    """Tell the user, at once."""
    print(sentence, flush=True)


def describe(path: str, found: str) -> Interpreter | None:
    """Ask an interpreter for its version; None where it does not run or cannot make environments.

    pyenv puts commands on the path that have no version behind them, and Debian ships Pythons without venv.
    """
    try:
        answer = subprocess.run([path, "-c", DESCRIBE_SELF], capture_output=True, timeout=60, check=False)
    except OSError:
        return None
    if answer.returncode != 0:
        return None
    (major, minor, patch), executable = json.loads(answer.stdout)
    return Interpreter(path=executable, version=(major, minor, patch), found=found)


def on_path(command: str) -> Iterator[str]:
    """Every file of that name on the path, in its order."""
    for folder in os.get_exec_path():
        path = shutil.which(command, path=folder)
        if path:
            yield path


def in_pyenv(minor: tuple[int, int]) -> list[str]:
    """pyenv's own interpreters of that version, the newest patch first."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = versions.glob(f"{minor[0]}.{minor[1]}.*/bin/python")
    return [str(path) for path in sorted(found, key=patch_number, reverse=True)]


def patch_number(python: Path) -> int:
    """The patch number in pyenv's folder name; pre-releases sort last."""
    patch = python.parent.parent.name.rsplit(".", 1)[-1]
    return int(patch) if patch.isdigit() else -1


def find(minor: tuple[int, int]) -> Interpreter | None:
    """An interpreter of exactly that version, from the path or from pyenv."""
    command = f"python{minor[0]}.{minor[1]}"
    candidates = [(path, f"{command} on the path") for path in on_path(command)]
    candidates += [(path, "found among pyenv's versions") for path in in_pyenv(minor)]
    for path, found in candidates:
        interpreter = describe(path, found)
        if interpreter and interpreter.minor == minor:
            return interpreter
    return None


def choose_main() -> Interpreter:
    """`python3` itself if it fits, else the newest Python that does."""
    usable = filter(None, (describe(path, "python3 on the path") for path in on_path("python3")))
    python3 = next(usable, None)
    if python3 and python3.minor in MAIN_VERSIONS:
        return python3
    for minor in reversed(MAIN_VERSIONS):
        interpreter = find(minor)
        if interpreter:
            return interpreter
    raise SetupError(
        "no Python 3.11 to 3.14 with the modules venv and ensurepip was found on the path or in pyenv; "
        "install one (on Debian and Ubuntu the packages python3 and python3-venv) and run this again"
    )


def run(*command: str) -> None:
    """Run one step of an installation with its output in sight."""
    # PYTHONPATH and PYTHONHOME of the caller could shadow what is being installed.
    hidden = ("PYTHONPATH", "PYTHONHOME")
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    finished = subprocess.run(command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, check=False)
    if finished.returncode != 0:
        raise SetupError(f"a command ended with status {finished.returncode}: {' '.join(command)}")


def why_not(python: str, module: str) -> str | None:
    """The reason why a module does not load, tried in a process of its own since a wrong binary may crash."""
    command = [python, "-c", f"import {module}"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if answer.returncode == 0:
        return None
    if f"No module named '{module}'" in answer.stderr:
        return "the lock has no build of it for this Python and system"
    lines = answer.stderr.strip().splitlines()
    return lines[-1] if lines else f"the import ended with status {answer.returncode}"


def installed(environment: Environment) -> set[str]:
    """The names of the packages that are in the environment."""
    command = [environment.python, "-m", "pip", "--disable-pip-version-check", "list", "--format=json"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    return {normalised(package["name"]) for package in json.loads(listed)}


def locked(environment: Environment) -> set[str]:
    """The names of the packages that are in the lock."""
    lines = (ROOT / environment.lock).read_text().splitlines()
    return {normalised(line.split("==")[0]) for line in lines if "==" in line and not line.startswith(" ")}


def normalised(name: str) -> str:
    """One spelling for the names that package indexes hold to be the same."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install(environment: Environment) -> None:
    """Install the locked packages, and then fheval and its laboratory from this folder."""
    pip = (environment.python, "-m", "pip", "--disable-pip-version-check")
    # Byte code is written at first import: compiling all of it here would take longer than the rest.
    run(
        *(*pip, "install", "-qq", "--no-compile", "--only-binary", ":all:"),
        *("--require-hashes", "--requirement", environment.lock),
    )
    strays = installed(environment) - locked(environment) - {"pip", *PROJECTS}
    if strays:  # left over from an older lock, they would hide that the new one lacks something
        run(*pip, "uninstall", "-qq", "--yes", *sorted(strays))
    if not environment.projects:
        return
    editable = [word for folder in PROJECTS.values() for word in ("--editable", folder)]
    run(*pip, "install", "-qq", "--no-index", "--no-deps", "--no-build-isolation", *editable)
    try:
        run(*pip, "check")
    except SetupError as error:
        advice = f"{environment.lock} does not satisfy the project files; run `make lock`, then this again"
        raise SetupError(advice) from error


def read_stamp(environment: Environment) -> dict[str, Any]:
    """What an earlier run left behind; empty where there was none or it did not finish."""
    try:
        stamp = json.loads(environment.stamp.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and os.access(environment.python, os.X_OK) else {}


def refresh(environment: Environment, stamp: dict[str, Any]) -> dict[str, Any]:
    """Bring the environment to what its lock says and write a new stamp."""
    if stamp.get("interpreter") != environment.interpreter.path:
        run(environment.interpreter.path, "-m", "venv", "--clear", str(environment.folder))
    else:
        environment.stamp.unlink()  # were this run cut short, the old stamp would be a lie
    install(environment)
    fresh = {
        "fingerprint": environment.fingerprint(),
        "interpreter": environment.interpreter.path,
        "engines": {name: why_not(environment.python, module) for name, module in ENGINE_MODULES.items()}
        if environment.projects
        else {},
    }
    environment.stamp.write_text(json.dumps(fresh, indent=2))
    return fresh


def make(environment: Environment) -> dict[str, str | None]:
    """Make the environment unless it is as it should be; tell of each engine why it does not load."""
    stamp = read_stamp(environment)
    up_to_date = stamp.get("fingerprint") == environment.fingerprint()
    interpreter = environment.interpreter
    state = "up to date" if up_to_date else f"installing {environment.lock}"
    say(f"{environment.name}: {interpreter} ({interpreter.found}); {state}")
    if not up_to_date:
        stamp = refresh(environment, stamp)
    engines: dict[str, str | None] = stamp["engines"]
    for engine, reason in engines.items():
        say(f"{environment.name}: engine {engine} " + (f"does not load ({reason})" if reason else "loads"))
    return engines


def openfhe_is_built_for_this_system() -> bool:
    """Whether openfhe's wheel for Python 3.10 can load here: x86-64 Linux with a C library new enough."""
    libc, version = platform.libc_ver()
    if sys.platform != "linux" or platform.machine() != "x86_64" or libc != "glibc":
        return False
    return tuple(int(part) for part in version.split(".")[:2]) >= OPENFHE_GLIBC


def make_openfhe() -> None:
    """Make `.venv-openfhe`, or say why there is none; with a Python 3.10 at hand, failure is an error."""
    if not openfhe_is_built_for_this_system():
        say(".venv-openfhe: not made, for openfhe has no build for this system; engine seal is used")
        return
    interpreter = find(OPENFHE_VERSION)
    if not interpreter:
        say(".venv-openfhe: not made, for no Python 3.10 is on the path or in pyenv; engine seal is used")
        return
    environment = Environment(".venv-openfhe", "locks/venv-openfhe.txt", interpreter)
    reason = make(environment)["openfhe"]
    if reason:
        raise SetupError(f"openfhe was installed in .venv-openfhe and does not load there: {reason}")


def main() -> int:
    """Make both environments, or with --main-only the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--main-only", action="store_true", help="make .venv and leave .venv-openfhe alone")
    parser.add_argument("--docs", action="store_true", help="make .venv-docs as well")
    parser.add_argument("--examples", action="store_true", help="make .venv-examples alone, for the apps in examples/")
    options = parser.parse_args()
    with (ROOT / "pyproject.toml").open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # two runs at once would install into each other
        try:
            if options.examples:
                make(Environment(".venv-examples", "locks/examples.txt", choose_main()))
                return 0
            engines = make(Environment(".venv", "locks/venv.txt", choose_main()))
            if engines["openfhe"] and not options.main_only:
                make_openfhe()
            if options.docs:
                make(Environment(".venv-docs", "locks/docs.txt", choose_main(), projects=False))
        except SetupError as error:
            print(f"set-up failed: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
