"""Table 3 and the soundness bounds on the page."""

from __future__ import annotations

from fheval.protocols import padded_verified, paper_malicious
from fheval.report.elements import Content, element
from fheval.report.page import Column, table
from fheval_lab.reproduce import numbers
from fheval_lab.reproduce.accuracy import PROTOCOLS
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Outcome


def communication(outcome: Outcome) -> Content:
    """A line for each protocol and number of clients."""
    by_key = {(row.parties, row.column): row for row in outcome.rows}
    clients = sorted({row.parties for row in outcome.rows if row.parties})
    rows = [
        [
            protocol,
            str(count),
            _beside(by_key.get((count, f"{protocol} client"))),
            _beside(by_key.get((count, f"{protocol} server"))),
            _plain(by_key.get((count, f"{protocol} leader set-up"))),
        ]
        for protocol in PROTOCOLS
        for count in clients
        if (count, f"{protocol} client") in by_key
    ]
    columns = [
        Column("protocol"),
        Column("clients", number=True),
        Column("client side", number=True),
        Column("server side", number=True),
        Column("leader's keys, once", number=True),
    ]
    return [
        element(
            "p",
            "A client's side is what an ordinary party sends and receives in one round at 100 decision points, the "
            "server's is all that passes it. The printed 6.81 MB count four uploaded and two downloaded ciphertexts, "
            "13.62 MB twice that; under ours stands the printed value of the setting that withstands the same "
            "aggregator. With pads a party sends numbers and no ciphertext; the leader alone exchanges ciphertexts, "
            "which the server side includes. Keys are made once for many rounds, and the paper leaves them out.",
        ),
        table(columns, rows, caption="Megabytes (10⁶ bytes) of one round, printed below ours."),
    ]


def soundness(outcome: Outcome) -> Content:
    """The bounds as powers of two."""
    rows = [
        [
            row.column,
            "any" if row.decision_points is None else str(row.decision_points),
            f"2^−{row.value:g}",
            numbers.NOTHING if row.printed is None else f"2^−{row.printed:g}",
        ]
        for row in outcome.rows
    ]
    columns = [
        Column("protocol"),
        Column("N", number=True),
        Column("bound", number=True),
        Column("printed", number=True),
    ]
    return [
        element(
            "p",
            f"{paper_malicious.NAME}: the chance to guess which slots belong to one decision point in both runs, "
            f"(S!(SN−S)!/(SN)!)². It bounds that attack and no other. {padded_verified.NAME}: the chance that any "
            "fraction but the right one is accepted, with so many primes of 46 bits and so many runs over each; the "
            "first line is the default. It bounds every way to deviate, if encryption and pads hide what they should.",
        ),
        table(columns, rows, caption="How likely a forged answer is to pass."),
    ]


def _beside(row: Row | None) -> Content:
    if row is None:
        return numbers.NOTHING
    if row.printed is None or row.value is None:
        return numbers.megabytes(row.value)
    under = f"printed {numbers.megabytes(row.printed)}, {numbers.ratio(row.value / row.printed)}"
    return [numbers.megabytes(row.value), element("span", under, class_="beside")]


def _plain(row: Row | None) -> str:
    return numbers.megabytes(None if row is None else row.value)
