"""The lock files fit pyproject.toml, and name packages, versions and hashes but no addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Lock file, the Pythons that it is for, and the extras that it holds.
LOCKS = {
    "venv.txt": (("3.11", "3.12", "3.13", "3.14"), ("openfhe", "flower", "baselines", "dev", "lock")),
    "venv-openfhe.txt": (("3.10",), ("openfhe", "dev")),
}
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(lock: str) -> list[str]:
    """One line for each locked package, its hashes included."""
    text = (ROOT / "locks" / lock).read_text(encoding="utf-8")
    return text.replace("\\\n", "").splitlines()


def locked_versions(lock: str, python: str) -> dict[str, str]:
    """The version of each package that the lock gives to that Python on x86-64 Linux."""
    pinned = [Requirement(entry.split("--hash")[0]) for entry in entries(lock)]
    chosen = [requirement for requirement in pinned if applies(requirement, python)]
    assert len({requirement.name for requirement in chosen}) == len(chosen)
    return {canonicalize_name(requirement.name): str(requirement.specifier)[2:] for requirement in chosen}


def applies(requirement: Requirement, python: str) -> bool:
    system = {"python_version": python, "python_full_version": f"{python}.1"}
    system |= {"sys_platform": "linux", "platform_machine": "x86_64"}
    return requirement.marker is None or requirement.marker.evaluate({**system, "extra": ""})


def unmet(lock: str, python: str, requirements: list[str]) -> list[str]:
    """The requirements that the lock does not satisfy on that Python."""
    versions = locked_versions(lock, python)
    wanted = [requirement for requirement in map(Requirement, requirements) if applies(requirement, python)]
    return [str(requirement) for requirement in wanted if not is_met(requirement, versions)]


def is_met(requirement: Requirement, versions: dict[str, str]) -> bool:
    version = versions.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version)


@pytest.mark.parametrize(
    ("lock", "python"), [(lock, python) for lock, (pythons, _) in LOCKS.items() for python in pythons]
)
def test_a_lock_satisfies_the_project(lock: str, python: str) -> None:
    requirements = [*PROJECT["dependencies"]]
    for extra in LOCKS[lock][1]:
        requirements += PROJECT["optional-dependencies"][extra]
    assert unmet(lock, python, requirements) == [], "run `make lock`"


def test_an_unmet_requirement_is_found() -> None:
    wanted = ["numpy>=99", "no-such-package", "numpy>=99; python_version < '3.11'", "numpy"]
    assert unmet("venv.txt", "3.12", wanted) == ["numpy>=99", "no-such-package"]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_exact_versions_and_hashes_only(lock: str) -> None:
    assert len(entries(lock)) > 20
    for entry in entries(lock):
        requirement, *hashes = entry.split(" --hash=")
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; [^:]+)?\s*", requirement), requirement
        assert hashes
        assert all(HASH.fullmatch(f"--hash={value.strip()}") for value in hashes)


@pytest.mark.parametrize("lock", LOCKS)
def test_tensorflow_is_not_installed(lock: str) -> None:
    assert not [entry for entry in entries(lock) if entry.startswith("tensorflow")]
