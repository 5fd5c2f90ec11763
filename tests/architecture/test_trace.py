"""From a score file to a result, a reader passes few modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "trace.py"


def test_a_score_file_becomes_a_result_in_few_modules() -> None:
    """Fewer than the two dozen and a half that a reader keeps in mind; the tool lists them."""
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, timeout=120, check=True)
    *modules, count = done.stdout.splitlines()
    assert count == f"{len(modules)} modules"
    assert 10 < len(modules) <= 25, done.stdout
    assert {line.split()[0] for line in modules} >= {"fheval.cli", "fheval.study", "fheval.protocols.play"}
