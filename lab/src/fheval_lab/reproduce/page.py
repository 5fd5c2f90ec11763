"""The page of `fheval reproduce`: every experiment's tables and plots, what was left out, and the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from math import hypot

from fheval.drawing.markup import Content, Element, element
from fheval.report.page import facts, page, section
from fheval.version import __version__
from fheval_lab.reproduce import page_division, page_figures, page_tables
from fheval_lab.reproduce.accuracy import PROTOCOLS, ROUNDED
from fheval_lab.reproduce.noise import EPSILONS
from fheval_lab.reproduce.numbers import magnitude
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Reproduction, distinct_machines, left_out

# The width to which `padded` releases; the paper prints six decimals of exact values.
_RELEASED = 1e-4
_MOST_NAMED = 4

# What stands beside the printed column "Ours", and beside DPAUC's.
OURS = (*PROTOCOLS, ROUNDED)
DPAUC = tuple(f"dpauc-epsilon-{epsilon}" for epsilon in EPSILONS)

TITLE = "The paper's tables and figures, run again"


# An experiment's name in the contents, its heading, and what stands under it.
_PARTS: dict[str, tuple[str, str, Callable[[Reproduction], Content]]] = {
    "table1": ("Table 1", "Table 1: AUC on Criteo", page_tables.accuracy),
    "table2": ("Table 2", "Table 2: AUC on CelebA", page_tables.accuracy),
    "noise": ("Noise", "Curves under noise, beside a curator and DPAUC", page_tables.noisy_curves_of_all),
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
        element("p", " ".join(_beyond_aucs(outcomes))),
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
    """How many printed AUCs were met, by everything that was run beside them, and which were not.

    Those without noise: one is met if ours differ by no more than the width of a rounded release.
    """
    judged: dict[tuple[object, ...], list[Row]] = {}
    for row in _beside_printed(outcomes, "AUC"):
        if row.printed_std is None:
            column = "Ours" if row.column in OURS else row.column
            judged.setdefault((row.data, row.size, row.decision_points, column), []).append(row)
    if not judged:
        return "No printed AUC was run again here; what was run stands below."
    missed = [rows for rows in judged.values() if max(map(_distance, rows)) > _RELEASED]
    largest = magnitude(max(_distance(row) for rows in judged.values() for row in rows))
    met = len(judged) - len(missed)
    said = f"{met} of {len(judged)} printed AUCs were met to within {_RELEASED:g}"
    if not missed:
        return f"{said}, by every protocol; the largest difference is {largest}."
    named = "; ".join(_named(max(rows, key=_distance)) for rows in missed[:_MOST_NAMED])
    more = f"; and {len(missed) - _MOST_NAMED} more, marked below" if len(missed) > _MOST_NAMED else ""
    return f"{said}. Not met: {named}{more}."


def _beyond_aucs(outcomes: Sequence[Reproduction]) -> Iterator[str]:
    """What else the paper prints: under noise, of which a mean says little, and bounds; the rest is not judged."""
    noisy = [row for row in _beside_printed(outcomes, "AUC") if row.column in DPAUC]
    if noisy:
        close = sum(_distance(row) <= 2 * hypot(row.std or 0.0, row.printed_std or 0.0) for row in noisy)
        wide = sum((row.printed_std or 0.0) > 1 for row in noisy)
        yield (
            f"Of {len(noisy)} printed means of DPAUC, which adds noise, {close} lie within two standard deviations of "
            f"ours; {wide} of these are printed with a deviation above 1, and agreement says little there."
        )
    bounds = list(_beside_printed(outcomes, "bits"))
    if bounds:
        close = sum(_distance(row) <= 1 for row in bounds)
        yield f"{close} of {len(bounds)} printed bounds of soundness were met to within one bit."
    yield "Times and sizes are of other machines and libraries: they stand beside the printed ones and are not judged."


def _beside_printed(outcomes: Sequence[Reproduction], unit: str) -> Iterator[Row]:
    return (row for each in outcomes for row in each.rows if row.unit == unit and row.difference is not None)


def _distance(row: Row) -> float:
    return abs(row.difference or 0.0)


def _named(row: Row) -> str:
    points = "" if row.decision_points is None else f", N = {row.decision_points}"
    where = f"{row.column} on {row.data or 'the data'}, {row.size or 0:,} samples{points}"
    return f"{where}: {row.value:.4f} instead of {row.printed:.4f}"


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
