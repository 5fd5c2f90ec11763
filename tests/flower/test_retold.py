"""The member's operator reads our words; Flower's own are in a file, without colours."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fheval.flower.retold import retelling, retold


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("INFO :      SuperNode ID: 17", "Connected to hub:9092."),
        ("ERROR :     The vault gave no answer: nobody listens", "The vault gave no answer: nobody listens"),
        ("WARNING :   something odd", "Flower says: something odd"),
        ("INFO :      Receiving: query message (ID: 3)", None),
        ("", None),
    ],
)
def test_lines_are_retold(line: str, words: str | None) -> None:
    assert retold(line, "hub:9092") == words


def test_what_is_printed_goes_to_the_file_without_colours(tmp_path: Path) -> None:
    said: list[str] = []
    with retelling(tmp_path / "log", "hub:9092", said.append) as target:
        os.write(target, b"\x1b[92mINFO \x1b[0m:      SuperNode ID: 17\n")
        deadline = time.monotonic() + 10
        while not said and time.monotonic() < deadline:
            time.sleep(0.02)
    assert said == ["Connected to hub:9092."]
    text = (tmp_path / "log").read_text()
    assert "\x1b" not in text
    assert "SuperNode ID: 17" in text
