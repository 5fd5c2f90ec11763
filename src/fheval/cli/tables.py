"""A result as a panel for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fheval.evaluation import Result
from fheval.report.account import Account, round_facts
from fheval.report.wording import duration, release_in_words, shown_auc, size, warning


def result_panel(result: Result, title: str = "AUC over all parties") -> RenderableType:
    """The figure, what stands behind it, what each role spent and sent, and what the release reveals."""
    figure = Text.assemble((shown_auc(result), "bold green"), "  ", (release_in_words(result), "dim"))
    parts: list[RenderableType] = [figure, "", facts_table(round_facts(result)), "", roles_table(result)]
    caution = warning(result)
    if caution is not None:
        parts += ["", Text(caution, style="yellow")]
    return _panel(title, parts)


def account_panel(account: Account) -> RenderableType:
    """The same for an evaluation that is told in words only."""
    parts: list[RenderableType] = [
        Text.assemble((account.figure or "", "bold green"), "  ", (account.release, "dim")),
        "",
        facts_table(account.facts),
        "",
        _account_roles(account),
    ]
    if account.caution is not None:
        parts += ["", Text(account.caution, style="yellow")]
    return _panel(account.title, parts)


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


def _account_roles(account: Account) -> Table:
    table = Table("role", box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("saw", ratio=1)
    table.add_column("sent", justify="right")
    table.add_column("worked", justify="right")
    for role in account.roles:
        table.add_row(role.name, role.saw, role.sent, role.worked)
    return table


def facts_table(facts: Sequence[tuple[str, str]]) -> Table:
    """Facts, each behind its name."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for name, text in facts:
        table.add_row(name, text)
    return table


def _panel(title: str, parts: Sequence[RenderableType]) -> Panel:
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED, padding=(1, 2), width=100)
