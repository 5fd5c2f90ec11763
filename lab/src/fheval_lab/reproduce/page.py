"""The page of `fheval reproduce`: every experiment's tables and plots, what was left out, and the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import hypot

from fheval.drawing.markup import Content, Element, element
from fheval.report.page import facts, page, section
from fheval.version import __version__
from fheval_lab.reproduce import page_division, page_figures, page_tables
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Reproduction, distinct_machines, left_out

# The width to which `padded` releases; the paper prints six decimals of exact values.
_RELEASED = 1e-4
_MOST_NAMED = 4

TITLE = "The paper's tables and figures, run again"


# An experiment's name in the contents, its heading, and what stands under it.
_PARTS: dict[str, tuple[str, str, Callable[[Reproduction], Content]]] = {
    "table1": ("Table 1", "Table 1: AUC on Criteo", page_tables.accuracy),
    "table2": ("Table 2", "Table 2: AUC on CelebA", page_tables.accuracy),
    "table3": ("Table 3", "Table 3: communication", page_tables.communication),
    "figure-points": (
        "Decision points",
        "Figure: time and accuracy against decision points",
        page_figures.against_points,
    ),
    "figure-parties": ("Parties", "Figure: time and traffic against parties", page_figures.against_parties),
    "security": ("Soundness", "Soundness: how likely cheating goes unseen", page_tables.soundness),
    "division": ("Division", "Outsourced division", page_division.content),
}


def reproduction_page(outcomes: Sequence[Reproduction], when: datetime) -> str:
    """One self-contained page for everything that was run."""
    header = [
        element("h1", TITLE),
        element("p", element("strong", verdict(outcomes)), class_="verdict"),
        element(
            "p",
            "Baykara, Ünal and Akgün, “Enabling Privacy-preserving Model Evaluation in Federated Learning via Fully "
            "Homomorphic Encryption”: the protocols as printed, those of fheval, and every baseline, each beside the "
            "value that the paper prints.",
            class_="lead",
        ),
        _contents(outcomes),
    ]
    main: list[Content] = []
    for outcome in outcomes:
        _, heading, content = _PARTS[outcome.name]
        main.append(section(heading, content(outcome), anchor=outcome.name))
    main += [_left_out(outcomes), _machines(outcomes)]
    made = f"Made by fheval {__version__} on {when.isoformat(sep=' ', timespec='minutes')}."
    return page(TITLE, header, main, element("p", made))


def verdict(outcomes: Sequence[Reproduction]) -> str:
    """How many printed AUCs were met, and which were not.

    One is met if ours differs by no more than two standard deviations of the difference and the width of a rounded
    release. Times and sizes are of other machines and libraries, and not judged.
    """
    judged = [row for each in outcomes for row in each.rows if row.unit == "AUC" and row.difference is not None]
    missed = [row for row in judged if not _met(row)]
    if not judged:
        return "No printed AUC was run again here; what was run stands below."
    met = len(judged) - len(missed)
    said = f"{met} of {len(judged)} printed AUCs were met, within {_RELEASED:g} and two standard deviations."
    if not missed:
        return said
    named = "; ".join(
        f"{row.column} on {row.data or 'the data'}, {row.size or 0:,} samples, N = {row.decision_points}: "
        f"{row.value:.4f} instead of {row.printed:.4f}"
        for row in missed[:_MOST_NAMED]
    )
    more = f"; and {len(missed) - _MOST_NAMED} more, marked below" if len(missed) > _MOST_NAMED else ""
    return f"{said} Not met: {named}{more}."


def _met(row: Row) -> bool:
    spread = 2 * hypot(row.std or 0.0, row.printed_std or 0.0)
    return abs(row.difference or 0.0) <= spread + _RELEASED


def _contents(outcomes: Sequence[Reproduction]) -> Element:
    links = [element("li", element("a", _PARTS[each.name][0], href=f"#{each.name}")) for each in outcomes]
    links.append(element("li", element("a", "The machine", href="#machine")))
    return element("nav", element("ul", links), aria_label="Contents")


def _left_out(outcomes: Sequence[Reproduction]) -> Content:
    reasons = left_out(outcomes)
    if not reasons:
        return None
    items = [element("li", element("strong", "; ".join(what)), ": ", why) for why, what in reasons.items()]
    return section("What was left out", element("ul", items), anchor="left-out")


def _machines(outcomes: Sequence[Reproduction]) -> Content:
    return section(
        "The machine",
        element(
            "p",
            "Times are processor seconds of one process with one thread, the paper's are of one core of an Apple M2 "
            "Pro. The time of the exact AUC by MPC is that on the clock, with three processes on these cores.",
        ),
        [facts(list(machine.items())) for machine in distinct_machines(outcomes)],
        anchor="machine",
    )
