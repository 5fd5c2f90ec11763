"""Figures: numbers beside their bars, places that values say, words for those who see no picture, colours for all."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from fheval.drawing.figures import Estimate, Trace, calibration, decision_curve, forest, fragment, precision_recall, roc
from fheval.drawing.figures import style as figure_style
from fheval.drawing.markup import Element, write
from fheval.drawing.plots import Axis, Series, plot

X = [number / 50 for number in range(51)]
CURVE = Trace("new <b>", X, [x**0.3 for x in X])
BANDED = Trace("old", X, [x**0.5 for x in X], [max(x**0.5 - 0.1, 0) for x in X], [min(x**0.5 + 0.1, 1) for x in X])


def trial() -> Element:
    return forest(
        [
            Estimate("all", 0.912, 0.9, 0.93, "0.9120", "0.9000 to 0.9300", whole=True),
            Estimate("sex=F", 0.92, text="0.9200"),
            Estimate("sex=X", None, remark="fewer than 10 rows"),
        ],
        title="AUC",
        caption="Bars are 95 % intervals.",
        limits=(0.0, 1.0),
    )


def test_a_forest_is_a_table_with_its_numbers() -> None:
    text = write(trial())
    for said in ("0.9120", "0.9000 to 0.9300", "0.9200", "none", "fewer than 10 rows", "<caption>AUC</caption>"):
        assert said in text


def test_bars_lie_where_their_numbers_say() -> None:
    first, second, _ = (
        row.find("td[@class='bar']/svg") for row in trial().iter("tr") if row.find("th[@scope='row']") is not None
    )
    assert first is not None
    assert second is not None
    interval = next(line for line in first.iter("line") if line.get("class") == "interval" and line.get("y1") == "50%")
    low, high = (float(str(interval.get(end)).rstrip("%")) for end in ("x1", "x2"))
    places = [float(str(marker.get("x")).rstrip("%")) for svg in (first, second) for marker in svg.findall("svg")[-1:]]
    assert places[0] == pytest.approx(low + (high - low) * 0.012 / 0.03, abs=0.02)
    assert places[1] == pytest.approx(low + (high - low) * 0.02 / 0.03, abs=0.02)


def test_columns_without_content_are_left_out() -> None:
    text = write(forest([Estimate("all", 0.9, text="0.9")], title="AUC", caption="One number."))
    assert "interval" not in text
    assert "remark" not in text


def test_a_forest_of_differences_shows_zero() -> None:
    text = write(forest([Estimate("new − old", 0.02, 0.01, 0.03)], title="d", caption="c", zero=True))
    assert 'class="zero"' in text


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-9, -3.0, 1e6])
def test_any_number_can_be_drawn(value: float) -> None:
    text = write(forest([Estimate("one", value)], title="t", caption="c"))
    assert "nan" not in text
    assert "-0%" not in text


@pytest.mark.parametrize("draw", [roc, precision_recall, calibration, decision_curve])
def test_curves_have_words_for_those_who_see_none(draw: type) -> None:
    figure: Element = draw([CURVE, BANDED])
    drawing = figure.find("svg")
    assert drawing is not None
    assert drawing.get("role") == "img"
    assert "points from" in str(drawing.get("aria-label"))
    assert figure.find("details//table/tbody/tr/th") is not None
    assert "<b>" not in write(figure)


def test_an_uncertain_curve_has_a_band() -> None:
    bands = [each for each in roc([BANDED]).iter("polygon") if "band" in str(each.get("class"))]
    assert len(bands) == 1
    assert len(str(bands[0].get("points")).split()) == 2 * len(X)


def test_net_benefit_keeps_room_for_what_is_worth_a_look() -> None:
    falling = Trace("act on all", X, [0.3 - 0.7 * x / (1 - x) if x < 1 else float("-inf") for x in X])
    text = write(decision_curve([Trace("new", X, [0.3 * (1 - x) for x in X])], treat_all=falling))
    assert "inf" not in text
    assert ">0.4<" in text or ">0.5<" in text


def test_an_error_bar_that_leaves_the_axis_says_so() -> None:
    beyond = Series("t", ((1.0, 1.0), (2.0, 1.0)), spread=((0.5, 9.0), (0.5, 1.5)))
    text = write(plot([beyond], Axis("x"), Axis("y", bounds=(0.0, 2.0)), title="t", caption="c"))
    assert text.count("beyond") == 1


def test_a_fragment_brings_its_style_and_nothing_else() -> None:
    text = fragment(roc([CURVE]))
    assert "<style>" in text
    assert "<script" not in text
    assert "http" not in text


# Machado, Oliveira and Fernandes (2009), severity 1: what each kind of colour-blindness makes of linear RGB.
BLINDNESS = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
    "none": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
}


def palettes() -> list[dict[str, str]]:
    """The colours of light, dark and print."""
    return [dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", part)) for part in figure_style().split("@media")[:3]]


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("palette", range(3))
def test_the_first_lines_stay_apart_for_colour_blind_readers(palette: int, blindness: str) -> None:
    colours = palettes()[palette]
    seen = [lab(np.array(BLINDNESS[blindness]) @ linear(colours[f"series-{number}"])) for number in (1, 2, 3)]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 15


@pytest.mark.parametrize("palette", range(3))
def test_lines_and_letters_stand_out_from_the_paper(palette: int) -> None:
    colours = palettes()[palette]
    light = {
        name: float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour)) + 0.05 for name, colour in colours.items()
    }
    for name in colours:
        contrast = max(light[name], light["paper"]) / min(light[name], light["paper"])
        if name.startswith("series"):
            assert contrast > 3, name
        elif name in ("ink", "faint", "accent"):
            assert contrast > 4.5, name
