"""Every example of `evaluate` and `simulate`, in the README, docs/metrics.md and `--help`, runs as it is written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli.session import Session
from fheval.cli import evaluate, simulate

ROOT = Path(__file__).resolve().parents[2]
ROWS = 90


def blocks(page: str, language: str) -> Iterator[str]:
    """The fenced blocks of a page, lines that are continued put together."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL):
        yield block.replace("\\\n", " ")


def examples() -> Iterator[tuple[str, str]]:
    for page in ("README.md", "docs/metrics.md"):
        for block in blocks(page, "sh"):
            for line in block.splitlines():
                if re.match(r"fheval (evaluate|simulate) ", line):
                    yield page, line.partition("#")[0]
    for command in (*evaluate.app.registered_commands, *simulate.app.registered_commands):
        for line in (command.epilog or "").splitlines():
            if re.match(r"fheval (evaluate|simulate) ", line):
                yield "--help", line


EXAMPLES = list(examples())


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
    for name in said(words, "--study"):
        Path(name).write_text(next(blocks("README.md", "toml")))


def test_there_are_examples_in_each_place() -> None:
    assert {place for place, _ in EXAMPLES} == {"README.md", "docs/metrics.md", "--help"}
    assert len(EXAMPLES) >= 8


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
