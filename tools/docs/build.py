"""Build the documentation site: `make docs`.

Pages are gathered in build/docs: those of docs/, the root's, and what is made here. Links between them are put right;
links to files that are not on the site become plain text. mkdocs then turns them into build/site, and a link that leads
nowhere stops it. Nothing is fetched from anywhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from tools.docs import commands, notebooks, numbers, pictures, rounds

ROOT = Path(__file__).resolve().parents[2]
STAGE, SITE = ROOT / "build" / "docs", ROOT / "build" / "site"
CONFIG = ROOT / "build" / "mkdocs.yml"
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"

# Pages of the root, by their place on the site.
FROM_ROOT = {
    "README.md": "index.md",
    "SECURITY.md": "promises.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "lab/README.md": "laboratory.md",
}
# The parts of the site in their order; what ends in a stroke is a folder, all of it.
CONTENTS = {
    "Start here": ["index.md"],
    "For you": [
        "data-scientists.md",
        "statisticians.md",
        "operators.md",
        "security-officers.md",
        "contributors.md",
    ],
    "Guides": [
        "metrics.md",
        "grids.md",
        "mean-of-aucs.md",
        "databases.md",
        "flower.md",
        "deploy.md",
        "receipts.md",
        "reliability.md",
    ],
    "Notebooks": ["notebooks/"],
    "Protocols": ["rounds.md", "protocols.md", "model.md", "promises.md"],
    "Reference": ["reference/api.md", "reference/commands.md", "releases.md", "changes.md"],
    "Figures": ["numbers/"],
    "Inside": ["architecture.md", "decisions/", "dependencies.md", "laboratory.md", "contributing.md"],
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def main() -> int:
    """Gather, make, build."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    for path, text in made_pages():
        _write(path, text)
    for source, path in places().items():
        _write(path, with_links_for(source, (ROOT / source).read_text(encoding="utf-8")))
    shutil.copytree(ROOT / "docs" / "site", STAGE / "site")
    shutil.copytree(ROOT / "docs" / "pictures", STAGE / "pictures", dirs_exist_ok=True)
    _photographs()
    CONFIG.write_text(
        json.dumps({"INHERIT": "../mkdocs.yml", "docs_dir": "docs", "site_dir": "site", "nav": navigation()})
    )
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command: list[str | Path] = [MKDOCS, "build", "--quiet", "--strict", "--config-file", CONFIG]
    return subprocess.run(command, env=quiet, check=False).returncode


def navigation() -> list[Any]:
    """The contents of the site; a page that nobody has put into a part stands under "More"."""
    contents: list[Any] = []
    left = {path.relative_to(STAGE).as_posix() for path in STAGE.rglob("*.md")}
    for title, pages in CONTENTS.items():
        listed = [page for one in pages for page in (_all_of(one) if one.endswith("/") else [one])]
        left -= set(listed)
        contents.append({title: listed if len(listed) > 1 else listed[0]})
    return [*contents, {"More": sorted(left)}] if left else contents


def _all_of(folder: str) -> list[str]:
    found = sorted(path.relative_to(STAGE).as_posix() for path in (STAGE / folder).glob("*.md"))
    return sorted(found, key=lambda page: not page.endswith("/index.md"))


def places() -> dict[str, str]:
    """Where each page of the repository lies on the site."""
    found = dict(FROM_ROOT)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        place = path.relative_to(ROOT / "docs")
        found[f"docs/{place.as_posix()}"] = (
            place.with_name("index.md") if place.name == "README.md" else place
        ).as_posix()
    # The front page is one of its own; who links to the README means it.
    found.pop("README.md")
    return found


def made_pages() -> Iterator[tuple[str, str]]:
    """What is written here: notebooks as they ran, rounds in pictures, every command's help, figures of last runs."""
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.py")):
        print(f"running {path.name}", flush=True)
        command: list[str | Path] = [sys.executable, "-m", notebooks.__name__, path]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        yield f"notebooks/{path.stem}.md", done.stdout
    yield "rounds.md", rounds.pictures()
    yield "reference/commands.md", commands.page()
    for name, text in numbers.pages(ROOT / "docs" / "numbers").items():
        yield f"numbers/{name}.md", text


def with_links_for(source: str, text: str) -> str:
    """The text of a page with its links as they are on the site.

    >>> with_links_for("docs/model.md", "[a](../SECURITY.md#not-protected), [b](../src/fheval/wire.py), [c](#here)")
    '[a](promises.md#not-protected), b, [c](#here)'
    """
    table = places() | {"README.md": "index.md"}
    table |= {
        f"docs/notebooks/{path.name}": f"notebooks/{path.stem}.md" for path in (ROOT / "docs/notebooks").glob("*.py")
    }
    here = PurePosixPath(table[source]).parent.as_posix()

    def right(link: re.Match[str]) -> str:
        picture, label, target, anchor = link[1], link[2], link[3], link[4] or ""
        if "://" in target or not target:
            return link[0]
        path = normpath((PurePosixPath(source).parent / target).as_posix())
        if path.startswith("docs/pictures/"):
            return f"{picture}[{label}]({relpath(path.removeprefix('docs/'), here)})"
        page = (
            table.get(path) or table.get(f"{path}/README.md") or (path.removeprefix("docs/") if _made(path) else None)
        )
        return f"[{label}]({relpath(page, here)}{anchor})" if page else label

    return _LINK.sub(right, text)


def _made(path: str) -> bool:
    return path in ("docs/rounds.md", "docs/reference/commands.md") or path.startswith(
        ("docs/numbers/", "docs/notebooks/")
    )


def _photographs() -> None:
    """The pages of an example round, and pictures of them in place of those that the repository has."""
    folder = STAGE / "pictures"
    for name, text in pictures.pages().items():
        page = folder / f"{name}.html"
        page.write_text(text, encoding="utf-8")
        if not pictures.photograph(page, folder / f"{name}.png", 1100, 900):
            print(f"no browser: the picture of {name} is the one in docs/pictures", flush=True)


def _write(path: str, text: str) -> None:
    place = STAGE / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
