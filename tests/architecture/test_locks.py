"""The lock files fit both project files, and name packages, versions and hashes but no addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fheval.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PRODUCT, LAB = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"] for folder in (".", "lab")
)
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
EXTRAS = {**PRODUCT["optional-dependencies"], **LAB["optional-dependencies"]}
# Lock file, the Pythons that it is for, and the extras of both distributions that it holds.
LOCKS = {
    "venv.txt": (("3.11", "3.12", "3.13", "3.14"), ("openfhe", "flower", "databases", "baselines", "dev", "lock")),
    "examples.txt": (("3.11", "3.12", "3.13", "3.14"), ("flower", "examples")),
    "venv-openfhe.txt": (("3.10",), ("openfhe", "dev")),
}
SAME_VERSION = f"fheval=={__version__}"
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
    requirements = [*PRODUCT["dependencies"], *LAB["dependencies"]]
    requirements.remove(SAME_VERSION)  # installed from this repository
    for extra in LOCKS[lock][1]:
        requirements += EXTRAS[extra]
    assert unmet(lock, python, requirements) == [], "run `make lock`"


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_of_the_docs_satisfies_their_group(python: str) -> None:
    assert unmet("docs.txt", python, GROUPS["docs"]) == [], "run `make lock`"


def test_an_unmet_requirement_is_found() -> None:
    wanted = ["numpy>=99", "no-such-package", "numpy>=99; python_version < '3.11'", "numpy"]
    assert unmet("venv.txt", "3.12", wanted) == ["numpy>=99", "no-such-package"]


def test_the_laboratory_has_the_version_of_fheval_and_asks_for_it() -> None:
    assert LAB["version"] == __version__
    assert SAME_VERSION in LAB["dependencies"]


def test_extras_of_the_two_distributions_have_names_of_their_own() -> None:
    assert not PRODUCT["optional-dependencies"].keys() & LAB["optional-dependencies"].keys()


@pytest.mark.parametrize("lock", LOCKS)
def test_the_repositorys_own_distributions_are_not_locked(lock: str) -> None:
    assert not [entry for entry in entries(lock) if entry.startswith("fheval")]


@pytest.mark.parametrize("lock", [*LOCKS, "docs.txt"])
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
