"""Pages of an example round and their photographs, where there is a browser to take them."""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from fheval import Study, Table, evaluate
from fheval.report.account import account_of
from fheval.report.round_page import round_page
from fheval_lab.clear import ClearEngine

# The pages say when they were made; a site that is built twice from the same sources is the same.
WHEN = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def hospitals() -> dict[str, Table]:
    """Three hospitals with two models of different quality, drawn by a fixed seed."""
    rng = np.random.default_rng(2026)
    tables = {}
    for name, rows in (("north", 900), ("south", 700), ("east", 400)):
        died = (rng.random(rows) < 0.2).astype(int)
        illness = rng.normal(size=rows) + 1.6 * died
        scores = {
            model: 1 / (1 + np.exp(-(weight * illness + rng.normal(size=rows) * noise - 2.2)))
            for model, weight, noise in (("new", 1.3, 0.6), ("old", 0.9, 1.2))
        }
        tables[name] = Table.of(died, scores, groups=rng.choice(["F", "M"], rows).tolist())
    return tables


def pages() -> dict[str, str]:
    """The report of a comparison, and of released curves."""
    tables = hospitals()
    data = [f"{name}.csv" for name in tables]
    models = ("new", "old")
    compared = Study.of(name="sepsis-2026", models=models, interval=0.95, replicates=200, group_column="sex")
    drawn = Study.of(name="sepsis-curves", models=models, release="curve", reveals="counts")
    return {
        name: round_page(account_of(evaluate(list(tables.values()), study=study, engine=ClearEngine()), data), WHEN)
        for name, study in (("report", compared), ("curves", drawn))
    }


def photograph(page: Path, picture: Path, width: int, height: int) -> bool:
    """Take a picture of a page; False where there is no browser."""
    browser = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if browser is None:
        return False
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    command += [f"--window-size={width},{height}", f"--screenshot={picture}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return picture.is_file()
