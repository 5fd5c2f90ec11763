"""Tables on a terminal of 80 characters: no name is cut short, and no number broken over two lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, RenderableType

from fheval import Table, evaluate
from fheval.cli.tables import result_panel
from fheval.protocols import PROTOCOLS
from fheval_lab.attacks import STRATEGIES, Consortium, Findings
from fheval_lab.attacks.suite import Tally
from fheval_lab.clear import ClearEngine
from fheval_lab.cli.attack_tables import _section, findings_tables
from fheval_lab.cli.bench import _growth, _ratios, _times

NUMBERS = Path(__file__).resolve().parents[2] / "docs" / "numbers"


def on_80(*parts: RenderableType) -> str:
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(*parts)
    text = captured.get()
    assert "…" not in text
    return text


def test_many_numbers_stay_whole() -> None:
    rng = np.random.default_rng(1)
    tables = []
    for _ in range(3):
        labels = rng.integers(0, 2, 120)
        ages = [["under 50", "50 to 70", "over 70"][row % 3] for row in range(120)]
        tables.append(Table.of(labels, {"new": rng.random(120), "old": rng.random(120)}, groups=ages))
    found = evaluate(
        tables, metrics=["auc", "balanced-accuracy@0.3"], group_column="age", ci=0.95, engine=ClearEngine()
    )
    text = on_80(result_panel(found))
    for row in found.results:
        assert row.metric in text
        assert f"{row.value:.4f}" in text
        assert f"{row.low:.4f} to {row.high:.4f}" in text
    assert "95 % interval" in text


@pytest.mark.parametrize("release", ["curve", "noisy-curve"])
def test_a_release_of_counts_has_no_keys(release: str) -> None:
    labels = np.arange(60) % 2
    parties = [(labels, (labels + 2 * np.arange(60) / 60) / 3)] * 3
    options = {"allow_curves": True} if release == "curve" else {"epsilon": 1.0}
    found = evaluate(parties, engine=ClearEngine(), **{"release": release, **options})  # type: ignore[arg-type]
    text = on_80(result_panel(found))
    assert "average-precision" in text
    assert "public keys" not in text
    assert " 0 B" not in text


def test_benchmarks_name_protocols_in_full() -> None:
    kept = json.loads((NUMBERS / "bench.json").read_text(encoding="utf-8"))["found"]
    text = on_80(_times("seal: ", kept["measurements"]), _growth("", kept["growth"]), _ratios("", kept["ratios"]))
    for name in {one["name"] for one in kept["measurements"]}:
        assert name in text


def test_attacks_are_named_in_full() -> None:
    kept = json.loads((NUMBERS / "attack.json").read_text(encoding="utf-8"))["found"]["protocols"]
    for found in kept:
        for section in ("privacy", "small_field", "several_fields", "counts", "guessing", "nudge", "deviations"):
            if found.get(section):
                on_80(_section("attacks", found[section]))
    for name in PROTOCOLS:
        tallies = [Tally(name=each.name, summary=each.summary, claimed=False, tries=20) for each in STRATEGIES]
        text = on_80(*findings_tables(Findings(consortium=Consortium(protocol=name), engine="seal", tallies=tallies)))
        assert all(each.name in text for each in STRATEGIES)
