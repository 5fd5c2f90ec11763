"""The page of `fheval reproduce`: every experiment's tables and plots, what was left out, and the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from fheval.experiments.reproduce import page_accuracy, page_division, page_figures, page_settings
from fheval.experiments.reproduce.run import Outcome, distinct_machines
from fheval.report.elements import Content, Element, element
from fheval.report.page import facts, page, section
from fheval.version import __version__

TITLE = "The paper's tables and figures, run again"

# For each experiment its heading and what stands under it.
_SECTIONS: dict[str, tuple[str, Callable[[Outcome], Content]]] = {
    "table1": ("Table 1: AUC on Criteo", page_accuracy.content),
    "table2": ("Table 2: AUC on CelebA", page_accuracy.content),
    "table3": ("Table 3: communication", page_settings.communication),
    "figure-points": ("Figure: time and accuracy against decision points", page_figures.against_points),
    "figure-parties": ("Figure: time and traffic against parties", page_figures.against_parties),
    "security": ("Soundness: how likely cheating goes unseen", page_settings.soundness),
    "division": ("Outsourced division", page_division.content),
}


def reproduction_page(outcomes: Sequence[Outcome], when: datetime) -> str:
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
    main: list[Content] = [
        section(_SECTIONS[outcome.name][0], _SECTIONS[outcome.name][1](outcome), anchor=outcome.name)
        for outcome in outcomes
    ]
    main += [_left_out(outcomes), _machines(outcomes)]
    made = f"Made by fheval {__version__} on {when.isoformat(sep=' ', timespec='minutes')}."
    return page(TITLE, header, main, element("p", made))


def _contents(outcomes: Sequence[Outcome]) -> Element:
    links = [
        element("li", element("a", _SECTIONS[each.name][0].partition(":")[0], href=f"#{each.name}"))
        for each in outcomes
    ]
    links.append(element("li", element("a", "The machine", href="#machine")))
    return element("nav", element("ul", links), aria_label="Contents")


def _left_out(outcomes: Sequence[Outcome]) -> Content:
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        for skip in outcome.skipped:
            reasons.setdefault(skip.why, []).append(skip.what)
    if not reasons:
        return None
    items = [element("li", element("strong", "; ".join(what)), ": ", why) for why, what in reasons.items()]
    return section("What was left out", element("ul", items), anchor="left-out")


def _machines(outcomes: Sequence[Outcome]) -> Content:
    machines = distinct_machines(outcomes)
    return section(
        "The machine",
        element(
            "p",
            "Times are processor seconds of one process with one thread, the paper's are of one core of an Apple M2 "
            "Pro. The time of the exact AUC by MPC is that on the clock, with three processes on these cores.",
        ),
        [facts(list(machine.items())) for machine in machines],
        anchor="machine",
    )
