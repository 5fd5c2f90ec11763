"""A tree of elements, of HTML or SVG, and its text. Nothing is pasted into markup, so that no string becomes any."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as Tree

# Only built and written here, never parsed: what ElementTree warns about does not arise.
Element = Tree.Element
Content = Element | str | None | Iterable["Content"]
Value = str | int | float | None


def element(tag: str, *content: Content, **attributes: Value) -> Element:
    """One element with its content in order; an attribute's `_` is a hyphen, a last one is dropped, None leaves it out.

    >>> write(element("p", "a < b, ", element("b", "bold"), class_="note", aria_label='"quoted"'))
    '<p class="note" aria-label="&quot;quoted&quot;">a &lt; b, <b>bold</b></p>'
    """
    made = Element(tag, {_name(name): _text(value) for name, value in attributes.items() if value is not None})
    _append(made, content)
    return made


def write(root: Element) -> str:
    """The tree as HTML."""
    return Tree.tostring(root, encoding="unicode", method="html")


def _append(parent: Element, content: Content) -> None:
    if content is None:
        return
    if isinstance(content, Element):
        parent.append(content)
    elif isinstance(content, str):
        _append_text(parent, _text(content))
    else:
        for each in content:
            _append(parent, each)


def _append_text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _name(name: str) -> str:
    return name.removesuffix("_").replace("_", "-")


def _text(value: Value) -> str:
    # A file's name may hold bytes that are no UTF-8, which Python keeps as lone surrogates.
    return str(value).encode("utf-8", "replace").decode("utf-8")
