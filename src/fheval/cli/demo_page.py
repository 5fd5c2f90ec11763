"""What `fheval demo` shows: the hospitals, the truth, each round beside it, and what every role saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fheval.counting import Counts
from fheval.errors import UndefinedMetric
from fheval.evaluation import Result
from fheval.report.wording import (
    MOST_DECIMALS,
    duration,
    release_in_words,
    shown_auc,
    size,
    verified_in_words,
    warning,
    words_of,
)

if TYPE_CHECKING:
    from fheval.cli.demo import Hospital

_WIDTH = 100


def demo_page(
    hospitals: Sequence[Hospital], pooled_exact: float, pooled_counts: float, rounds: Sequence[Result]
) -> RenderableType:
    """The whole page, top to bottom."""
    points = rounds[0].decision_points
    parts: list[RenderableType] = [
        "Five hospitals want to know how well a model works on all their patients.\n"
        "None of them may show its labels and scores to anyone.\n",
        _hospitals_table(hospitals),
        "",
        Text.assemble("Were the data pooled, the AUC would be ", (f"{pooled_exact:.{MOST_DECIMALS}f}", "bold"), "."),
        Text.assemble(
            f"Counted at {points} decision points, as it is below, it is ",
            (f"{pooled_counts:.{MOST_DECIMALS}f}", "bold"),
            ".",
        ),
        "",
    ]
    parts += [_round_panel(result, pooled_counts) for result in rounds]
    parts.append("\nYour own data: fheval evaluate --party a.csv --party b.csv --party c.csv")
    return Group(*parts)


def _hospitals_table(hospitals: Sequence[Hospital]) -> Table:
    table = Table("hospital", box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for heading in ("samples", "malignant", "benign", "AUC of its own data"):
        table.add_column(heading, justify="right")
    for each in hospitals:
        benign = each.samples - each.malignant
        table.add_row(each.name, str(each.samples), str(each.malignant), str(benign), _own_auc(each))
    return table


def _own_auc(hospital: Hospital) -> str:
    try:
        return f"{Counts.from_scores(hospital.labels, hospital.scores).auc():.4f}"
    except UndefinedMetric:
        return "undefined: one class"


def _round_panel(result: Result, pooled_counts: float) -> Panel:
    words = words_of(result)
    away = abs(result.auc - pooled_counts)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("private AUC", Text.assemble((shown_auc(result), "bold green"), "  ", release_in_words(result)))
    facts.add_row("from the pooled", f"{away:.1g} away" if away > 0.5 * 10**-MOST_DECIMALS else "no difference")
    facts.add_row("verified", verified_in_words(result))
    facts.add_row("protocol, engine", f"{result.protocol}, {result.engine}")
    parts: list[RenderableType] = [facts, "", _views_table(result)]
    caution = warning(result)
    if caution is not None:
        parts += ["", Text(caution, style="yellow")]
    title = f"An aggregator that {words.aggregator}"
    return Panel(Group(*parts), title=title, title_align="left", padding=(1, 2), width=_WIDTH)


def _views_table(result: Result) -> Table:
    """What each role saw, in kinds and sizes, what it sent, and how long it worked."""
    words, sent, seconds = words_of(result), result.bytes, result.seconds
    upload, leader_upload = size(sent["party_upload"]), size(sent["leader_upload"])
    table = Table("role", box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("saw", ratio=1)
    table.add_column("sent", justify="right")
    table.add_column("worked", justify="right")
    table.add_row("each hospital", "its own data, and the AUC", upload, duration(seconds["party"]))
    table.add_row("leader, one of them", "the same; it made the keys", leader_upload, duration(seconds["leader"]))
    table.add_row(
        "aggregator",
        f"{result.parties} uploads of {upload}, {words.upload} only; {leader_upload} from the leader, "
        f"{words.leader_upload}; no key that opens any of it, no count, not even the AUC",
        size(sent["result"]),
        duration(seconds["aggregator"]),
    )
    table.add_row("opening the result", "", "", duration(seconds["decrypt"]))
    return table
