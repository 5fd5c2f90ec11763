"""Where the paper's published evaluation data lie on this machine, if they do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parent.parent


def published_file(name: str) -> Path:
    """Find a file of the data folder, or skip the test by that file's name.

    The folder is FHEVAL_DATA, or else `shared/data` beside the repository.
    """
    folder = Path(os.environ.get("FHEVAL_DATA", _REPOSITORY.parent / "shared" / "data"))
    path = folder / name
    if not path.is_file():
        pytest.skip(f"published data file {name} not found; set FHEVAL_DATA to the folder that holds it")
    return path
