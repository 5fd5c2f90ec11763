"""Plots: every point lies where its value says, and axes cover what is drawn."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fheval.drawing.markup import Element, write
from fheval.drawing.plots import Axis, Scale, Series, plot, written

POSITIVE = st.floats(1e-12, 1e12)


@given(st.lists(POSITIVE, min_size=1, max_size=20), st.booleans())
def test_an_axis_covers_its_values_with_few_ticks(values: list[float], log: bool) -> None:
    scale = Scale.over(Axis("x", log=log), values)
    slack = 1e-6 * max(map(abs, values))
    assert scale.low <= min(values) + slack
    assert scale.high >= max(values) - slack
    assert 2 <= len(scale.ticks) <= 9
    assert all(0 <= scale.place(value) <= 1 for value in values)
    assert all(low < high for low, high in pairwise(scale.ticks))


@given(st.lists(POSITIVE, min_size=2, max_size=20, unique=True), st.booleans())
def test_a_larger_value_lies_no_lower(values: list[float], log: bool) -> None:
    scale = Scale.over(Axis("x", log=log), values)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)


def test_bounds_cut_an_axis_off() -> None:
    scale = Scale.over(Axis("error", log=True, bounds=(1e-8, 10.0)), [1e-30, 1e40])
    assert (scale.low, scale.high) == (1e-8, 10.0)
    assert (scale.place(1e-30), scale.place(1e40)) == (0.0, 1.0)
    assert set(scale.ticks) <= {10.0**power for power in range(-8, 2)}


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (0.25, "0.25"), (12000.0, "12,000"), (3.5e-6, "3.5·10⁻⁶")])
def test_ticks_are_written_for_people(value: float, text: str) -> None:
    assert written(value) == text


def drawn() -> Element:
    measured = Series("measured", ((0.0, 0.0), (50.0, 1.0), (100.0, 2.0)), spread=((0.0, 0.2), (0.9, 1.1), (1.9, 2.0)))
    printed = Series("printed", ((100.0, 1.0),), reference=True)
    return plot([measured, printed], Axis("parties"), Axis("seconds"), title="Time <b>", caption="Nothing & all.")


def test_points_lie_where_their_values_say() -> None:
    line = next(drawn().iter("polyline")).get("points") or ""
    (x0, y0), (x1, y1), (x2, y2) = ([float(part) for part in pair.split(",")] for pair in line.split())
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y2 < y0


def test_every_line_is_named_and_marked_and_strings_stay_text() -> None:
    figure = drawn()
    text = write(figure)
    assert text.count("<li>") == 2
    assert "measured: 50, 1" in text
    assert "reference" in text
    assert "<b>" not in text
    assert "Time &lt;b&gt;" in text
    assert "Nothing &amp; all." in text


def test_lines_differ_by_more_than_colour() -> None:
    lines = [Series(str(number), ((0.0, float(number)), (1.0, 1.0))) for number in range(4)]
    figure = plot(lines, Axis("x"), Axis("y"), title="t", caption="c")
    shapes = [entry.find("svg") for entry in figure.iter("li")]
    outlines = {(child.tag, child.get("points")) for svg in shapes if svg is not None for child in list(svg)[1:]}
    assert len(outlines) == 4
