"""An adversary who computes checksums gets an `EngineError` or garbage, and never ends the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fheval.engines import Engine

FORGER = Path(__file__).parents[1] / "engine_forgeries.py"

# SEAL's format, honest but for one field, and bare residues that no honest sender has.
BARE = (f"all {2**60}", f"all {2**63}", "residue of", "short", "long")
REFUSED_BY_NAME = {
    "seal": (
        *("form", "scale", "size", "ring", "primes", "words", "level", "correction", "residue", "twice", "nothing"),
        *BARE,
    ),
    "openfhe": (*BARE, "before vector", "length vector", "twice", "nothing"),
    "clear": ("short", "long", "twice, None"),
}


@pytest.mark.parametrize("parameters", ["ckks", "bfv", "linear"])
def test_forged_bytes_never_end_the_process(engine: Engine, parameters: str) -> None:
    command = [sys.executable, "-W", "error", str(FORGER), engine.name, parameters]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, str] = json.loads(done.stdout)
    assert len(outcomes) > 80
    assert {name: outcome for name, outcome in outcomes.items() if outcome not in ("refused", "read")} == {}
    must_fail = {name for name in outcomes for part in REFUSED_BY_NAME[engine.name] if part in name}
    assert len(must_fail) >= 8
    assert {name for name in must_fail if outcomes[name] == "read"} == set()
    if engine.name == "seal":
        # Without a forged field, what the forger writes is a ciphertext: the others fail for their own reason.
        assert outcomes["decrypt, honest, None"] == "read"
