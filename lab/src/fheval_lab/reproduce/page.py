"""The page of `fheval reproduce`: every experiment's tables and plots, what was left out, and the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from fheval.drawing.markup import Content, Element, element
from fheval.report.page import facts, page, section
from fheval.version import __version__
from fheval_lab.reproduce import page_division, page_figures, page_tables
from fheval_lab.reproduce.run import Reproduction, distinct_machines, left_out

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
