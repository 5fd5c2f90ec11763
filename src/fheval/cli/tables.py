"""A result for the terminal: a panel for people, or plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fheval.evaluation import Result, Row
from fheval.report.account import is_one_auc, number_name, round_facts
from fheval.report.forests import digits_of
from fheval.report.wording import (
    binning_in_words,
    duration,
    fixed,
    p_in_words,
    release_in_words,
    shown_auc,
    shown_with_binning,
    size,
    warning,
    with_binning,
)


def result_panel(result: Result) -> RenderableType:
    """The figure or figures, what stands behind them, what each role spent and sent, and what the release reveals."""
    release = Text(release_in_words(result), style="dim")
    if is_one_auc(result):
        title = "AUC over all parties"
        parts: list[RenderableType] = [Text.assemble((shown_with_binning(result), "bold green"), "  ", release)]
    else:
        title = "Metrics over all parties"
        parts = [numbers_table(result), "", release]
    binning = binning_in_words(result)
    if binning is not None:
        parts += ["", Text(binning, style="dim")]
    parts += ["", facts_table(round_facts(result)), "", roles_table(result)]
    caution = warning(result)
    if caution is not None:
        parts += ["", Text(caution, style="yellow")]
    return panel(title, parts)


def quiet_lines(result: Result) -> Iterator[str]:
    """The AUC alone or, for each of several numbers, what it is of, its value, and its interval; tabs between them."""
    if is_one_auc(result):
        yield shown_auc(result)
        return
    for row in result.results:
        where = " ".join(filter(None, (row.metric, row.model, row.label, row.group)))
        ends = [_figure(result, row, end) for end in (row.low, row.high) if end is not None]
        yield "\t".join([where, _figure(result, row, row.value) or "none", *ends])


def numbers_table(result: Result) -> Table:
    """A line for each number; columns in which nothing would stand are left out."""
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("number", number_name),
        ("value", lambda row: _value(result, row)),
        (_interval_heading(result), lambda row: _interval(result, row)),
        ("p", lambda row: "" if row.p_value is None else p_in_words(row.p_value, row.resamples).lstrip("p =")),
        ("remark", lambda row: row.error or row.note or ""),
    ]
    kept = [(heading, cell) for heading, cell in columns if any(cell(row) for row in result.results)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for heading, _ in kept:
        # Numbers stay on one line; what they are of, and remarks, wrap between words.
        whole = heading not in ("number", "remark")
        table.add_column(heading, justify="right" if heading in ("value", "p") else "left", no_wrap=whole)
    for row in result.results:
        table.add_row(*(cell(row) for _, cell in kept))
    return table


def _interval_heading(result: Result) -> str:
    return "interval" if result.confidence is None else f"{100 * result.confidence:g} % interval"


def _figure(result: Result, row: Row, number: float | None) -> str:
    return "" if number is None else fixed(number, _digits(result, row))


def _value(result: Result, row: Row) -> str:
    return with_binning(_figure(result, row, row.value), row.binning, _digits(result, row))


def _digits(result: Result, row: Row) -> int:
    return digits_of(result.protocol, row)


def _interval(result: Result, row: Row) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"{_figure(result, row, row.low)} to {_figure(result, row, row.high)}"


def roles_table(result: Result) -> Table:
    """Time and bytes of each role; where counts are released there are no keys to make."""
    table = Table("role", box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("time", justify="right")
    table.add_column("sent", justify="right")
    seconds, sent = result.seconds, result.bytes
    table.add_row("party, on average", duration(seconds["party"]), size(sent["party_upload"]))
    keeper, upload = result.keeper, sent[f"{result.keeper}_upload"]
    name = keeper if result.curves else f"{keeper}, keys included"
    table.add_row(name, duration(seconds[keeper]), size(upload) if upload else "")
    if not result.curves:
        table.add_row("its public keys, once an epoch", "", size(sent["keys"]))
    table.add_row("aggregator", duration(seconds["aggregator"]), size(sent["result"]))
    table.add_row("of it, after the last upload", duration(seconds["online"]), "")
    table.add_row("opening the result", duration(seconds["decrypt"]), "")
    return table


def facts_table(facts: Sequence[tuple[str, str]]) -> Table:
    """Facts, each behind its name."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for name, text in facts:
        table.add_row(name, text)
    return table


def panel(title: str, parts: Sequence[RenderableType]) -> Panel:
    """Parts below each other in a frame with a title."""
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED, padding=(1, 2), width=100)
