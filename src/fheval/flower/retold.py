"""What a SuperNode prints, retold to the member's operator: whether it is connected, and whether the vault answers.

Flower's own lines go to a file, with the time and without colours.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COMPLAINT = re.compile(r"\s*(WARNING|ERROR)\s*:\s*(?P<words>.+)")

# Printed by Flower when SuperLink has let the SuperNode in, and by our own app when there was no vault to ask.
_CONNECTED = "SuperNode ID:"
_NO_ANSWER = "The vault gave no answer"


def retold(line: str, superlink: str) -> str | None:
    """A line of Flower's in our words; None for one that tells an operator nothing."""
    if _CONNECTED in line:
        return f"Connected to {superlink}."
    if _NO_ANSWER in line:
        return line[line.index(_NO_ANSWER) :].strip()
    found = _COMPLAINT.fullmatch(line)
    return None if found is None else f"Flower says: {found['words'].strip()}"


@contextmanager
def retelling(log: Path, superlink: str, say: Callable[[str], None]) -> Iterator[int]:
    """Gives the end of a pipe for a program to print to; what comes out of it is retold, and kept in a file."""
    source, target = os.pipe()

    def retell() -> None:
        with (
            open(source, encoding="utf-8", errors="replace") as lines,
            log.open("a", encoding="utf-8") as file,
        ):
            for line in lines:
                plain = _COLOUR.sub("", line).rstrip()
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {plain}\n")
                file.flush()
                words = retold(plain, superlink)
                if words is not None:
                    say(words)

    # Whatever the program has started may hold the pipe open for longer than we are interested.
    threading.Thread(target=retell, daemon=True, name="retelling").start()
    try:
        yield target
    finally:
        os.close(target)
