"""The page of `--report`: what it tells, that no string becomes markup, and that it needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from html.parser import HTMLParser

import numpy as np
import pytest

from fheval import evaluate
from fheval.evaluation import Result
from fheval.protocols import PROTOCOLS
from fheval.report.account import account_of
from fheval.report.round_page import round_page
from fheval.report.wording import shown_auc, warning
from fheval_lab.clear import ClearEngine

WHEN = datetime(2026, 11, 15, 12, 30, tzinfo=timezone.utc)
HOSTILE = '"><script>alert(1)</script>&amp;\udcff.csv'


class Reader(HTMLParser):
    """Collects tags, attributes and visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def parties() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    labels = [rng.integers(0, 2, 40) for _ in range(4)]
    return [(each, np.clip(0.3 * each + 0.7 * rng.random(40), 0, 1)) for each in labels]


def result(protocol: str = "padded", metrics: Sequence[str] = ("auc",), ci: float | None = None) -> Result:
    return evaluate(
        parties(), protocol=protocol, metrics=metrics, ci=ci, replicates=40, decision_points=20, engine=ClearEngine()
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_page_tells_the_figure_the_roles_and_the_warning_of_the_release(protocol: str) -> None:
    done = result(protocol)
    text = " ".join(read(round_page(account_of(done), WHEN)).text)
    assert shown_auc(done) in text
    assert protocol in text
    for role in ("each party", "leader, one of them", "aggregator", "opening the result"):
        assert role in text
    exact = done.precision == "exact"
    assert (warning(done) is not None) == exact
    assert (str(warning(done)) in text) == exact
    assert "2026-11-15 12:30" in text


def test_a_rounded_release_shows_no_digit_too_many() -> None:
    done = result("padded")
    page = round_page(account_of(done), WHEN)
    assert f"{done.auc:.4f}" in page
    assert f"{done.auc:.6f}" not in page


def test_several_metrics_are_all_there() -> None:
    done = result(metrics=["auc", "f1@0.5"], ci=0.95)
    text = " ".join(read(round_page(account_of(done), WHEN)).text)
    assert "Metrics over all parties" in text
    for row in done.results:
        assert row.metric in text
        assert f"{row.value:.4f}" in text
        assert f"{row.low:.4f} to {row.high:.4f}" in text


def test_a_metric_without_value_says_why() -> None:
    labels = np.zeros(12, dtype=int)
    done = evaluate(
        [(labels, np.linspace(0, 1, 12))] * 3, metrics=["recall@0.5", "brier"], decision_points=5, engine=ClearEngine()
    )
    text = " ".join(read(round_page(account_of(done), WHEN)).text)
    assert "recall@0.5 is undefined" in text


def test_no_string_becomes_markup() -> None:
    page = round_page(account_of(result(), [HOSTILE]), WHEN)
    reader = read(page)
    assert "script" not in reader.tags
    assert '"><script>alert(1)</script>&amp;?.csv' in "".join(reader.text)
    page.encode("utf-8")


def test_nothing_is_asked_for_from_elsewhere() -> None:
    reader = read(round_page(account_of(result()), WHEN))
    assert not {"script", "img", "iframe", "object", "form"} & set(reader.tags)
    addresses = [value for name, value in reader.attributes if name in ("src", "href", "xlink:href", "action")]
    assert addresses == ["data:,"]
    assert "url(" not in "".join(reader.text)
    assert "@import" not in "".join(reader.text)


def test_the_page_is_laid_out_for_narrow_screens_and_has_headings_for_readers() -> None:
    reader = read(round_page(account_of(result()), WHEN))
    assert ("content", "width=device-width, initial-scale=1") in reader.attributes
    assert ("lang", "en") in reader.attributes
    assert reader.tags.count("h1") == 1
    assert ("scope", "row") in reader.attributes
    assert ("scope", "col") in reader.attributes
