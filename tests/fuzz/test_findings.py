"""What campaigns have found, kept as small cases; and a moment of each campaign."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fheval.counting import count_file
from fheval.errors import InputError
from fuzz.targets import TARGETS

TESTS = Path(__file__).parents[1]
CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("file", sorted((CORPUS / "scores").iterdir()), ids=lambda file: file.name)
def test_damaged_score_files_are_refused_in_a_sentence(file: Path) -> None:
    with pytest.raises(InputError, match=file.name):
        count_file(file, 20)


def a_moment(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "HANG_SECONDS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", [name for name in TARGETS if not name.startswith("ciphertexts")])
def test_a_moment_of_fuzzing(target: str) -> None:
    assert "cases" in a_moment("fuzz", "--target", target, "--seconds", "0.5", "--seed", "1")


@pytest.mark.slow
def test_a_few_scripts() -> None:
    assert "evaluations with a result" in a_moment("fuzz.schedules", "--scripts", "8", "--seed", "1")


def test_without_its_guard_a_script_finds_it() -> None:
    """A model that notices nothing would pass every script."""
    program = (
        "import sys\n"
        "from fheval.party.ledger import Ledger\n"
        "Ledger.releases = lambda self, lineage: 0\n"
        "from fuzz import schedules\n"
        "sys.argv = ['schedules', '--scripts', '3']\n"
        "sys.exit(schedules.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "HANG_SECONDS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert (done.returncode, "counted 0 releases" in done.stdout) == (1, True), done.stdout + done.stderr[-2000:]
    assert "Again: python -m fuzz.schedules --replay" in done.stdout
