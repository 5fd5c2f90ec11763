"""The page of `--report`: one evaluation for people who were not there."""

from __future__ import annotations

from datetime import datetime

from fheval.drawing.markup import Content, element
from fheval.report.account import Account
from fheval.report.page import Heading, facts, page, section, table
from fheval.version import __version__


def round_page(account: Account, when: datetime) -> str:
    """The result, the protocol in plain words, who saw what, times and sizes, and what to beware of."""
    header: list[Content] = [element("h1", account.title)]
    if account.figure is not None:
        header.append(element("p", account.figure, class_="figure"))
    header.append(element("p", account.release, class_="release"))
    if account.binning is not None:
        header.append(element("p", account.binning, class_="release"))
    main = [
        _numbers(account),
        _caution(account),
        section("How it was computed", element("ol", [element("li", step) for step in account.steps])),
        section(
            "Who saw what",
            table(
                [Heading("role"), Heading("saw"), Heading("sent", number=True), Heading("worked", number=True)],
                [(role.name, role.saw, role.sent, role.worked) for role in account.roles],
                caption="What each role saw and sent, and how long it worked.",
                stack=True,
            ),
        ),
        section("The round", facts(account.facts)),
    ]
    made = f"Made by fheval {__version__} on {when.isoformat(sep=' ', timespec='minutes')}."
    return page(account.title, header, main, element("p", made))


def _numbers(account: Account) -> Content:
    if not account.numbers:
        return None
    return table(
        [Heading("metric"), Heading("value", number=True), Heading("interval", number=True), Heading("remark")],
        [(each.name, each.value, each.interval, each.remark) for each in account.numbers],
        caption="Every number that was asked for.",
        stack=True,
    )


def _caution(account: Account) -> Content:
    if account.caution is None:
        return None
    return element("p", element("strong", "Beware. "), account.caution, class_="caution", role="note")
