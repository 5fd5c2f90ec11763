"""Outsourced division on the page: where each way is right, what it took, and what it would have to know."""

from __future__ import annotations

from collections.abc import Sequence

from fheval.drawing.markup import Content, element
from fheval.drawing.plots import Axis, Series, plot, written
from fheval_lab.baselines.division import CKKS_DIVISION, TOLERANCE
from fheval_lab.reproduce import numbers
from fheval_lab.reproduce.divisions import CASES, EFFORT_NAMES, METHODS, SPREADS, Case
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Reproduction

# Wrong by more than this is wrong, however much; better than this is noise.
_WORST, _BEST = 10.0, 1e-9

_TITLES = {"chebyshev": "Chebyshev", "newton": "Newton–Raphson"}


def content(outcome: Reproduction) -> Content:
    """Text, a plot for each method, and two tables."""
    return [
        element(
            "p",
            "The paper tried to let the aggregator divide under encryption and gave it up. Both ways approximate 1/den "
            "on an interval, so the parties must agree on bounds for den, which is twice the positives times the "
            "negatives of all of them together, before they encrypt. Within bounds that are near enough to each other "
            "both are right; below them the AUC comes out too small, above them anything comes out, and nothing tells. "
            "Bounds that fit every case, from 10³ to 10¹⁰, leave Chebyshev right nowhere and Newton–Raphson only near "
            "its first guess, within the levels that there are.",
        ),
        element("div", [_error_plot(method, outcome.rows) for method in METHODS], class_="plots"),
        _cases(outcome.rows),
        _needs(outcome.rows),
    ]


def _error_plot(method: str, rows: Sequence[Row]) -> Content:
    lines = [_line(case, rows) for case in CASES if case.approximation.method == method and case.approximation.scaled]
    drawn = [line for line in lines if line.points]
    if not drawn:
        return None
    return plot(
        [*drawn, Series("five decimals", ((1e3, TOLERANCE), (1e10, TOLERANCE)), reference=True)],
        Axis("den", log=True, bounds=(1e3, 1e10)),
        Axis("error of the AUC", log=True, bounds=(_BEST, _WORST)),
        title=f"{_TITLES[method]}: error against den",
        caption="Each line is one pair of public bounds; the AUC is 0.75. Errors above 10 are drawn at 10.",
    )


def _line(case: Case, rows: Sequence[Row]) -> Series:
    points = tuple(
        (float(row.size), _WORST if row.value is None else min(max(row.value, _BEST), _WORST))
        for row in rows
        if row.column == f"{case.name} error" and row.size is not None
    )
    return Series(f"{_bounds(case)}, {_effort(case)}", points)


def _bounds(case: Case) -> str:
    return f"{written(case.approximation.low)} to {written(case.approximation.high)}"


def _effort(case: Case) -> str:
    effort = case.approximation.effort
    return f"degree {effort}" if case.approximation.method == "chebyshev" else f"{effort} steps"


def _cases(rows: Sequence[Row]) -> Content:
    by_column: dict[str, list[Row]] = {}
    for row in rows:
        by_column.setdefault(row.column, []).append(row)
    lines = [_case_line(case, by_column) for case in CASES if f"{case.name} error" in by_column]
    if not lines:
        return None
    words = ["method", "public bounds on den", "right to five decimals for den"]
    headings = [*words[:2], "largest error within", words[2], "levels", "time"]
    ring, depth = CKKS_DIVISION.ring, CKKS_DIVISION.depth
    caption = f"Measured in ring {ring:,} with {depth} levels, the most that it has at 128 bits."
    return numbers.table(headings, lines, caption=caption, words=words)


def _case_line(case: Case, by_column: dict[str, list[Row]]) -> list[Content]:
    chosen = case.approximation
    errors = by_column[f"{case.name} error"]
    found = [(row.size, row.value) for row in errors if row.size is not None and row.value is not None]
    within = [error for den, error in found if chosen.low <= den <= chosen.high]
    right = [den for den, error in found if error <= TOLERANCE]
    refused = next((row.note for row in errors if row.size is None), None)
    levels, seconds = (by_column.get(f"{case.name} {what}", [None])[0] for what in ("levels", "seconds"))
    return [
        f"{_TITLES[chosen.method]}, {_effort(case)}",
        _bounds(case) + ("" if chosen.scaled else ", numbers not scaled"),
        numbers.magnitude(max(within)) if within else numbers.NOTHING,
        refused or (f"{written(min(right))} to {written(max(right))}" if right else "none"),
        numbers.NOTHING if levels is None else f"{levels.value:g}",
        numbers.seconds(None if seconds is None else seconds.value),
    ]


def _needs(rows: Sequence[Row]) -> Content:
    values = {(row.size, row.column): row.value for row in rows}
    if (SPREADS[0], f"{METHODS[0]} needs levels") not in values:
        return None
    needed = [f"{method} needs {what}" for method in METHODS for what in (EFFORT_NAMES[method], "levels")]
    lines = [[f"{spread:,}", *(f"{values[spread, column]:,g}" for column in needed)] for spread in SPREADS]
    headings = ["upper bound over lower", "Chebyshev: degree", "levels", "Newton–Raphson: steps", "levels "]
    return [
        element(
            "p",
            "What would be needed for five decimals, if the bounds were known: at least so many levels, one for the "
            f"product with num included. The protocol itself takes two more; the set above has {CKKS_DIVISION.depth}. "
            "The bounds alone say how many samples there are to within the square root of their ratio.",
        ),
        numbers.table(headings, lines, caption="What five decimals need, by how far apart the bounds on den are."),
    ]
