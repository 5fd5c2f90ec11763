"""Many numbers of one round for the terminal: a table of what was asked, or plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fheval.cli.tables import facts_table, roles_table
from fheval.evaluation import Result, Row
from fheval.report.account import round_facts
from fheval.report.wording import MOST_DECIMALS, decimals, release_in_words, warning

_WIDTH = 100


def metrics_panel(result: Result) -> RenderableType:
    """Every number, what stands behind it, what each role spent and sent, and what the release reveals."""
    parts: list[RenderableType] = [
        numbers_table(result),
        "",
        Text(release_in_words(result), style="dim"),
        "",
        facts_table(round_facts(result)),
        "",
        roles_table(result),
    ]
    caution = warning(result)
    if result.curves:
        caution = "The parties now know the global counts at every decision point, which say far more than a metric."
    if caution is not None:
        parts += ["", Text(caution, style="yellow")]
    title = "Metrics over all parties"
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED, padding=(1, 2), width=_WIDTH)


def numbers_table(result: Result) -> Table:
    """A line for each number; columns in which nothing would stand are left out."""
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("metric", lambda row: row.metric),
        ("model", lambda row: row.model or ""),
        ("class", lambda row: row.label or ""),
        ("group", lambda row: row.group or ""),
        ("value", lambda row: _figure(result, row, row.value)),
        (_interval_heading(result), lambda row: _interval(result, row)),
        ("p", lambda row: "" if row.p_value is None else f"{row.p_value:.2g}"),
        ("remark", lambda row: row.error or row.note or ""),
    ]
    kept = [(heading, cell) for heading, cell in columns if any(cell(row) for row in result.results)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for heading, _ in kept:
        table.add_column(heading, justify="right" if heading in ("value", "p") else "left")
    for row in result.results:
        table.add_row(*(cell(row) for _, cell in kept))
    return table


def quiet_lines(result: Result) -> Iterator[str]:
    """What each number is of, the number, and its interval; tabs between them."""
    for row in result.results:
        where = " ".join(filter(None, (row.metric, row.model, row.label, row.group)))
        ends = [_figure(result, row, end) for end in (row.low, row.high) if end is not None]
        yield "\t".join([where, _figure(result, row, row.value) or "none", *ends])


def _interval_heading(result: Result) -> str:
    return "interval" if result.confidence is None else f"{result.confidence:.4g} interval"


def _figure(result: Result, row: Row, number: float | None) -> str:
    if number is None:
        return ""
    digits = MOST_DECIMALS if row.precision is None else decimals(result.protocol, row.precision)
    return f"{number:.{digits}f}"


def _interval(result: Result, row: Row) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"{_figure(result, row, row.low)} to {_figure(result, row, row.high)}"
