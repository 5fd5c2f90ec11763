"""Run a notebook and write it as a page: `python -m tools.docs.notebooks docs/notebooks/NAME.py`.

A notebook is a script in cells, `# %%` for code and `# %% [markdown]` for text, as editors know them. What a cell
prints and the value of its last line are shown below it, as HTML where the value has any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One cell: text, or code."""

    text: str
    markdown: bool


def cells(source: str) -> Iterator[Cell]:
    """Take a notebook apart; what stands before the first cell is for readers of the file."""
    _, *parts = source.split("# %%")
    for part in parts:
        head, _, body = part.partition("\n")
        markdown = head.strip() == "[markdown]"
        if markdown:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
        yield Cell(body.strip("\n"), markdown)


def run_cell(code: str, names: dict[str, Any]) -> tuple[str, object]:
    """Run code; give what it printed, and the value of its last line if that is an expression."""
    tree = ast.parse(code)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102 (the project's own notebooks)
        if not isinstance(last, ast.Expr):
            return printed.getvalue(), None
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307
    return printed.getvalue(), value


def page(source: str) -> str:
    """The notebook as Markdown, run from top to bottom."""
    # A module of this name stands for the notebook, so that its dataclasses can be found.
    names: dict[str, Any] = {"__name__": "__main__"}
    parts: list[str] = []
    for cell in cells(source):
        if cell.markdown:
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        printed, value = run_cell(cell.text, names)
        if printed.strip():
            parts.append(f"```text\n{printed.rstrip()}\n```")
        html = getattr(value, "_repr_html_", None)
        if html is not None:
            parts.append(f'<div class="output">{html()}</div>')
        elif value is not None:
            parts.append(f"```text\n{value!r}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(page(Path(sys.argv[1]).read_text(encoding="utf-8")))
