"""Markdown for papers and model cards: the items that a round answers, its numbers, and no cell that breaks out."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np

from fheval import Study, evaluate
from fheval.evaluation import Result
from fheval.report.account import account_of
from fheval.report.markdown import round_markdown
from fheval_lab.clear import ClearEngine

WHEN = datetime(2026, 11, 15, 12, 30, tzinfo=timezone.utc)


def result(name: str = "sepsis") -> Result:
    rng = np.random.default_rng(1)
    labels = [rng.integers(0, 2, 60) for _ in range(3)]
    parties = [(each, np.clip(0.3 * each + 0.7 * rng.random(60), 0, 1)) for each in labels]
    study = Study.of(name=name, metrics=["auc", "recall@0.5"], interval=0.95, replicates=40, decision_points=20)
    return evaluate(parties, study=study, engine=ClearEngine())


def test_items_and_card_have_the_numbers_of_the_round() -> None:
    done = result()
    text = round_markdown(done, account_of(done), WHEN)
    for item in ("10 sample size", "12e performance measures", "12e intervals", "14 fairness", "18c protocol", "23a"):
        assert f"| {item}" in text
    assert done.study is not None
    assert done.study.hash().hex() in text
    for row in done.results:
        assert f"{row.value:.4f}" in text
        assert f"{row.low:.4f} to {row.high:.4f}" in text
    assert "Left to the authors" in text
    assert "## Model card: evaluation" in text


def test_every_row_of_a_table_has_the_columns_of_its_head() -> None:
    text = round_markdown(result(), account_of(result()), WHEN)
    for block in text.split("\n\n"):
        if block.startswith("| "):
            assert len({line.replace("\\|", "").count("|") for line in block.splitlines()}) == 1
