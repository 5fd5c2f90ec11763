"""Line plots as inline SVG: sharp at any size and on paper, in the page's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from fheval.report.page import Content, Element, element

# In units of the drawing; a phone shows it at about 0.8 times its size, which keeps its letters readable.
_WIDTH, _HEIGHT = 440.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 22.0, 26.0, 46.0
_MARKER = 4.0
_COLOURS = ("series-1", "series-2", "series-3", "series-4", "series-6")
_REFERENCE_COLOUR = "series-5"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_TICKS = 6

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows, and whether its scale is logarithmic; `bounds` fixes its ends."""

    label: str
    log: bool = False
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis laid over some values: its ends, its ticks, and the place of any value between 0 and 1."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool

    @classmethod
    def over(cls, axis: Axis, values: Sequence[float]) -> Scale:
        """Take in all values, and on a linear axis zero; ends are ticks unless the axis has bounds.

        >>> Scale.over(Axis("parties"), [5, 100]).ticks
        (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
        >>> Scale.over(Axis("N", log=True), [10, 2000]).ticks
        (10.0, 100.0, 1000.0, 10000.0)
        """
        low, high = axis.bounds or (min(values) if axis.log else min(0.0, *values), max(values))
        if not low < high:
            high = low * 10 if axis.log else low + 1
        ticks = _decades(low, high) if axis.log else _round_steps(low, high)
        if axis.bounds:
            return cls(low, high, tuple(tick for tick in ticks if low <= tick <= high), axis.log)
        return cls(ticks[0], ticks[-1], tuple(ticks), axis.log)

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high one; a value beyond an end is put on it."""
        if self.log:
            share = log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)


def _round_steps(low: float, high: float) -> list[float]:
    rough = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    # Counted in steps, so that ticks carry no rounding from adding up.
    return [number * step for number in range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9)
    stride = ceil((last - first) / (_MOST_TICKS + 1))
    return [10.0**power for power in range(first, last + stride, stride)]


def written(value: float) -> str:
    """A tick's number.

    >>> written(0.02), written(1000.0), written(1e-5), written(1e10), written(2e6)
    ('0.02', '1,000', '10⁻⁵', '10¹⁰', '2·10⁶')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.10g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    shortened = mantissa.rstrip("0").rstrip(".")
    return power if shortened == "1" else f"{shortened}·{power}"


@dataclass(frozen=True, slots=True)
class Series:
    """One line: points (x, y), for each the lowest and highest y that was measured, if any.

    A `reference` is a value from elsewhere: dashed, in grey.
    """

    name: str
    points: Points
    spread: Points = ()
    reference: bool = False

    def colour(self, number: int) -> str:
        return _REFERENCE_COLOUR if self.reference else _COLOURS[number % len(_COLOURS)]

    def stroke(self, number: int) -> str:
        return f"line {self.colour(number)}" + (" reference" if self.reference else "")


def plot(series: Sequence[Series], x: Axis, y: Axis, *, title: str, caption: str) -> Element:
    """A figure: the drawing, the names of its lines, and a caption. Lines differ by colour and by marker."""
    across = Scale.over(x, [point[0] for each in series for point in each.points])
    heights = [height for each in series for _, height in each.points]
    up = Scale.over(y, heights + [end for each in series for ends in each.spread for end in ends])
    drawing = element(
        "svg",
        element("title", title),
        _grid(across, up),
        element("text", x.label, x=(_LEFT + _WIDTH - _RIGHT) / 2, y=_HEIGHT - 8, text_anchor="middle"),
        element("text", y.label, x=4, y=14),
        [_line(each, number, across, up) for number, each in enumerate(series)],
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=f"{title}. {y.label} against {x.label}.",
    )
    legend = element("ul", [_legend_entry(each, number) for number, each in enumerate(series)], class_="legend")
    return element("figure", element("h3", title), drawing, legend, element("figcaption", caption))


def _grid(across: Scale, up: Scale) -> list[Element]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    drawn = []
    for tick in up.ticks:
        height = _at_height(up, tick)
        drawn.append(element("line", x1=_LEFT, x2=right, y1=height, y2=height, class_="grid"))
        drawn.append(_tick(tick, _LEFT - 7, height + 4, "end"))
    for tick in across.ticks:
        place = _at_width(across, tick)
        drawn.append(element("line", x1=place, x2=place, y1=bottom, y2=bottom + 4, class_="axis"))
        drawn.append(_tick(tick, place, bottom + 18, "middle"))
    return [*drawn, element("line", x1=_LEFT, x2=right, y1=bottom, y2=bottom, class_="axis")]


def _tick(value: float, x: float, y: float, anchor: str) -> Element:
    return element("text", written(value), x=x, y=y, text_anchor=anchor, class_="tick", aria_hidden="true")


def _line(series: Series, number: int, across: Scale, up: Scale) -> Element:
    places = [(_at_width(across, x), _at_height(up, y)) for x, y in series.points]
    drawn: list[Content] = []
    if len(places) > 1:
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn.append(element("polyline", points=steps, class_=series.stroke(number), style="fill:none"))
    for (x, _), ends in zip(places, series.spread, strict=False):
        at, (low, high) = f"{x:.1f}", (_at_height(up, end) for end in ends)
        drawn.append(element("line", x1=at, x2=at, y1=low, y2=high, class_=f"spread {series.colour(number)}"))
    for place, (x, y) in zip(places, series.points, strict=True):
        drawn.append(_marker(series, number, *place, element("title", f"{series.name}: {written(x)}, {y:.4g}")))
    return element("g", drawn)


def _marker(series: Series, number: int, x: float, y: float, title: Element | None = None) -> Element:
    size, colour = _MARKER, series.colour(number)
    corners = {
        1: [(-size, -size), (size, -size), (size, size), (-size, size)],
        2: [(0, -size * 1.3), (size * 1.2, size), (-size * 1.2, size)],
        3: [(0, -size * 1.35), (size * 1.35, 0), (0, size * 1.35), (-size * 1.35, 0)],
        4: [(0, size * 1.3), (size * 1.2, -size), (-size * 1.2, -size)],
    }.get(number % 5)
    if corners is None:
        return element("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=size, class_=colour)
    shape = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return element("polygon", title, points=shape, class_=colour)


def _legend_entry(series: Series, number: int) -> Element:
    line = element("line", x1=1, x2=27, y1=7, y2=7, class_=series.stroke(number))
    sample = element("svg", line, _marker(series, number, 14, 7), viewBox="0 0 28 14", aria_hidden="true")
    return element("li", sample, series.name)


def _at_width(scale: Scale, value: float) -> float:
    return round(_LEFT + scale.place(value) * (_WIDTH - _LEFT - _RIGHT), 1)


def _at_height(scale: Scale, value: float) -> float:
    return round(_HEIGHT - _BOTTOM - scale.place(value) * (_HEIGHT - _TOP - _BOTTOM), 1)
