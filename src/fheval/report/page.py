"""The frame of every page: one file, no script, nothing from elsewhere; light, dark, narrow and printed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from fheval.drawing.figures import style
from fheval.drawing.markup import Content, Element, element, write

# Even a string that became markup against all care could load nothing and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of a table: its heading, and whether it holds numbers."""

    heading: str
    number: bool = False


def page(title: str, header: Content, main: Content, footer: Content) -> str:
    """A whole page as text."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", title),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", **{"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        # An empty icon: a browser would ask the page's host for one otherwise.
        element("link", rel="icon", href="data:,"),
        element("style", style() + files("fheval.report").joinpath("style.css").read_text(encoding="utf-8")),
    )
    body = element("body", element("header", header), element("main", main), element("footer", footer))
    return "<!doctype html>\n" + write(element("html", head, body, lang="en")) + "\n"


def section(title: str, *content: Content, anchor: str | None = None) -> Element:
    """A part of the page under its heading."""
    return element("section", element("h2", title, id=anchor), *content)


def table(
    columns: Sequence[Heading], rows: Sequence[Sequence[Content]], *, caption: str, stack: bool = False
) -> Element:
    """A table whose first column heads its rows; on a narrow screen it is stacked, or scrolls below its caption."""
    head = element("thead", element("tr", [_heading(column) for column in columns]))
    body = element("tbody", [_row(columns, row) for row in rows])
    if stack:
        return element("table", element("caption", caption), head, body, class_="stack")
    # What scrolls must be reachable by keyboard, and a reachable thing needs a name.
    scrolls = element(
        "div", element("table", head, body), class_="scroll", tabindex=0, role="region", aria_label=caption
    )
    return element("div", element("p", caption, class_="caption"), scrolls, class_="captioned")


def facts(pairs: Sequence[tuple[str, str]]) -> Element:
    """Names and what belongs to each."""
    return element("dl", [(element("dt", name), element("dd", text)) for name, text in pairs], class_="facts")


def _heading(column: Heading) -> Element:
    return element("th", column.heading, scope="col", class_=_kind(column))


def _row(columns: Sequence[Heading], cells: Sequence[Content]) -> Element:
    first, *others = zip(columns, cells, strict=True)
    return element(
        "tr",
        element("th", first[1], scope="row", class_=_kind(first[0])),
        [element("td", cell, class_=_kind(column), data_label=column.heading) for column, cell in others],
    )


def _kind(column: Heading) -> str | None:
    return "number" if column.number else None


def replace_file(path: Path, text: str) -> None:
    """Write aside and move: a reader sees the older file or all of this one, whatever happens in between."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            # mkstemp takes the file from everybody else; a result is as readable as any new file.
            os.fchmod(descriptor, 0o666 & ~_umask())
            file.write(text)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
