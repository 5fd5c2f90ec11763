"""docs/deploy.md, run literally: every block of commands, at the hosts that it is for, from empty folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts.follow import FIRST_ROUND, MEMBERS, empty_site, followed
from hosts.page import PAGE, steps, unmarked

# What the issue of an operator's time was about: as an operator counts, up to the first look at a result.
MOST_COMMANDS = 12
MOST_FILES = 5


def test_every_block_of_commands_says_where_it_runs_or_why_not() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert unmarked(text) == []
    for step in steps(text):
        assert {"at", "send", "skipped"} & step.mark.keys(), f"line {step.line}"


def test_commands_and_files_until_the_first_number() -> None:
    commands, files = 0, set()
    for step in steps(PAGE.read_text(encoding="utf-8")):
        if "at" in step.mark and "file" not in step.mark:
            commands += sum(len(step.commands(host)) for host in step.hosts)
        if "send" in step.mark:
            files.add(step.mark["send"])
        if step.block.startswith("fheval vault rounds"):
            break
    assert commands <= MOST_COMMANDS
    assert len(files) <= MOST_FILES


@pytest.mark.slow
def test_the_whole_page_as_it_stands(tmp_path: Path) -> None:
    with empty_site(tmp_path) as site:
        follower = followed(site, whole=True)
        rounds = [site[name].run(f"fheval vault rounds --kit {kit} --json - | tr -d ' '") for name, kit in KITS.items()]
        assert all(text.count('"state":"released"') == 2 for text in rounds), rounds
        assert sum(command.startswith(FIRST_ROUND) for command in follower.commands) == 2
        assert "<h1>" in (site["hospital-a"].folder / "page.html").read_text()
        for name in MEMBERS:
            # Logs have times and no colours.
            assert "\x1b" not in site[name].running[-1].text()


KITS = {"hospital-a": "kit", "hospital-b": "kit-2 --state kit/vault", "hospital-c": "kit"}
