"""Shows the examples of docstrings as code on the site; loaded by mkdocstrings, in the environment of the docs."""

from __future__ import annotations

from typing import Any

try:
    import griffe
except ImportError:  # checked and tested where there is no griffe
    Extension: Any = object
else:
    Extension = griffe.Extension


class FencedDoctests(Extension):  # type: ignore[misc]
    """Puts a fence around every run of lines that begins with `>>>`."""

    def on_object(self, *, obj: Any, **_: object) -> None:
        """Change the docstring of whatever was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""The text with its examples as code.

    >>> print(fenced("Adds.\n\n>>> 1 + 1\n2\n\nThat is all."))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    That is all.
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(f"```pycon\n{each}\n```" if each.lstrip().startswith(">>>") else each for each in paragraphs)
