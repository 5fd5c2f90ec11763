"""Line plots as inline SVG: sharp at any size and on paper, in the page's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10

from fheval.drawing.markup import Content, Element, element

# In units of the drawing; a phone shows it at about 0.8 times its size, which keeps its letters readable.
_WIDTH, _HEIGHT = 440.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 22.0, 26.0, 46.0
_MARKER = 4.0
_COLOURS = ("series-1", "series-2", "series-3", "series-4", "series-6")
# A line of many points gets so many markers: enough to tell lines apart without colour.
_FEW_MARKERS = 7
# A text alternative of a line lists so many of its points.
_LISTED_POINTS = 11
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
        return f"{value:,.10g}".replace("-", "−")
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    shortened = mantissa.rstrip("0").rstrip(".")
    return power if shortened == "1" else f"{shortened}·{power}"


@dataclass(frozen=True, slots=True)
class Frame:
    """The drawing's two scales and its height, and where a value lies on it."""

    across: Scale
    up: Scale
    height: float

    def at_width(self, value: float) -> float:
        return round(_LEFT + self.across.place(value) * (_WIDTH - _LEFT - _RIGHT), 1)

    def at_height(self, value: float) -> float:
        return round(self.height - _BOTTOM - self.up.place(value) * (self.height - _TOP - _BOTTOM), 1)


@dataclass(frozen=True, slots=True)
class Series:
    """One line: points (x, y), for each the lowest and highest y that was measured or may be, if any.

    A `reference` is a value from elsewhere, or what chance would do: dashed, in grey. A `band` shows the spread as an
    area instead of bars. A `curve` has too many points to mark each.
    """

    name: str
    points: Points
    spread: Points = ()
    reference: bool = False
    band: bool = False
    curve: bool = False

    @property
    def marked(self) -> Sequence[int]:
        """The numbers of the points that get a marker."""
        if self.reference and len(self.points) > 1:
            return ()
        if not self.curve or len(self.points) <= _FEW_MARKERS:
            return range(len(self.points))
        along = [0.0]
        for (x, y), (next_x, next_y) in pairwise(self.points):
            along.append(along[-1] + abs(next_x - x) + abs(next_y - y))
        places = [along[-1] * step / (_FEW_MARKERS - 1) for step in range(1, _FEW_MARKERS - 1)]
        return sorted({min(range(len(along)), key=lambda one: abs(along[one] - place)) for place in places})

    def colour(self, number: int) -> str:
        return _REFERENCE_COLOUR if self.reference else _COLOURS[number % len(_COLOURS)]

    def stroke(self, number: int) -> str:
        return f"line {self.colour(number)}" + (" reference" if self.reference else "")


def plot(
    series: Sequence[Series], x: Axis, y: Axis, *, title: str, caption: str, square: bool = False, values: bool = False
) -> Element:
    """A figure: the drawing, the names of its lines, and a caption. Lines differ by colour and by marker.

    `square` is for axes of one kind, such as two rates. With `values` the points can be read as a table.
    """
    across = Scale.over(x, [point[0] for each in series for point in each.points])
    heights = [height for each in series for _, height in each.points]
    up = Scale.over(y, heights + [end for each in series for ends in each.spread for end in ends])
    frame = Frame(across, up, _WIDTH - _LEFT - _RIGHT + _TOP + _BOTTOM if square else _HEIGHT)
    drawing = element(
        "svg",
        element("title", title),
        _grid(frame),
        element("text", x.label, x=(_LEFT + _WIDTH - _RIGHT) / 2, y=frame.height - 8, text_anchor="middle"),
        element("text", y.label, x=4, y=14),
        [_band(each, number, frame) for number, each in enumerate(series) if each.band],
        [_line(each, number, frame) for number, each in enumerate(series)],
        viewBox=f"0 0 {_WIDTH:g} {frame.height:g}",
        role="img",
        aria_label=f"{title}. {y.label} against {x.label}. {in_words(series)}",
    )
    legend = element("ul", [_legend_entry(each, number) for number, each in enumerate(series)], class_="legend")
    return element(
        "figure",
        element("h3", title),
        drawing,
        legend,
        element("figcaption", caption),
        _values(series, x, y) if values else None,
        class_="drawn square" if square else "drawn",
    )


def in_words(series: Sequence[Series]) -> str:
    """Where each line begins and ends, for those who do not see it.

    >>> in_words([Series("new", ((0.0, 0.0), (0.5, 0.9), (1.0, 1.0)))])
    'new: 3 points from (0, 0) to (1, 1).'
    """
    told = []
    for each in series:
        ends = [f"({written(x)}, {y:.4g})" for x, y in (each.points[0], each.points[-1])]
        many = len(each.points) > 1
        told.append(
            f"{each.name}: " + (f"{len(each.points)} points from {' to '.join(ends)}." if many else f"{ends[0]}.")
        )
    return " ".join(told)


