"""The README as a package index shows it: links to files of the repository, which an index lacks, become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", flags=re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)")


class ReadmeHook(MetadataHookInterface):
    """Gives both distributions their description."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md beside the project file."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}


def for_an_index(text: str) -> str:
    """The text without pictures and links that lead into the repository.

    >>> for_an_index("![A page](docs/a.png)\\n\\nSee [the model](docs/model.md) and [this](https://example.org).")
    'See the model and [this](https://example.org).'
    """
    return _LINK.sub(r"\1", _PICTURE.sub("", text))
