"""Line plots as inline SVG: sharp at any size and on paper, in the page's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fheval.report.axes import Axis, Scale, written
from fheval.report.elements import Content, Element, element

# In units of the drawing; a phone shows it at about 0.8 times its size, which keeps its letters readable.
_WIDTH, _HEIGHT = 440.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 22.0, 26.0, 46.0
_MARKER = 4.0
_COLOURS = ("series-1", "series-2", "series-3", "series-4", "series-6")
_REFERENCE_COLOUR = "series-5"


@dataclass(frozen=True, slots=True)
class Series:
    """One line: points (x, y), for each the lowest and highest y that was measured, if any.

    A `reference` is a value from elsewhere: dashed, in grey.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    spread: tuple[tuple[float, float], ...] = ()
    reference: bool = False


def plot(series: Sequence[Series], x: Axis, y: Axis, *, title: str, caption: str) -> Element:
    """A figure: the drawing, the names of its lines, and a caption. Lines differ by colour and by marker."""
    across = Scale.over(x, [point[0] for each in series for point in each.points])
    up = Scale.over(y, [value for each in series for value in _heights(each)])
    styles = _styles(series)
    drawing = element(
        "svg",
        element("title", title),
        _grid(across, up),
        element("text", x.label, x=(_LEFT + _WIDTH - _RIGHT) / 2, y=_HEIGHT - 8, text_anchor="middle"),
        element("text", y.label, x=4, y=14),
        [_line(each, style, across, up) for each, style in zip(series, styles, strict=True)],
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=f"{title}. {y.label} against {x.label}.",
    )
    names = [_legend_entry(each, style) for each, style in zip(series, styles, strict=True)]
    legend = element("ul", names, class_="legend")
    return element("figure", element("h3", title), drawing, legend, element("figcaption", caption))


@dataclass(frozen=True, slots=True)
class _Style:
    colour: str
    marker: int


def _styles(series: Sequence[Series]) -> list[_Style]:
    return [
        _Style(_REFERENCE_COLOUR if each.reference else _COLOURS[number % len(_COLOURS)], number)
        for number, each in enumerate(series)
    ]


def _heights(series: Series) -> list[float]:
    return [height for _, height in series.points] + [end for ends in series.spread for end in ends]


def _grid(across: Scale, up: Scale) -> list[Element]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    drawn = []
    for tick in up.ticks:
        height = _at_height(up, tick)
        drawn.append(element("line", x1=_LEFT, x2=right, y1=height, y2=height, class_="grid"))
        drawn.append(
            element(
                "text", written(tick), x=_LEFT - 7, y=height + 4, text_anchor="end", class_="tick", aria_hidden="true"
            )
        )
    for tick in across.ticks:
        place = _at_width(across, tick)
        drawn.append(element("line", x1=place, x2=place, y1=bottom, y2=bottom + 4, class_="axis"))
        drawn.append(
            element(
                "text", written(tick), x=place, y=bottom + 18, text_anchor="middle", class_="tick", aria_hidden="true"
            )
        )
    drawn.append(element("line", x1=_LEFT, x2=right, y1=bottom, y2=bottom, class_="axis"))
    return drawn


def _line(series: Series, style: _Style, across: Scale, up: Scale) -> Element:
    places = [(_at_width(across, x), _at_height(up, y)) for x, y in series.points]
    steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    kind = f"line {style.colour}" + (" reference" if series.reference else "")
    drawn: list[Content] = (
        [element("polyline", points=steps, class_=kind, style="fill:none")] if len(places) > 1 else []
    )
    for (x, _), (low, high) in zip(places, series.spread, strict=False):
        ends = _at_height(up, low), _at_height(up, high)
        drawn.append(
            element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=ends[0], y2=ends[1], class_=f"spread {style.colour}")
        )
    for place, (x, y) in zip(places, series.points, strict=True):
        drawn.append(_marker(style, *place, f"{series.name}: {written(x)}, {y:.4g}"))
    return element("g", drawn)


def _marker(style: _Style, x: float, y: float, told: str | None = None) -> Element:
    size = _MARKER
    corners = {
        1: [(-size, -size), (size, -size), (size, size), (-size, size)],
        2: [(0, -size * 1.3), (size * 1.2, size), (-size * 1.2, size)],
        3: [(0, -size * 1.35), (size * 1.35, 0), (0, size * 1.35), (-size * 1.35, 0)],
        4: [(0, size * 1.3), (size * 1.2, -size), (-size * 1.2, -size)],
    }.get(style.marker % 5)
    title = element("title", told) if told else None
    if corners is None:
        return element("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=size, class_=style.colour)
    shape = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return element("polygon", title, points=shape, class_=style.colour)


def _legend_entry(series: Series, style: _Style) -> Element:
    kind = f"line {style.colour}" + (" reference" if series.reference else "")
    sample = element(
        "svg",
        element("line", x1=1, x2=27, y1=7, y2=7, class_=kind),
        _marker(style, 14, 7),
        viewBox="0 0 28 14",
        aria_hidden="true",
    )
    return element("li", sample, series.name)


def _at_width(scale: Scale, value: float) -> float:
    return round(_LEFT + scale.place(value) * (_WIDTH - _LEFT - _RIGHT), 1)


def _at_height(scale: Scale, value: float) -> float:
    return round(_HEIGHT - _BOTTOM - scale.place(value) * (_HEIGHT - _TOP - _BOTTOM), 1)
