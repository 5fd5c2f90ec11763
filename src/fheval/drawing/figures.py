"""The pictures that clinicians and statisticians know, from plain numbers.

>>> from fheval.drawing.figures import Estimate, Trace, forest, fragment, roc
>>> picture = roc([Trace("new", (0.0, 0.2, 1.0), (0.0, 0.7, 1.0))])
>>> fragment(picture).startswith("<div")
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import ceil, floor, log10

from fheval.drawing.markup import Content, Element, element, write
from fheval.drawing.plots import Axis, Points, Scale, Series, plot, written

_RATE = (0.0, 1.0)
_POWER = re.compile("10[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]")
# Beyond this odds of harm to benefit are out of any use, and net benefit of a useless model falls without end.
_LARGEST_THRESHOLD = 0.99
_MOST_LABELS = 5
# A remark of so many letters stays on one line.
_SHORT = 20


@dataclass(frozen=True, slots=True)
class Estimate:
    """One line of a forest plot: a number, its interval, and both as they are written.

    `remark` stands beside them, a p-value for instance, or why there is no number. A `whole` is over all others of its
    list, and marked as such.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    text: str = ""
    interval: str = ""
    remark: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """One line of a curve; `low` and `high` bound it where it is uncertain, point by point."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def series(self, *, curve: bool = True, band: bool = True) -> Series:
        spread = tuple(zip(map(float, self.low), map(float, self.high), strict=True))
        return Series(self.name, _points(self.x, self.y), spread=spread, band=band and bool(spread), curve=curve)


def _points(x: Sequence[float], y: Sequence[float]) -> Points:
    return tuple(zip(map(float, x), map(float, y), strict=True))


def roc(traces: Sequence[Trace], *, title: str = "ROC", caption: str | None = None) -> Element:
    """True against false positive rate, and the diagonal of chance."""
    return plot(
        [*(each.series() for each in traces), Series("chance", ((0.0, 0.0), (1.0, 1.0)), reference=True)],
        Axis("1 − specificity (false positive rate)", bounds=_RATE),
        Axis("sensitivity (true positive rate)", bounds=_RATE),
        title=title,
        caption=caption or "Towards the upper left is better. A straight stretch joins two decision points.",
        square=True,
        values=True,
    )


def precision_recall(
    traces: Sequence[Trace],
    *,
    prevalence: float | None = None,
    title: str = "Precision and recall",
    caption: str | None = None,
) -> Element:
    """Precision against recall, and the prevalence, which is the precision of chance."""
    chance = (
        [] if prevalence is None else [Series("prevalence", ((0.0, prevalence), (1.0, prevalence)), reference=True)]
    )
    return plot(
        [*(each.series() for each in traces), *chance],
        Axis("recall (sensitivity)", bounds=_RATE),
        Axis("precision (positive predictive value)", bounds=_RATE),
        title=title,
        caption=caption or "Towards the upper right is better; chance has the prevalence for its precision.",
        square=True,
        values=True,
    )


def calibration(traces: Sequence[Trace], *, title: str = "Calibration", caption: str | None = None) -> Element:
    """The share of positives against the mean predicted probability, and the line of perfect calibration."""
    return plot(
        [
            *(each.series(curve=False, band=False) for each in traces),
            Series("perfect", ((0.0, 0.0), (1.0, 1.0)), reference=True),
        ],
        Axis("mean predicted probability", bounds=_RATE),
        Axis("share of positives", bounds=_RATE),
        title=title,
        caption=caption or "On the dashed line, as many are positive as predicted; above it, more are.",
        square=True,
        values=True,
    )


def decision_curve(
    traces: Sequence[Trace],
    *,
    treat_all: Trace | None = None,
    title: str = "Decision curve",
    caption: str | None = None,
) -> Element:
    """Net benefit against the probability from which one would act, beside acting on all and on none."""
    everyone = [] if treat_all is None else [treat_all]
    top = _step_above(max((y for each in (*traces, *everyone) for y in each.y), default=0.0))
    # Further down lies nothing but harm, and it would leave no room for what is worth a look.
    bottom = -top / 4
    kept, all_of_them = ([_above(_usual(each), bottom) for each in part] for part in (traces, everyone))
    return plot(
        [
            *(each.series() for each in kept),
            *(Series(each.name, _points(each.x, each.y), reference=True) for each in all_of_them),
            Series("act on none", ((0.0, 0.0), (1.0, 0.0)), reference=True),
        ],
        Axis("threshold probability", bounds=_RATE),
        Axis("net benefit", bounds=(bottom, top)),
        title=title,
        caption=caption
        or "True positives less the false ones, weighed by the odds of the threshold, per row. A model is of use where "
        "it lies above acting on all and on none.",
        values=True,
    )


def _usual(trace: Trace) -> Trace:
    kept = [number for number, x in enumerate(trace.x) if x <= _LARGEST_THRESHOLD]
    parts = (
        [list(values)[number] for number in kept if values] for values in (trace.x, trace.y, trace.low, trace.high)
    )
    return Trace(trace.name, *parts)


def _above(trace: Trace, bottom: float) -> Trace:
    """A line up to where it falls below the axis for good."""
    last = max((number for number, y in enumerate(trace.y) if y >= bottom), default=0)
    if last + 1 >= len(trace.y):
        return trace
    (x, y), (next_x, next_y) = ((trace.x[each], trace.y[each]) for each in (last, last + 1))
    crossing = x + (next_x - x) * (y - bottom) / (y - next_y)
    ends = [list(values)[: last + 1] for values in (trace.low, trace.high)]
    banded = [[*end, bottom] if end else [] for end in ends]
    return Trace(trace.name, [*list(trace.x)[: last + 1], crossing], [*list(trace.y)[: last + 1], bottom], *banded)


def _step_above(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten, at least a hundredth."""
    power = 10.0 ** floor(log10(max(value, 1e-2)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def forest(
    estimates: Sequence[Estimate],
    *,
    title: str,
    caption: str,
    heads: tuple[str, str, str] = ("", "value", "interval"),
    zero: bool = False,
    limits: tuple[float, float] | None = None,
) -> Element:
    """A table with a picture in it: each number and its interval on one axis.

    The numbers stand beside their bars, so that the picture says nothing that the table does not. With `zero` the axis
    has a line there, for differences. `limits` are those of the quantity: the axis ends within them.
    """
    scale = _scale(estimates, zero=zero, limits=limits)
    columns = [("interval", heads[2]), ("remark", "remark")]
    kept = [(name, head) for name, head in columns if any(getattr(each, name) for each in estimates)]
    head = element(
        "tr",
        element("th", heads[0], scope="col"),
        element("td", class_="bar"),
        element("th", heads[1], scope="col", class_="number"),
        [element("th", head, scope="col", class_="number" if name == "interval" else None) for name, head in kept],
    )
    rows = [_forest_row(each, scale, [name for name, _ in kept], zero=zero) for each in estimates]
    axis = element("tr", element("td"), element("td", _axis(scale), class_="bar"), element("td", colspan=1 + len(kept)))
    table = element(
        "table",
        element("caption", title),
        element("thead", head),
        element("tbody", rows),
        element("tfoot", axis, aria_hidden="true"),
        class_="forest",
    )
    return element("figure", table, element("figcaption", caption) if caption else None, class_="drawn")


def _forest_row(each: Estimate, scale: Scale, columns: Sequence[str], *, zero: bool) -> Element:
    return element(
        "tr",
        element("th", each.name, scope="row"),
        element("td", _bar(each, scale, zero=zero), class_="bar", aria_hidden="true"),
        element("td", each.text or "none", class_="number"),
        [
            element("td", getattr(each, name), class_="number" if name == "interval" else _remark(each.remark))
            for name in columns
        ],
        class_="whole" if each.whole else None,
    )


def _remark(text: str) -> str:
    return "remark short" if len(text) <= _SHORT else "remark"


def _scale(estimates: Sequence[Estimate], *, zero: bool, limits: tuple[float, float] | None) -> Scale:
    """Ticks around all numbers with room at both ends; a forest's axis need not begin at zero."""
    found = [number for each in estimates for number in (each.value, each.low, each.high) if number is not None]
    values = [*found, 0.0] if zero or not found else found
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.05 * abs(low) or 0.5
    low, high = low - room, high + room
    step = _step_above_any((high - low) / 5)
    low, high = floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    ticks = tuple(number * step for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1))
    return Scale(low, high, ticks, log=False)


def _step_above_any(value: float) -> float:
    power = 10.0 ** floor(log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value * (1 - 1e-9))


def _at(scale: Scale, value: float) -> str:
    return f"{100 * scale.place(value):.2f}%"


def _bar(each: Estimate, scale: Scale, *, zero: bool) -> Element:
    """One line of the picture; places are shares of its width, so that it fits any column without distortion."""
    lines: list[Content] = [
        element("line", x1=_at(scale, tick), x2=_at(scale, tick), y1="0", y2="100%", class_="grid")
        for tick in scale.ticks
    ]
    if zero:
        lines.append(element("line", x1=_at(scale, 0), x2=_at(scale, 0), y1="0", y2="100%", class_="zero"))
    if each.low is not None and each.high is not None:
        ends = [_at(scale, each.low), _at(scale, each.high)]
        lines.append(element("line", x1=ends[0], x2=ends[1], y1="50%", y2="50%", class_="interval"))
        lines += [
            element("svg", element("line", x1="0", x2="0", y1="-4", y2="4", class_="interval"), x=end, y="50%")
            for end in ends
        ]
    if each.value is not None:
        shape = (
            element("polygon", points="-8,0 0,-7 8,0 0,7", class_="series-1")
            if each.whole
            else element("rect", x="-4.5", y="-4.5", width="9", height="9", class_="series-1")
        )
        lines.append(element("svg", shape, x=_at(scale, each.value), y="50%"))
    return element("svg", lines)


def _axis(scale: Scale) -> Element:
    drawn: list[Content] = [element("line", x1="0", x2="100%", y1="1", y2="1", class_="axis")]
    # On a narrow page the letters of more ticks would touch.
    every = 2 if len(scale.ticks) > _MOST_LABELS else 1
    for number, (tick, text) in enumerate(zip(scale.ticks, _alike(scale.ticks), strict=True)):
        place = scale.place(tick)
        anchor = "start" if place < 0.02 else "end" if place > 0.98 else "middle"
        drawn.append(element("line", x1=_at(scale, tick), x2=_at(scale, tick), y1="1", y2="5", class_="axis"))
        if number % every == 0:
            drawn.append(element("text", text, x=_at(scale, tick), y="19", text_anchor=anchor, class_="tick"))
    return element("svg", drawn, class_="ticks")


def _alike(ticks: Sequence[float]) -> list[str]:
    """Ticks with as many decimals as the longest needs.

    >>> _alike((0.88, 0.9, 0.92)), _alike((-0.5, 0.0, 0.5))
    (['0.88', '0.90', '0.92'], ['−0.5', '0.0', '0.5'])
    """
    texts = [written(tick) for tick in ticks]
    digits = max((len(text.partition(".")[2]) for text in texts), default=0)
    if any(_POWER.search(text) for text in texts):
        return texts
    return [f"{tick:,.{digits}f}".replace("-", "−") for tick in ticks]


def style() -> str:
    """The style that figures need."""
    return files("fheval.drawing").joinpath("figures.css").read_text(encoding="utf-8")


def fragment(*figures: Element) -> str:
    """Figures as a piece of HTML that carries its own style, for a notebook or another page."""
    return write(element("div", element("style", style()), *figures, class_="fheval-figures"))
