"""The figures on the page: time, accuracy and traffic as plots, with what they show in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from fheval.report.elements import Content, element
from fheval.report.page import Column, table
from fheval_lab.reproduce import numbers
from fheval_lab.reproduce.accuracy import PROTOCOLS
from fheval_lab.reproduce.data_sets import TITLES
from fheval_lab.reproduce.figures import FIXED_POINTS, POINTS
from fheval_lab.reproduce.plots import Axis, Series, plot
from fheval_lab.reproduce.printed import (
    ACCURACY,
    MPC_PARTIES,
    MPC_SAMPLES,
    MPC_SECONDS,
    PARTIES,
    SECONDS_100_PARTIES,
    SERVER_MEGABYTES,
)
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Outcome


def against_points(outcome: Outcome) -> Content:
    """Time of each protocol, and accuracy on each data set, against decision points."""
    timed = [row for row in outcome.rows if row.unit == "s"]
    close = [row for row in outcome.rows if row.column == "accuracy"]
    plots: list[Content] = []
    if timed:
        plots.append(
            plot(
                _lines(timed, "decision_points"),
                Axis("decision points N", log=True, bounds=(POINTS[0], POINTS[-1])),
                Axis("milliseconds of the aggregator"),
                title=f"Time against decision points, {PARTIES} parties",
                caption=f"{_growth(timed, 'decision_points', 'points')} The paper's protocols sum over slots by "
                "rotations, one more for each doubling of N; ours needs none.",
            )
        )
    if close:
        plots.append(_accuracy_plot(close))
    return element("div", plots, class_="plots")


def against_parties(outcome: Outcome) -> Content:
    """Time and traffic of each protocol against parties, and how MPC grows."""
    timed = [row for row in outcome.rows if row.unit == "s" and row.column in PROTOCOLS]
    received = [row for row in outcome.rows if row.column.endswith(" server")]
    plots: list[Content] = []
    if timed:
        plots.append(_parties_plot(timed))
    if received:
        plots.append(_traffic_plot(received))
    return [element("div", plots, class_="plots"), _mpc(outcome.rows)]


def _parties_plot(timed: Sequence[Row]) -> Content:
    printed = [
        Series(f"printed, {setting}", ((100.0, 1e3 * said),), reference=True)
        for setting, said in SECONDS_100_PARTIES.items()
    ]
    return plot(
        [*_lines(timed, "parties"), *printed],
        Axis("parties"),
        Axis("milliseconds of the aggregator"),
        title=f"Time against parties, N = {FIXED_POINTS}",
        caption=f"{_growth(timed, 'parties', 'parties')} Grey: the paper's 0.68 s and 1.64 s, on another machine.",
    )


def _traffic_plot(received: Sequence[Row]) -> Content:
    lines = [
        Series(
            protocol,
            tuple(
                (float(row.parties or 0), row.value or 0.0) for row in received if row.column == f"{protocol} server"
            ),
        )
        for protocol in PROTOCOLS
    ]
    lines += [
        Series(
            f"printed, {setting}",
            tuple((float(count), said) for (name, count), said in SERVER_MEGABYTES.items() if name == setting),
            reference=True,
        )
        for setting in ("semi-honest", "malicious")
    ]
    return plot(
        [each for each in lines if each.points],
        Axis("parties"),
        Axis("megabytes through the aggregator", log=True),
        title=f"Traffic against parties, N = {FIXED_POINTS}",
        caption="All that passes the aggregator in one round, without keys. With pads most of it is the leader's, "
        "whatever the number of parties.",
    )


def _lines(rows: Sequence[Row], across: str) -> list[Series]:
    lines = []
    for protocol in PROTOCOLS:
        own = sorted((row for row in rows if row.column == protocol), key=attrgetter(across))
        points = tuple((float(getattr(row, across)), 1e3 * (row.value or 0.0)) for row in own)
        spread = tuple(
            (max(y - 1e3 * (row.std or 0.0), 0.0), y + 1e3 * (row.std or 0.0))
            for (_, y), row in zip(points, own, strict=True)
        )
        lines.append(Series(protocol, points, spread))
    return [line for line in lines if line.points]


def _growth(rows: Sequence[Row], across: str, what: str) -> str:
    """How much each protocol's time grows from the least to the most."""
    told = []
    for protocol in PROTOCOLS:
        own = sorted((row for row in rows if row.column == protocol and row.value), key=attrgetter(across))
        if len(own) > 1:
            first, last = own[0], own[-1]
            ends = f"{numbers.seconds(first.value)} to {numbers.seconds(last.value)}"
            told.append(f"{protocol} {ends} (×{(last.value or 0) / (first.value or 1):.1f})")
    least, most = min(getattr(row, across) for row in rows), max(getattr(row, across) for row in rows)
    return f"From {least} to {most:,} {what}: {', '.join(told)}."


def _accuracy_plot(close: Sequence[Row]) -> Content:
    lines = []
    for name, title in TITLES.items():
        own = sorted((row for row in close if row.data == name), key=lambda row: row.decision_points or 0)
        if own:
            points = tuple((float(row.decision_points or 0), 100 - (row.value or 0.0)) for row in own)
            # Nothing is off by nothing on a logarithmic axis.
            points = tuple((n, max(off, 1e-5)) for n, off in points)
            lines.append(Series(f"{title}, {own[0].size:,} samples", points))
    lines.append(Series(f"printed: {ACCURACY} %", ((100.0, 100 - ACCURACY),), reference=True))
    reached = next((row.value for row in close if row.printed is not None), None)
    compared = "" if reached is None else f" The paper prints {ACCURACY} % at N = 100; here it is {reached:.2f} %."
    return plot(
        lines,
        Axis("decision points N", log=True),
        Axis("per cent off the exact AUC", log=True),
        title="Accuracy against decision points",
        caption=f"How far the AUC at N points is from scikit-learn's, which is what more points buy.{compared}",
    )


def _mpc(rows: Sequence[Row]) -> Content:
    timed = [row for row in rows if row.column == "mpc"]
    if not timed:
        return None
    traffic = {(row.parties, row.size): row.value for row in rows if row.column == "mpc traffic"}
    lines: list[list[Content]] = [
        [
            str(row.parties),
            f"{row.size:,}",
            numbers.seconds(row.value),
            numbers.megabytes(traffic.get((row.parties, row.size))),
        ]
        for row in timed
    ]
    lines.append([f"{MPC_PARTIES} (published)", f"{MPC_SAMPLES:,}", numbers.seconds(MPC_SECONDS), numbers.NOTHING])
    columns = [
        Column("parties", number=True),
        Column("samples", number=True),
        Column("time", number=True),
        Column("between the processes", number=True),
    ]
    return [
        element("h3", "The exact AUC by multi-party computation"),
        element(
            "p",
            "In the manner of ppAURORA, ties included, three processes on this machine. Its time grows with the "
            "samples, on which that of the protocols above does not depend, and with the logarithm of the number of "
            "parties. It is no fair race with the published time: other hardware, another framework, and a merge in "
            "n·log n here, which took about 190 s for as many samples on two busy cores.",
        ),
        table(columns, lines, caption="Cost of the exact AUC by MPC."),
    ]
