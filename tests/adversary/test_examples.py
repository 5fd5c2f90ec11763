"""The examples in the laboratory's help, run as they are written; what takes longer is run by targets of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hosts import site
from hosts.site import Host
from vault.trial import write_scores

LAB = (
    "fheval attack --protocol paper-malicious",
    "fheval attack --protocol padded-verified --strategy replay --strategy drop-party --tries 100 --json -",
    "fheval baseline dpauc --labels y.npy --scores s.npy --parties 15 --epsilon 8 --decision-points 100",
    "fheval baseline mpc --labels y.npy --scores s.npy --parties 3 --json -",
)


@pytest.mark.slow
@pytest.mark.parametrize("line", LAB)
def test_it_runs_as_it_is_written(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A minute of the processor, of which two are busy with other tests.
    monkeypatch.setattr(site, "STEP_SECONDS", 600)
    write_scores(tmp_path / "scores.npy", 1, rows=1500)
    labels, scores = np.load(tmp_path / "scores.npy").T
    np.save(tmp_path / "y.npy", labels)
    np.save(tmp_path / "s.npy", scores)
    assert Host("here", "", tmp_path, ()).run(line)
