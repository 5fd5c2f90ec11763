"""Tables 1 and 2 on the page: the libraries and MPC, our protocols, and DPAUC."""

from __future__ import annotations

from collections.abc import Mapping

from fheval.report.elements import Content, Element, element
from fheval.report.page import Column, table
from fheval_lab.reproduce import numbers
from fheval_lab.reproduce.accuracy import DPAUC_COLUMNS, EPSILONS, PROTOCOLS, ROUNDED
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Outcome

# By size, decision points and column.
Index = Mapping[tuple[int | None, int | None, str], Row]

_LIBRARIES = {"tensorflow": "TensorFlow, 1,000 thresholds", "scikit-learn": "scikit-learn", "mpc": "MPC, 15 parties"}


def content(outcome: Outcome) -> Content:
    """Everything of one table."""
    if not outcome.rows:
        return element("p", "There are no data for this table.")
    # The libraries and MPC have thresholds of their own or none: one value for all decision points.
    index = {
        (row.size, None if row.column in _LIBRARIES else row.decision_points, row.column): row for row in outcome.rows
    }
    return [_summary(outcome), _truth(index), _ours(index), _noisy(index), _notes(outcome)]


def _summary(outcome: Outcome) -> Element:
    exact = [abs(row.difference) for row in outcome.rows if row.column in PROTOCOLS and row.difference is not None]
    pooled = [abs(row.difference) for row in outcome.rows if row.column in _LIBRARIES and row.difference is not None]
    sentences = []
    if exact:
        sentences.append(
            f"Over {len(exact)} rounds of 15 parties, our exact releases lie within {numbers.magnitude(max(exact))} of "
            "the printed column “Ours”, which has six decimals and the noise of CKKS."
        )
    if pooled:
        sentences.append(f"The libraries and MPC lie within {numbers.magnitude(max(pooled))} of theirs.")
    return element("p", " ".join(sentences))


def _truth(index: Index) -> Element:
    sizes = sorted({size for size, _, column in index if column in _LIBRARIES and size is not None})
    rows = [[f"{size:,}", *(_beside(index.get((size, None, column))) for column in _LIBRARIES)] for size in sizes]
    columns = [Column("samples", number=True), *(Column(title, number=True) for title in _LIBRARIES.values())]
    return table(columns, rows, caption="The AUC of the pooled samples, and by MPC without pooling them.")


def _ours(index: Index) -> Element:
    shown = (*PROTOCOLS, ROUNDED)
    lines = sorted({(size, points) for size, points, column in index if column in shown and size and points})
    rows: list[list[Content]] = []
    for size, points in lines:
        found = [index.get((size, points, column)) for column in shown]
        printed = next(row.printed for row in found if row is not None)
        rows.append([f"{size:,}", str(points), numbers.auc(printed), *(_differing(row) for row in found)])
    columns = [Column(name, number=True) for name in ("samples", "N", "printed", *shown)]
    return table(columns, rows, caption="Our protocols, exact releases unless said otherwise, and the printed “Ours”.")


def _noisy(index: Index) -> Content:
    shown = [f"{column}-epsilon-{epsilon}" for epsilon in EPSILONS for column in DPAUC_COLUMNS]
    lines = sorted({(size, points) for size, points, column in index if column in shown and size and points})
    if not lines:
        return None
    rows: list[list[Content]] = []
    for size, points in lines:
        cells: list[Content] = [f"{size:,}", str(points)]
        for epsilon in EPSILONS:
            plain, processed = (index.get((size, points, f"{column}-epsilon-{epsilon}")) for column in DPAUC_COLUMNS)
            cells += [_noisy_beside(plain), _mean(processed)]
        rows.append(cells)
    headings = [heading for epsilon in EPSILONS for heading in (f"ε = {epsilon}", f"ε = {epsilon}, post-processed")]
    columns = [Column(name, number=True) for name in ("samples", "N", *headings)]
    return table(columns, rows, caption="DPAUC: mean and standard deviation over 100 repetitions, printed below ours.")


def _notes(outcome: Outcome) -> Element:
    engines = sorted({row.note for row in outcome.rows if row.column in PROTOCOLS and row.note})
    without = any(row.column == "tensorflow" and row.note and "without" in row.note for row in outcome.rows)
    notes = [
        f"Our protocols ran on {', '.join(engines)}. “{ROUNDED}” is what padded releases by default: the last decimals "
        "are noise by design."
        if engines
        else None,
        "DPAUC's huge numbers owe much to missing post-processing: noise may make counts negative and totals nearly "
        "zero. Counts cut off at zero and points sorted by their rate, as in the code of Sun et al., cost no privacy "
        "and keep the AUC within 0 and 1; it is then wrong less spectacularly.",
        "Criteo at 100 samples is the one place where the published files do not give the printed values to five "
        "decimals; the paper does not say why. All our protocols agree on it, and with the plain counts."
        if any((row.data, row.size) == ("criteo", 100) for row in outcome.rows)
        else None,
        "The column of TensorFlow is what its metric computes, without it: it is not installed here."
        if without
        else None,
    ]
    return element("ul", [element("li", note) for note in notes if note])


def _beside(row: Row | None) -> Content:
    """A value, and under it the printed one and the difference."""
    if row is None:
        return numbers.NOTHING
    under = f"printed {numbers.auc(row.printed)}, difference {numbers.difference(row.difference)}"
    return [numbers.auc(row.value), element("span", under, class_="beside")]


def _differing(row: Row | None) -> Content:
    if row is None:
        return numbers.NOTHING
    return [numbers.auc(row.value), element("span", numbers.difference(row.difference), class_="beside")]


def _noisy_beside(row: Row | None) -> Content:
    if row is None:
        return numbers.NOTHING
    under = f"printed {numbers.with_deviation(row.printed, row.printed_std)}"
    return [_mean(row), element("span", under, class_="beside")]


def _mean(row: Row | None) -> str:
    return numbers.NOTHING if row is None else numbers.with_deviation(row.value, row.std)