def _values(series: Sequence[Series], x: Axis, y: Axis) -> Element:
    """The points of all lines as a table that opens on demand; long lines are thinned out."""
    rows = []
    for each in (one for one in series if not one.reference):
        last = len(each.points) - 1
        listed = sorted({round(step * last / (_LISTED_POINTS - 1)) for step in range(_LISTED_POINTS)})
        for number in listed:
            across, up = each.points[number]
            ends = f"{each.spread[number][0]:.3f} to {each.spread[number][1]:.3f}" if each.spread else None
            rows.append((each.name, f"{across:.3f}", f"{up:.3f}", ends))
    spread = any(row[3] for row in rows)
    heads = ["line", x.label, y.label, *(["between"] if spread else [])]
    table = element(
        "table",
        element("thead", element("tr", [element("th", head, scope="col") for head in heads])),
        element("tbody", [_value_row(row, spread) for row in rows]),
    )
    said = f"{y.label} against {x.label}"
    scrolled = element("div", table, class_="scroll", tabindex=0, role="region", aria_label=said)
    return element("details", element("summary", "Values as a table"), scrolled)


def _value_row(row: tuple[str, str, str, str | None], spread: bool) -> Element:
    name, *cells = row
    shown = cells if spread else cells[:2]
    return element("tr", element("th", name, scope="row"), [element("td", cell or "") for cell in shown])


def _grid(frame: Frame) -> list[Element]:
    right, bottom = _WIDTH - _RIGHT, frame.height - _BOTTOM
    drawn = []
    for tick in frame.up.ticks:
        height = frame.at_height(tick)
        drawn.append(element("line", x1=_LEFT, x2=right, y1=height, y2=height, class_="grid"))
        drawn.append(_tick(tick, _LEFT - 7, height + 4, "end"))
    for tick in frame.across.ticks:
        place = frame.at_width(tick)
        drawn.append(element("line", x1=place, x2=place, y1=bottom, y2=bottom + 4, class_="axis"))
        drawn.append(_tick(tick, place, bottom + 18, "middle"))
    return [*drawn, element("line", x1=_LEFT, x2=right, y1=bottom, y2=bottom, class_="axis")]


def _tick(value: float, x: float, y: float, anchor: str) -> Element:
    return element("text", written(value), x=x, y=y, text_anchor=anchor, class_="tick", aria_hidden="true")


def _band(series: Series, number: int, frame: Frame) -> Element:
    lows = [(x, low) for (x, _), (low, _) in zip(series.points, series.spread, strict=True)]
    highs = [(x, high) for (x, _), (_, high) in zip(series.points, series.spread, strict=True)]
    outline = " ".join(f"{frame.at_width(x)},{frame.at_height(y)}" for x, y in (*lows, *reversed(highs)))
    return element("polygon", points=outline, class_=f"band {series.colour(number)}")


def _line(series: Series, number: int, frame: Frame) -> Element:
    places = [(frame.at_width(x), frame.at_height(y)) for x, y in series.points]
    drawn: list[Content] = []
    if len(places) > 1:
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn.append(element("polyline", points=steps, class_=series.stroke(number), style="fill:none"))
    for (x, _), ends in zip(places, () if series.band else series.spread, strict=False):
        drawn.append(_bar(x, ends, frame, f"spread {series.colour(number)}"))
    for each in series.marked:
        (x, y), place = series.points[each], places[each]
        drawn.append(_marker(series, number, *place, element("title", f"{series.name}: {written(x)}, {y:.4g}")))
    return element("g", drawn)


def _bar(x: float, ends: tuple[float, float], frame: Frame, kind: str) -> list[Element]:
    """A bar with a foot at each end; an end beyond the axis has none, and an arrow there says that it goes on."""
    drawn = [element("line", x1=x, x2=x, y1=frame.at_height(ends[0]), y2=frame.at_height(ends[1]), class_=kind)]
    for end, outward in zip(ends, (1, -1), strict=True):
        y = frame.at_height(end)
        if frame.up.low <= end <= frame.up.high:
            drawn.append(element("line", x1=x - 3, x2=x + 3, y1=y, y2=y, class_=kind))
        else:
            tip = f"{x - 4:.1f},{y - 5 * outward:.1f} {x:.1f},{y:.1f} {x + 4:.1f},{y - 5 * outward:.1f}"
            drawn.append(element("polyline", points=tip, class_=f"{kind} beyond", style="fill:none"))
    return drawn


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
    marker = _marker(series, number, 14, 7) if series.marked else None
    sample = element("svg", line, marker, viewBox="0 0 28 14", aria_hidden="true")
    return element("li", sample, series.name)
