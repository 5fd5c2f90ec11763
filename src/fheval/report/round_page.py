"""The page of `--report`: one evaluation for people who were not there."""

from __future__ import annotations

from datetime import datetime

from fheval.drawing.markup import Content, Element, element
from fheval.report.account import Account, Number, Role
from fheval.report.page import Heading, facts, page, section, table
from fheval.version import __version__


def round_page(account: Account, when: datetime) -> str:
    """The result and its pictures first, then what was revealed to whom, how it was computed, and by whom."""
    header = [
        element("p", _study(account), element("time", _day(when), datetime=when.isoformat()), class_="eyebrow"),
        element("h1", account.title),
        element("div", [_headline(each, len(account.headlines) > 1) for each in account.headlines], class_="headlines"),
        element("p", f"Release: {account.release}.", class_="release"),
    ]
    main: list[Content] = [
        element("div", account.curves, class_="plots") if account.curves else None,
        element("div", account.pictures, class_="pictures"),
        element("p", account.binning, class_="release") if account.binning else None,
        _caution(account),
        section(
            "What was revealed, and to whom",
            element("p", element("strong", "What the numbers say: "), account.revealed) if account.revealed else None,
            _roles(account.roles),
            element("p", element("strong", "Who works together: "), account.together) if account.together else None,
        ),
        section("How it was computed", element("ol", [element("li", step) for step in account.steps])),
        section("What was asked", element("ul", [element("li", each) for each in account.terms]))
        if account.terms
        else None,
        section("The round", facts(account.facts)),
    ]
    made = f"Made by fheval {__version__} on {when.isoformat(sep=' ', timespec='minutes')}."
    title = f"{account.study}: {account.title}" if account.study else account.title
    return page(title, header, main, element("p", made))


def _study(account: Account) -> Content:
    return [element("strong", f"Study {account.study}"), " · "] if account.study else None


def _day(when: datetime) -> str:
    return f"{when.day} {when:%B %Y, %H:%M} {when.tzname() or ''}".rstrip()


def _headline(number: Number, named: bool) -> Element:
    return element(
        "div",
        element("p", number.name, class_="name") if named else None,
        element("p", number.value, class_="figure"),
        element("p", number.interval, class_="interval") if number.interval else None,
        element("p", number.remark, class_="release") if number.remark else None,
        class_="headline",
    )


def _roles(roles: tuple[Role, ...]) -> Element:
    """Who saw what; columns in which nothing would stand are left out."""
    columns = [(Heading("sent", number=True), "sent"), (Heading("worked", number=True), "worked")]
    kept = [(heading, name) for heading, name in columns if any(getattr(role, name) for role in roles)]
    return table(
        [Heading("role"), Heading("saw"), *(heading for heading, _ in kept)],
        [(role.name, role.saw, *(getattr(role, name) for _, name in kept)) for role in roles],
        caption="What each role saw" + (", what it sent, and how long it worked." if kept else "."),
        stack=True,
    )


def _caution(account: Account) -> Content:
    if account.caution is None:
        return None
    return element("p", element("strong", "Beware. "), account.caution, class_="caution", role="note")
