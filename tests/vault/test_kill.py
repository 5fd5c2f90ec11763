"""A vault that is killed at any write to its ledger neither answers twice nor forgets anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vault import kill_everywhere

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
def test_killed_at_every_ledger_write(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, kill_everywhere.__file__, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kills = json.loads(done.stdout)
    # A leader writes at five stages and a party at two, some eight statements each, each with two chances.
    assert kills["opening"] > 60
    assert kills["leader"] > 70
    assert kills["party"] > 25
