"""The numbers of a round as forest plots: one for each metric with several lines, differences of models apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, log10

from fheval.drawing.figures import Estimate, forest
from fheval.drawing.markup import Element
from fheval.evaluation.result import MACRO, Row
from fheval.report.wording import MOST_DECIMALS, decimals, fixed, metric_in_words, p_in_words, short_binning

# Of a noisy number that has no interval to tell.
_NOISY_DECIMALS = 3


def is_difference(row: Row, models: Sequence[str]) -> bool:
    """Whether a row compares two models: its model is none of the study's."""
    return row.model is not None and row.model not in models


def digits_of(protocol: str, row: Row) -> int:
    """How many decimals of a row mean something; under noise, a twentieth of its interval does, or three decimals."""
    if row.precision is not None:
        return decimals(protocol, row.precision or "exact")
    if row.low is None or row.high is None or row.low >= row.high:
        return _NOISY_DECIMALS
    return min(MOST_DECIMALS, max(1, ceil(-log10((row.high - row.low) / 20))))


def forests(protocol: str, rows: Sequence[Row], models: Sequence[str], confidence: float | None) -> tuple[Element, ...]:
    """Every number of a round, with its interval where it has one."""
    compared = [row for row in rows if is_difference(row, models)]
    plain = [row for row in rows if not is_difference(row, models)]
    drawn = [
        forest(
            [_estimate(protocol, row, named) for row in part],
            title=title,
            caption=_caption(part, confidence),
            heads=("", "value", _interval(confidence)),
            limits=(0.0, 1.0) if _is_share(part) else None,
        )
        for title, part, named in _panels(plain)
    ]
    if compared:
        drawn.append(
            forest(
                [_estimate(protocol, row, named=True) for row in compared],
                title="Differences between models",
                caption="Right of zero, the model that is named first has the higher value. "
                f"{_caption(compared, confidence)} A p-value is two-sided, from the same resamples; “p ≤” says that "
                "none of them contradicts.",
                heads=("", "difference", _interval(confidence)),
                zero=True,
            )
        )
    return tuple(drawn)


def _panels(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row], bool]]:
    """What shares an axis: all numbers of a metric, or several metrics between 0 and 1.

    Gives a title, the rows, and whether each row is to name its metric.
    """
    by_metric: dict[str, list[Row]] = {}
    for row in rows:
        by_metric.setdefault(row.metric, []).append(row)
    shared = {metric: part for metric, part in by_metric.items() if _shares_an_axis(part)}
    if len(shared) > 1:
        yield "All numbers", [row for part in shared.values() for row in part], True
    for metric, part in by_metric.items():
        if len(shared) < 2 or metric not in shared:
            yield metric_in_words(metric), part, len(part) == 1


def _shares_an_axis(rows: Sequence[Row]) -> bool:
    """Whether an axis from 0 to 1 shows all there is to see: one number, or several without intervals."""
    return _is_share(rows) and (len(rows) == 1 or all(row.low is None for row in rows))


def _is_share(rows: Sequence[Row]) -> bool:
    found = [number for row in rows for number in (row.value, row.low, row.high) if number is not None]
    return all(0 <= number <= 1 for number in found)


def _estimate(protocol: str, row: Row, named: bool) -> Estimate:
    name = row_name(row, named=named)
    whole = row.group is None and row.label in (None, MACRO)
    if row.value is None:
        return Estimate(name, None, remark=row.error or row.note or "", whole=whole)
    digits = digits_of(protocol, row)
    shown = [fixed(each, digits).replace("-", "−") for each in (row.value, row.low, row.high) if each is not None]
    remarks = (
        None if row.p_value is None else p_in_words(row.p_value, row.resamples),
        None if row.binning is None or row.p_value is not None else f"δ {short_binning(row.binning, digits)}",
        row.note,
    )
    return Estimate(
        name,
        row.value,
        row.low,
        row.high,
        shown[0],
        " to ".join(shown[1:]),
        "; ".join(filter(None, remarks)),
        whole,
    )


def row_name(row: Row, *, named: bool) -> str:
    """What a row is of: metric, model, class, group; "all" where nothing of it needs to be said."""
    parts = (
        metric_in_words(row.metric) if named else None,
        row.model and row.model.replace(" - ", " − "),
        row.label and _class(row.label),
        row.group,
    )
    return ", ".join(filter(None, parts)) or "all"


def _class(label: str) -> str:
    return "mean of classes" if label == MACRO else f"class {label}"


def _interval(confidence: float | None) -> str:
    return "interval" if confidence is None else f"{100 * confidence:g} % interval"


def _source(rows: Sequence[Row]) -> str:
    """What intervals come from: numbers that are not rounded have theirs from noisy counts."""
    noisy = all(row.precision is None for row in rows if row.low is not None)
    return "the counts and their noise" if noisy else "resamples at the parties"


def _caption(rows: Sequence[Row], confidence: float | None) -> str:
    told = []
    if confidence is not None and any(row.low is not None for row in rows):
        told.append(f"Bars are {100 * confidence:g} % intervals, from {_source(rows)}.")
    if any(row.binning is not None and row.p_value is None for row in rows):
        told.append("δ bounds how far counting at decision points may have moved a number; no interval includes it.")
    return " ".join(told)
