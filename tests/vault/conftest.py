"""Fixtures: kits are made once, ledgers and data for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fheval.consortium.authority import load_authority
from keys_consortium import Consortium
from vault.trial import Trial, make_consortium, running

# A ledger waits for the disk at every answer. In memory that costs nothing, and other tests show that it does.
MEMORY = Path("/dev/shm")  # noqa: S108 (a random name is made in it)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short-lived directory with a short name, in memory where there is such a file system."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="fheval-") as made:
        yield Path(made)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return make_consortium(tmp_path_factory.mktemp("consortium"))


@pytest.fixture
def consortium(made_once: Consortium, folder: Path) -> Consortium:
    """A consortium of the test's own, which it may change."""
    shutil.copytree(made_once.authority.directory, folder / "authority")
    return Consortium(load_authority(folder / "authority"))


@pytest.fixture
def trial(consortium: Consortium, folder: Path) -> Iterator[Trial]:
    with running(folder, consortium) as trial:
        yield trial
