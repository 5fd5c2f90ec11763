"""A result as notebooks and people at a prompt see it; imported with `fheval.evaluate`, which gives results."""

from __future__ import annotations

from datetime import datetime

from fheval.drawing.markup import Element, element, write
from fheval.errors import ConfigError
from fheval.evaluation.result import Result, Row
from fheval.evaluation.shown import Drawing, present_with
from fheval.report.account import account_of, models_of, title_of
from fheval.report.curves import KINDS, curve_figures
from fheval.report.forests import digits_of, forests, row_name
from fheval.report.page import page
from fheval.report.round_page import round_page
from fheval.report.wording import fixed, release_in_words, short_binning

FOREST = "forest"


class Presentation:
    """What `Result` shows of itself."""

    def text(self, result: Result) -> str:
        """A line for each number, with as many digits as mean something."""
        lines = [" ".join(filter(None, each)) for each in _cells(result)]
        return "\n".join([f"{title_of(result)}: {result.parties} parties, {result.protocol}", *lines])

    def html(self, result: Result) -> str:
        """A table for a notebook."""
        head = element("tr", [element("th", each) for each in ("", "value", "interval", "remark")])
        body = [element("tr", [element("td", cell) for cell in row]) for row in _cells(result)]
        caption = (
            f"{title_of(result)}: {result.parties} parties, {result.protocol}. Release: {release_in_words(result)}."
        )
        return write(element("table", element("caption", caption), element("thead", head), element("tbody", body)))

    def page(self, result: Result) -> str:
        """The page of `--report`."""
        return round_page(account_of(result), datetime.now().astimezone())

    def plot(self, result: Result, kind: str | None) -> Drawing:
        """Pictures of one kind, or all there are."""
        if kind is not None and kind not in (FOREST, *KINDS):
            raise ConfigError(f"There is no picture {kind!r}. Choose among: {', '.join((FOREST, *KINDS))}.")
        if kind in KINDS and not result.curves:
            raise ConfigError(
                "Curves are drawn where their counts are released. Ask for release='curve', if all agreed."
            )
        drawn: list[Element] = []
        if kind in (None, FOREST):
            drawn += forests(result.protocol, result.results, models_of(result), result.confidence)
        if kind != FOREST:
            drawn += curve_figures(result.curves, KINDS if kind is None else (kind,))
        return Drawing(page(title_of(result), None, element("div", drawn, class_="pictures"), None))


def _cells(result: Result) -> list[tuple[str, str, str, str]]:
    """Of each number what it is, its value, its interval and what to know about it."""
    named = len({row.metric for row in result.results}) > 1 or len(result.results) == 1
    return [_cell(result, row, named) for row in result.results]


def _cell(result: Result, row: Row, named: bool) -> tuple[str, str, str, str]:
    name = row_name(row, named=named)
    if row.value is None:
        return name, "none", "", row.error or row.note or ""
    digits = digits_of(result.protocol, row)
    binning = f" ± {short_binning(row.binning, digits)}" if row.binning else ""
    interval = "" if row.low is None or row.high is None else f"{fixed(row.low, digits)} to {fixed(row.high, digits)}"
    return name, f"{fixed(row.value, digits)}{binning}", interval, row.note or ""


present_with(Presentation())
