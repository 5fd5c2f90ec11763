"""What the adversary suite found, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from fheval_lab.attacks import Findings
from fheval_lab.attacks.suite import Tally

TITLES = {
    "guessing": "Guessing the anchor's slots in both runs, at toy sizes",
    "nudge": "Nudges: how often five decimals accept an AUC moved by at least so much",
    "small_field": "The algebra in small fields: how often so many runs accept a forged ratio",
    "several_fields": "One run over each of several small fields: how often they agree on a wrong fraction",
    "deviations": "Malformed keys and offers of a member, and an aggregator that shows members different things",
    "privacy": "Attacks on privacy",
    "counts": "The counts behind released numbers: how often they are found, and what `fheval study check` says before",
}


def findings_tables(findings: Findings) -> Iterator[RenderableType]:
    """The strategies first, then every experiment, then the verdict."""
    yield _strategies(findings)
    for name, lines in findings.sections.items():
        yield _section(TITLES[name], [line.to_dict() for line in lines])
    yield _verdict(findings)


def _strategies(findings: Findings) -> Table:
    title = f"{findings.consortium.protocol} on {findings.engine}: an aggregator that deviates"
    numbers = [Column(name, justify="right") for name in ("tries", "caught", "worst shift")]
    table = _narrow(title, Column("strategy", no_wrap=True), "", *numbers, "")
    for tally in findings.tallies:
        shift = f"{tally.worst_shift:.1g}" if tally.caught < tally.tries else ""
        table.add_row(tally.name, tally.summary, str(tally.tries), str(tally.caught), shift, _remark(tally, findings))
    return table


def _remark(tally: Tally, findings: Findings) -> Text:
    if tally.broke_the_claim:
        return Text("FORGED", style="bold red")
    if tally.caught == tally.tries:
        return Text("caught", style="green")
    if tally.worst_shift < findings.harmless:
        return Text("harmless", style="green")
    return Text("not claimed" if findings.resistant else "forged", style="yellow")


def _section(title: str, lines: list[dict[str, Any]]) -> Table:
    # Lines of one section may come from different experiments, with columns of their own.
    columns = dict.fromkeys(name for line in lines for name in line if name != "holds")
    # Names of attacks stay whole; lists of metrics wrap between words.
    whole = not any(" " in str(line.get("name")) for line in lines)
    names = Column("name", no_wrap=whole)
    shown = [names if name == "name" else Column(name.replace("_", " "), justify="right") for name in columns]
    table = _narrow(title, *shown, "")
    for line in lines:
        holds = line.get("holds")
        verdict = Text("") if holds is None else Text("holds", "green") if holds else Text("BROKEN", "bold red")
        table.add_row(*(_shown(line.get(name)) for name in columns), verdict)
    return table


def _narrow(title: str, *columns: Column | str) -> Table:
    """A table of many columns that fits 80 characters."""
    title = f"\n{title}"
    return Table(
        *columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )


def _shown(value: object) -> str:
    """Numbers for people.

    >>> _shown(0.00012345), _shown(1234567), _shown(None)
    ('0.00012', '1,234,567', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _verdict(findings: Findings) -> Text:
    if not findings.held:
        return Text("A claim of this protocol broke.", style="bold red")
    if findings.resistant:
        return Text("No forged result was accepted beyond what is stated.", style="green")
    return Text("Not claimed to resist: it relies on an aggregator that follows the protocol.", style="yellow")
