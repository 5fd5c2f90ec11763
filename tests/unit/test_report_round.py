"""The page of `--report`: what it tells, that no string becomes markup, and that it needs nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fheval import Grid, Study, Table, evaluate
from fheval.evaluation import Result
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Words
from fheval.report.account import account_of, file_names
from fheval.report.curves import roc_trace
from fheval.report.round_page import round_page
from fheval.report.wording import metric_in_words, shown_auc, warning
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
    for role in (*(view.who for view in PROTOCOLS[protocol].words.views), "the aggregator", "opening the result"):
        assert role in text
    exact = done.precision == "exact"
    assert (warning(done) is not None) == exact
    assert (str(warning(done)) in text) == exact
    assert "15 November 2026, 12:30 UTC" in text


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
        assert metric_in_words(row.metric) in text
        assert f"{row.value:.4f}" in text
        assert f"{row.low:.4f} to {row.high:.4f}" in text


def releases() -> Iterator[tuple[str, str]]:
    """Every protocol with every release that it has."""
    for name, protocol in PROTOCOLS.items():
        yield name, "ratios"
        if protocol.counts is not None:
            yield name, "curve"
            yield name, "noisy-curve"


@pytest.mark.parametrize(("protocol", "release"), list(releases()))
def test_who_learnt_what_is_told_in_the_words_of_the_protocol_that_ran(protocol: str, release: str) -> None:
    noisy, counts = release == "noisy-curve", PROTOCOLS[protocol].counts
    words = PROTOCOLS[protocol].words if counts is None or release == "ratios" else counts.words
    words = words.under_noise or words if noisy else words
    terms = {"epsilon": 1.0} if noisy else {"reveals": "counts"}
    study = Study.of(name="trial", protocol=protocol, decision_points=20, release=release, **terms)
    done = evaluate(parties(), study=study, engine=ClearEngine())
    text = " ".join(" ".join(read(round_page(account_of(done), WHEN)).text).split())
    for told in (*(view.sees for view in words.views), words.together, words.upload, *words.steps, words.aggregator):
        assert told in text
    others = {each.together for each in all_words()} - {words.together}
    assert not [other for other in others if other not in words.together and other in text]
    assert "not the result" in text
    assert ("and the global counts at every decision point, from which" in text) == (release == "curve")
    assert ("and the noisy global counts at every decision point" in text) == noisy
    assert ("adds a share of noise" in text) == noisy
    assert ("blinded answer, which" in text) == (release == "ratios")
    assert ("relies on an aggregator that follows it" in text) == (not PROTOCOLS[protocol].resists)
    assert "Study trial" in text


def all_words() -> Iterator[Words]:
    for protocol in PROTOCOLS.values():
        yield protocol.words
        if protocol.counts is not None:
            yield protocol.counts.words
            assert protocol.counts.words.under_noise is not None
            yield protocol.counts.words.under_noise


@pytest.mark.parametrize("release", ["curve", "noisy-curve"])
def test_a_trial_does_not_claim_what_its_release_contradicts(release: str) -> None:
    """Nobody agreed on anything beforehand: a page that shows counts must not say that none are given away."""
    terms: dict[str, Any] = {"epsilon": 1.0} if release == "noisy-curve" else {"allow_curves": True}
    done = evaluate(parties(), decision_points=20, engine=ClearEngine(), **{"release": release, **terms})
    text = " ".join(read(round_page(account_of(done), WHEN)).text)
    assert "not to give away the counts" not in text
    assert "may be asked" not in text
    # Counts are released without FHE, and so without keys that a size could be told of.
    assert "63 B" not in text


def test_numbers_under_noise_show_few_digits_and_what_no_interval_includes() -> None:
    done = evaluate(parties(), release="noisy-curve", epsilon=1.0, engine=ClearEngine())
    page = round_page(account_of(done), WHEN)
    (ece,) = (row for row in done.results if row.metric == "ece")
    assert f"{ece.value:.3f}" in page
    assert f"{ece.value:.4f}" not in page
    assert "no interval includes that" in page
    assert "act on all" in page


def test_a_released_curve_is_drawn() -> None:
    done = evaluate(parties(), release="curve", allow_curves=True, decision_points=20, engine=ClearEngine())
    page = round_page(account_of(done), WHEN)
    for title in ("ROC", "Precision and recall", "Calibration", "Decision curve"):
        assert f"<h3>{title}</h3>" in page
    (curve,) = done.curves
    drawn = roc_trace(curve)
    assert (list(drawn.x), list(drawn.y)) == tuple(each.tolist() for each in curve.roc())


def test_net_benefit_of_a_curve_is_that_of_its_definition() -> None:
    rows = parties()
    done = evaluate(rows, release="curve", allow_curves=True, decision_points=Grid.even(11), engine=ClearEngine())
    labels, scores = (np.concatenate(part) for part in zip(*rows, strict=True))
    points, benefit, everyone = done.curves[0].net_benefit()
    for point, found, all_of_them in zip(points, benefit, everyone, strict=True):
        called, odds = scores > point, point / (1 - point)
        true, false = np.mean(called & (labels == 1)), np.mean(called & (labels == 0))
        assert found == pytest.approx(true - false * odds)
        assert all_of_them == pytest.approx(np.mean(labels) - np.mean(labels == 0) * odds)


def test_differences_stand_apart_with_their_p_values() -> None:
    rng = np.random.default_rng(3)
    tables = []
    for _ in range(3):
        labels = rng.integers(0, 2, 80)
        good = np.clip(0.6 * labels + 0.4 * rng.random(80), 0, 1)
        tables.append(Table.of(labels, {"new": good, "old": rng.random(80), "same": good}))
    done = evaluate(tables, ci=0.9, replicates=99, decision_points=20, engine=ClearEngine())
    page = round_page(account_of(done), WHEN)
    assert page.index("Differences between models") > page.index("new")
    assert "p ≤ 0.02" in page
    # Equal models differ by nothing: rounding must not leave a sign before a zero.
    assert not re.search(r"[-−]0\.0+\b", re.sub("<style>.*?</style>", "", page, flags=re.DOTALL))


@pytest.mark.parametrize("ci", [None, 0.95])
def test_no_column_is_empty(ci: float | None) -> None:
    page = round_page(account_of(result(metrics=["auc", "f1@0.5"], ci=ci)), WHEN)
    for table in re.findall(r"<table.*?</table>", page, flags=re.DOTALL):
        heads = re.findall(r"<th[^>]*scope=.col[^>]*>(.*?)</th>", table)
        rows = re.findall(r"<tr[^>]*><th[^>]*scope=.row[^>]*>.*?</tr>", table, flags=re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
        assert heads
        assert all(any(column) for column in zip(*cells, strict=True))


def test_files_of_one_name_are_told_apart() -> None:
    assert file_names([Path("a/s.csv"), Path("b/s.csv")]) == ["a/s.csv", "b/s.csv"]
    assert file_names([Path("s.csv"), Path("s.csv")]) == ["s.csv"]


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
