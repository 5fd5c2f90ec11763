"""What a result shows of itself: in a notebook, at a prompt, as a frame, as flat metrics, on pages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fheval
from fheval import ConfigError, Result, Row
from fheval.evaluation import shown
from fheval_lab.clear import ClearEngine


def parties(models: int = 1) -> list[Any]:
    rng = np.random.default_rng(8)
    made = []
    for _ in range(3):
        labels = rng.integers(0, 2, 300)
        scores = {f"m{n}": np.clip(rng.normal(0.4 + 0.1 * (n + 1) * labels, 0.2), 0, 1) for n in range(models)}
        made.append((labels, scores if models > 1 else scores["m0"]))
    return made


@pytest.fixture(scope="module")
def result() -> Result:
    asked: dict[str, Any] = {"metrics": ["auc", "brier"], "ci": 0.9, "replicates": 20, "decision_points": 50}
    return fheval.evaluate(parties(2), **asked, engine=ClearEngine())


@pytest.fixture(scope="module")
def curves() -> Result:
    return fheval.evaluate(parties(), release="curve", allow_curves=True, engine=ClearEngine())


def test_a_frame_has_a_line_for_each_number(result: Result) -> None:
    frame = result.to_frame()
    assert frame.height == len(result.results)
    assert frame.columns[:5] == ["metric", "model", "class", "group", "value"]
    assert frame["value"].to_list() == [row.value for row in result.results]
    assert fheval.Result.to_frame(result).equals(frame)


def test_flat_metrics_have_plain_numbers(result: Result) -> None:
    flat = result.as_metrics()
    assert flat["auc/m0"] == result.value("auc", model="m0")
    assert flat["auc/m0.low"] < flat["auc/m0"] < flat["auc/m0.high"]
    assert all(type(number) is float for number in flat.values())
    assert shown.flat_metrics([Row(metric="auc", error="undefined")]) == {}


def test_flat_names_are_ones_that_loggers_take() -> None:
    """MLflow's own rule, by which it refuses a whole batch of metrics for one name."""
    metrics, groups = (
        ("f1@0.3", "lr+", "lr-", "o/e:1", "o/e"),
        (None, "age=<50", "age=>50", "ward=4 (ß) #1", "ward=4 (ß) %1"),
    )
    rows = [Row(metric=metric, model="a - b", group=group, value=0.5) for metric in metrics for group in groups]
    names = list(shown.flat_metrics(rows))
    assert len(names) == len(rows)
    assert all(re.fullmatch(r"[/\w.\- :]+", name) for name in names), names


def test_json_is_that_of_the_command_line(result: Result, tmp_path: Path) -> None:
    text = result.to_json(tmp_path / "a.json")
    assert json.loads(text) == json.loads((tmp_path / "a.json").read_text()) == json.loads(json.dumps(result.to_dict()))


def test_as_many_digits_are_printed_as_mean_something() -> None:
    """Four decimals where the release was rounded to 1e-4, fewer where it was rounded further."""
    for precision, digits in ((1e-4, 4), (5e-2, 2)):
        found = fheval.evaluate(parties(), precision=precision, engine=ClearEngine())
        line = str(found).splitlines()[-1]
        value = line.split(" ± ")[0].split()[-1]
        assert len(value.split(".")[1]) == digits, line
        # One release in ten ends with a zero, and has no more digits than are printed.
        assert str(found.auc) not in str(found) or found.auc == float(value)
        assert value in found._repr_html_()


def test_a_notebook_shows_a_table(result: Result) -> None:
    html = result._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == 1 + len(result.results)


def test_names_are_escaped() -> None:
    labels, scores = parties()[0]
    found = fheval.evaluate([(labels, {"<script>": scores})] * 3, metrics=["auc", "f1"], engine=ClearEngine())
    for html in (found._repr_html_(), found.plot()._repr_html_(), found.plot().page):
        assert "<script" not in html


def test_pictures(result: Result, curves: Result, tmp_path: Path) -> None:
    assert result.plot().page.count("<figure") >= 1
    assert result.plot("forest").page.count("<figure") >= 1
    everything = curves.plot().page.count("<figure")
    kinds = ("roc", "precision-recall", "calibration", "decision")
    each = [curves.plot(kind).page.count("<figure") for kind in kinds]
    assert each == [1] * len(kinds)
    assert everything == len(kinds) + curves.plot("forest").page.count("<figure")
    curves.plot("roc").save(tmp_path / "roc.html")
    assert "ROC" in (tmp_path / "roc.html").read_text()
    assert curves.plot("roc")._repr_html_().startswith("<iframe srcdoc=")


def test_pictures_that_cannot_be(result: Result) -> None:
    with pytest.raises(ConfigError, match="no picture 'pie'"):
        result.plot("pie")
    with pytest.raises(ConfigError, match="release='curve'"):
        result.plot("roc")


def test_the_report_is_the_page_of_the_command(result: Result, tmp_path: Path) -> None:
    result.report(tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "What was revealed, and to whom" in text


def test_without_the_pages_it_is_said(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "_presenters", [])
    with pytest.raises(fheval.LocalProtocolError, match="Import fheval"):
        str(result)
