"""The page of `fheval reproduce`: every number beside the printed one, plots, what was left out, the machine."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser

from fheval_lab.reproduce.page import reproduction_page, verdict
from fheval_lab.reproduce.run import EXPERIMENTS, Reproduction
from reproduce_outcomes import HOSTILE, every_outcome

WHEN = datetime(2026, 11, 15, 12, 30, tzinfo=timezone.utc)


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def test_noise_tells_how_often_a_curator_errs_less() -> None:
    text = reproduction_page([each for each in every_outcome() if each.name == "noise"], WHEN)
    assert text.count("1.20 ± 0.04") == 4


def test_every_experiment_has_its_part() -> None:
    reader = read(reproduction_page(every_outcome(), WHEN))
    for name in EXPERIMENTS:
        assert ("id", name) in reader.attributes
        assert ("href", f"#{name}") in reader.attributes


def test_values_stand_beside_the_printed_ones_with_their_difference() -> None:
    text = read(reproduction_page(every_outcome(), WHEN)).text
    for shown in ("0.893402", "0.893400", "+2·10⁻⁶", "printed 63.0 ± 723.6", "printed 6.81 MB", "2^−59.9", "2^−60"):
        assert shown in text
    assert "printed 0.891600, difference 0" in text


def test_each_protocol_is_a_line_of_the_figures() -> None:
    reader = read(reproduction_page(every_outcome(), WHEN))
    titles = (
        "Time against decision points",
        "Accuracy against decision points",
        "Time against parties",
        "Traffic against parties",
        "Chebyshev: error against den",
        "Newton–Raphson: error against den",
    )
    for title in titles:
        assert title in reader.text
    assert reader.tags.count("figure") == len(titles)
    # Four protocols over points, parties and traffic, two data sets, two lines of references, division's lines.
    assert reader.tags.count("polyline") >= 3 * 4


def test_what_was_left_out_and_the_machine_are_told() -> None:
    reader = read(reproduction_page(every_outcome(), WHEN))
    assert "labels_criteo.txt not found" in reader.text
    assert "Abacus" in reader.text
    assert "2026-11-15 12:30" in reader.text


def test_no_string_becomes_markup_and_nothing_is_asked_for_from_elsewhere() -> None:
    reader = read(reproduction_page(every_outcome(), WHEN))
    assert HOSTILE in reader.text
    assert not {"script", "img", "iframe", "object", "form"} & set(reader.tags)
    addresses = {value for name, value in reader.attributes if name in ("src", "href", "action")}
    assert {each for each in addresses if each and not each.startswith("#")} == {"data:,"}


def test_an_experiment_without_rows_is_no_error() -> None:
    empty = [Reproduction(name, (), (), ()) for name in EXPERIMENTS]
    reader = read(reproduction_page(empty, WHEN))
    assert "There are no data for this table." in reader.text
    assert "figure" not in reader.tags


def test_the_verdict_comes_first_and_names_what_was_missed() -> None:
    outcomes = every_outcome()
    assert re.match(r"(\d+) of \1 printed AUCs were met", verdict(outcomes))
    moved = [
        replace(each, rows=tuple(replace(row, value=0.5) if row.column == "scikit-learn" else row for row in each.rows))
        for each in outcomes
    ]
    assert "Not met: scikit-learn" in verdict(moved)
    page = reproduction_page(outcomes, WHEN)
    assert page.index('class="verdict"') < page.index("<nav")


def test_the_verdict_counts_what_is_printed_and_no_noise() -> None:
    """A printed value beside which five protocols stand is one; a mean under noise as wide as 700 is no evidence."""
    outcomes = every_outcome()
    printed = {(row.data, row.size, row.printed) for each in outcomes[:2] for row in each.rows if not row.printed_std}
    libraries = 2 * 2  # MPC's and TensorFlow's are the same numbers here as scikit-learn's
    assert verdict(outcomes).startswith(f"{len(printed) + libraries} of ")
    assert "printed with a deviation above 1" in reproduction_page(outcomes, WHEN)
