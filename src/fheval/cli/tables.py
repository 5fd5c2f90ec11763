"""A result as a panel for the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fheval.evaluation import Result
from fheval.report.wording import (
    duration,
    in_words,
    release_in_words,
    shown_auc,
    size,
    verified_in_words,
    warning,
)


def result_panel(result: Result, title: str = "AUC over all parties") -> RenderableType:
    """The figure, what stands behind it, what each role spent and sent, and what the release reveals."""
    figure = Text.assemble((shown_auc(result), "bold green"), "  ", (release_in_words(result), "dim"))
    parts: list[RenderableType] = [figure, "", _facts(result), "", roles_table(result)]
    caution = warning(result)
    if caution is not None:
        parts += ["", Text(caution, style="yellow")]
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED, padding=(1, 2), width=100)


def roles_table(result: Result) -> Table:
    """Time and bytes of each role."""
    table = Table("role", box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("time", justify="right")
    table.add_column("sent", justify="right")
    seconds, sent = result.seconds, result.bytes
    table.add_row("party, on average", duration(seconds["party"]), size(sent["party_upload"]))
    table.add_row("leader, keys included", duration(seconds["leader"]), size(sent["leader_upload"]))
    table.add_row("aggregator", duration(seconds["aggregator"]), size(sent["result"]))
    table.add_row("opening the result", duration(seconds["decrypt"]), "")
    return table


def _facts(result: Result) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("protocol", result.protocol)
    table.add_row("aggregator", in_words(result.protocol).aggregator)
    table.add_row("verified", verified_in_words(result))
    table.add_row("engine", result.engine)
    table.add_row("parties", str(result.parties))
    table.add_row("decision points", str(result.decision_points))
    if result.hiding_bits is not None:
        table.add_row("hiding", f"the size of the denominator, behind a factor of up to 2^{result.hiding_bits}")
    return table
