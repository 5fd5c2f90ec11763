"""The figures on the page: time, accuracy and traffic as plots, with what they show in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from fheval.drawing.markup import Content, element
from fheval.drawing.plots import Axis, Series, plot
from fheval_lab.reproduce import numbers, printed
from fheval_lab.reproduce.accuracy import PROTOCOLS
from fheval_lab.reproduce.data_sets import TITLES
from fheval_lab.reproduce.figures import FIXED_POINTS, POINTS
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Reproduction


def against_points(outcome: Reproduction) -> Content:
    """Time of each protocol, and accuracy on each data set, against decision points."""
    timed = [row for row in outcome.rows if row.unit == "s"]
    close = [row for row in outcome.rows if row.column == "accuracy"]
    plots = [draw(rows) for draw, rows in ((_points_plot, timed), (_accuracy_plot, close)) if rows]
    return element("div", plots, class_="plots")


def against_parties(outcome: Reproduction) -> Content:
    """Time and traffic of each protocol against parties, and how MPC grows."""
    timed = [row for row in outcome.rows if row.unit == "s" and row.column in PROTOCOLS]
    passed = [row for row in outcome.rows if row.column.endswith(" server")]
    plots = [draw(rows) for draw, rows in ((_parties_plot, timed), (_traffic_plot, passed)) if rows]
    return [element("div", plots, class_="plots"), _mpc(outcome.rows)]


def _points_plot(timed: Sequence[Row]) -> Content:
    return plot(
        _lines(timed, "decision_points"),
        Axis("decision points N", log=True, bounds=(POINTS[0], POINTS[-1])),
        Axis("milliseconds of the aggregator"),
        title=f"Time against decision points, {printed.PARTIES} parties",
        caption=f"{_growth(timed, 'decision_points', 'points')} The paper's protocols sum over slots by rotations, one "
        "more for each doubling of N; ours needs none.",
    )


def _parties_plot(timed: Sequence[Row]) -> Content:
    said = [
        Series(f"printed, {setting}", ((100.0, 1e3 * seconds),), reference=True)
        for setting, seconds in printed.SECONDS_100_PARTIES.items()
    ]
    return plot(
        [*_lines(timed, "parties"), *said],
        Axis("parties"),
        Axis("milliseconds of the aggregator"),
        title=f"Time against parties, N = {FIXED_POINTS}",
        caption=f"{_growth(timed, 'parties', 'parties')} Grey: the paper's 0.68 s and 1.64 s, on another machine.",
    )


def _traffic_plot(passed: Sequence[Row]) -> Content:
    lines = []
    for protocol in PROTOCOLS:
        own = [row for row in passed if row.column == f"{protocol} server"]
        lines.append(Series(protocol, tuple((float(row.parties or 0), row.value or 0.0) for row in own)))
    for setting in ("semi-honest", "malicious"):
        said = [(count, size) for (name, count), size in printed.SERVER_MEGABYTES.items() if name == setting]
        lines.append(Series(f"printed, {setting}", tuple(said), reference=True))
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
        times = [(1e3 * (row.value or 0.0), 1e3 * (row.std or 0.0)) for row in own]
        points = tuple((float(getattr(row, across)), time) for row, (time, _) in zip(own, times, strict=True))
        lines.append(Series(protocol, points, tuple((max(time - std, 0.0), time + std) for time, std in times)))
    return [line for line in lines if line.points]


def _growth(rows: Sequence[Row], across: str, what: str) -> str:
    """How much each protocol's time grows from the least to the most."""
    told = []
    for protocol in PROTOCOLS:
        own = sorted((row for row in rows if row.column == protocol and row.value), key=attrgetter(across))
        if len(own) > 1:
            first, last = own[0].value or 1, own[-1].value or 0
            told.append(f"{protocol} {numbers.seconds(first)} to {numbers.seconds(last)} (×{last / first:.1f})")
    places = [getattr(row, across) for row in rows]
    return f"From {min(places)} to {max(places):,} {what}: {', '.join(told)}."


def _accuracy_plot(close: Sequence[Row]) -> Content:
    lines = []
    for name, title in TITLES.items():
        own = sorted((row for row in close if row.data == name), key=lambda row: row.decision_points or 0)
        if own:
            # Nothing is off by nothing on a logarithmic axis.
            points = tuple((float(row.decision_points or 0), max(100 - (row.value or 0.0), 1e-5)) for row in own)
            lines.append(Series(f"{title}, {own[0].size:,} samples", points))
    said = printed.ACCURACY
    lines.append(Series(f"printed: {said} %", ((100.0, 100 - said),), reference=True))
    reached = next((row.value for row in close if row.printed is not None), None)
    compared = "" if reached is None else f" The paper prints {said} % at N = 100; here it is {reached:.2f} %."
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
    lines = [
        (str(row.parties), f"{row.size:,}", row.value, numbers.megabytes(traffic.get((row.parties, row.size))))
        for row in timed
    ]
    published = f"{printed.MPC_PARTIES} (published)", f"{printed.MPC_SAMPLES:,}", printed.MPC_SECONDS, numbers.NOTHING
    return [
        element("h3", "The exact AUC by multi-party computation"),
        element(
            "p",
            "In the manner of ppAURORA, ties included, three processes on this machine. Its time grows with the "
            "samples, on which that of the protocols above does not depend, and with the logarithm of the number of "
            "parties. It is no fair race with the published time: other hardware, another framework, and a merge in "
            "n·log n here, which took about 190 s for as many samples on two busy cores.",
        ),
        numbers.table(
            ["parties", "samples", "time", "between the processes"],
            [(parties, size, numbers.seconds(time), sent) for parties, size, time, sent in (*lines, published)],
            caption="Cost of the exact AUC by MPC.",
        ),
    ]
