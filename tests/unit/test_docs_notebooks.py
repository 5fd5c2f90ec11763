"""The notebooks of the docs run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.py"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    """In an empty folder, hence on the scores of the demonstration."""
    done = subprocess.run([sys.executable, str(notebook)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_shifted_scores_lower_the_pooled_auc_and_not_the_mean() -> None:
    from published_data import published_file

    folder = published_file("labels_10000.txt").parent
    notebook = next(path for path in NOTEBOOKS if path.stem == "mean_of_aucs")
    done = subprocess.run([sys.executable, str(notebook), str(folder)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    told = {" ".join(words[:2]): [float(word) for word in words if word[0].isdigit()] for words in lines}
    expected = {"sites alike": (0.911, 0.911), "shifted scores": (0.911, 0.864), "different patients": (0.871, 0.911)}
    for name, (mean, pooled) in expected.items():
        assert told[name][:2] == [mean, pooled]
        assert told[name][2] == pytest.approx(pooled, abs=1e-3)
