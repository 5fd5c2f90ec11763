"""The steps of docs/deploy.md, as the page itself says them.

A comment before a block says where it is for, and what its operator types. The words of the block are run as they
stand; where a block is for several hosts it is written for the first, and each puts its own name in its place.

    <!-- at: hub; types: fingerprint of authority -->
    <!-- at: hospital-a hospital-b; starts: Connected to -->
    <!-- file: member.toml; at: hospital-a -->
    <!-- send: hub.fhev; from: hub; to: authority -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"

_MARK = re.compile(r"<!--\s*(?P<mark>[a-z]+: .*?)\s*-->\n(?:\n?```[a-z]*\n(?P<block>.*?)```)?", re.DOTALL)
_COMMENT = re.compile(r"\s{2,}#.*$")


@dataclass(frozen=True)
class Step:
    """One mark of the page with the block behind it, if there is one."""

    mark: dict[str, str]
    block: str
    line: int

    @property
    def hosts(self) -> list[str]:
        return self.mark.get("at", "").split()

    def text_for(self, host: str) -> str:
        return self.block.replace(self.hosts[0], host)

    def commands(self, host: str) -> list[str]:
        """The commands, each on one line, without the remarks behind them."""
        joined = self.text_for(host).replace("\\\n", " ")
        return [_COMMENT.sub("", line).strip() for line in joined.splitlines() if line.strip()]


def steps(text: str) -> Iterator[Step]:
    for found in _MARK.finditer(text):
        parts = (part.partition(":") for part in found["mark"].split(";"))
        mark = {key.strip(): value.strip() for key, _, value in parts}
        yield Step(mark, found["block"] or "", text[: found.start()].count("\n") + 1)


def unmarked(text: str) -> list[str]:
    """Blocks of commands that no mark stands before."""
    marked = {each.block for each in steps(text)}
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [block for block in blocks if block not in marked]
