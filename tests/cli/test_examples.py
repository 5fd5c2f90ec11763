"""Every command in the README, the docs and `--help` runs as it is written.

What needs a consortium is run by the test of docs/deploy.md, what measures for minutes by its own tests; here the
command line must at least take every word of them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from textwrap import dedent
from typing import Any

import numpy as np
import polars as pl
import pytest

from cli.session import Session
from fheval.cli import Deferred, installed_commands

ROOT = Path(__file__).resolve().parents[2]
ROWS = 90


def blocks(page: str, language: str) -> Iterator[str]:
    """The fenced blocks of a page, lines that are continued put together."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL):
        yield block.replace("\\\n", " ")


PAGES = ("README.md", "lab/README.md", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")))
# These play a whole round in this process, or look at a study.
RUN = re.compile(r"fheval (evaluate|simulate|demo|study) ?")


def commands() -> Iterator[tuple[str, str]]:
    """Every line that calls fheval, and where it stands."""
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in map(str.strip, block.splitlines()):
                if line.startswith("fheval ") and "$" not in line:
                    yield page, re.sub(r"\s+# .*|\s+&$", "", line)
    for name, module, summary in installed_commands():
        command = Deferred(name, module, summary).load()
        for each in (command, *getattr(command, "commands", {}).values()):
            for line in (each.epilog or "").splitlines():
                if line.removeprefix("Example: ").startswith("fheval "):
                    yield "--help", line.removeprefix("Example: ").strip()


COMMANDS = list(dict.fromkeys(commands()))
EXAMPLES = [(place, line) for place, line in COMMANDS if RUN.match(line)]


def said(words: Sequence[str], option: str) -> list[str]:
    """What follows an option, each time that it is given."""
    return [value for name, value in pairwise(words) if name == option]


def write_party(path: Path, words: Sequence[str], seed: int) -> None:
    """A party's file, with the columns that the command names."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(ROWS) < 0.4).astype(np.int64)
    logits = rng.normal(size=ROWS) + labels
    scores = logits if said(words, "--score-kind") == ["logit"] else np.round(1 / (1 + np.exp(-logits)), 6)
    columns: dict[str, Sequence[object]] = {(said(words, "--label-column") or ["label"])[0]: labels.tolist()}
    columns |= {name: scores.tolist() for name in said(words, "--score-column") or ["score"]}
    columns |= {name: ["F", "M", "M"] * (ROWS // 3) for name in said(words, "--group-column")}
    columns |= {name: [f"p{number // 2}" for number in range(ROWS)] for name in said(words, "--cluster-column")}
    if path.suffix == ".npy":
        np.save(path, np.stack([labels, scores], axis=1))
    elif path.suffix == ".parquet":
        pl.DataFrame(columns).write_parquet(path)
    else:
        pl.DataFrame(columns).write_csv(path)


def write_data(words: Sequence[str]) -> None:
    """All files that a command reads, in the working directory."""
    for seed, party in enumerate(said(words, "--party")):
        write_party(Path(party), words, seed)
    rng = np.random.default_rng(7)
    for option, values in (("--labels", rng.integers(0, 2, 300)), ("--scores", rng.random(300))):
        for name in said(words, option):
            if name.endswith(".npy"):
                np.save(name, values)
            else:
                np.savetxt(name, values, fmt="%.6g")
    for name in (*said(words, "--study"), *(word for word in words[2:3] if words[0] == "study" and words[1] != "new")):
        Path(name).write_text(next(blocks("README.md", "toml")))


def test_there_are_examples_in_each_place() -> None:
    assert {place for place, _ in EXAMPLES} >= {"README.md", "docs/metrics.md", "docs/index.md", "--help"}
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize(("place", "line"), COMMANDS)
def test_the_command_line_takes_every_word_of_it(place: str, line: str) -> None:
    """Commands and options exist and their values are of the right kind; nothing is run."""
    _, *words = shlex.split(line.partition(" > ")[0].partition(" | ")[0])
    lines = {name: (module, summary) for name, module, summary in installed_commands()}
    command = Deferred(words[0], *lines[words[0]]).load()
    words = words[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, words)


@pytest.mark.parametrize(("place", "line"), EXAMPLES)
def test_it_runs_as_it_is_written(
    fheval: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(line)
    write_data(words)
    done = fheval(*words)
    assert (done.status, done.err) == (0, ""), (place, line, done.err)
    assert done.out


# docs/flower.md has lines of an app, which examples/flower-quickstart holds and runs.
PYTHON = [(page, dedent(block)) for page in PAGES if page != "docs/flower.md" for block in blocks(page, "python")]


@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[page for page, _ in PYTHON])
def test_python_runs_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str, block: str
) -> None:
    """With the arrays that a reader has of three parties, and the files of the page's command."""
    monkeypatch.chdir(tmp_path)
    for _, line in (each for each in EXAMPLES if each[0] == page):
        write_data(shlex.split(line)[1:])
    rng = np.random.default_rng(3)
    arrays: dict[str, Any] = {f"labels_{party}": rng.integers(0, 2, ROWS) for party in "abc"}
    arrays |= {f"scores_{party}": rng.random(ROWS) for party in "abc"}
    Path("example.py").write_text(block)
    run_path("example.py", arrays)
    assert "0." in capsys.readouterr().out


def test_pages_have_python() -> None:
    assert {page for page, _ in PYTHON} >= {"README.md", "docs/index.md", "docs/metrics.md"}
