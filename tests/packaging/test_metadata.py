"""What a package index gets to see: complete metadata, a description that renders there, nothing made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomllib

from fheval.version import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", [".", "lab"])
def test_the_metadata_are_complete(folder: str) -> None:
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(project["keywords"]) >= 5
    pythons = {each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)}
    assert pythons == {f"3.{minor}" for minor in range(10, 15)}
    assert project["requires-python"] == ">=3.10,<3.15"


@pytest.mark.parametrize("folder", [".", "lab"])
def test_the_description_has_no_link_that_an_index_lacks(folder: str) -> None:
    # What runs is the hook of that folder; both are the same.
    names: dict[str, object] = {"__name__": "hook"}
    exec((ROOT / folder / "hatch_build.py").read_text(encoding="utf-8"), names)  # noqa: S102
    text = names["for_an_index"]((ROOT / folder / "README.md").read_text(encoding="utf-8"))  # type: ignore[operator]
    assert not re.search(r"\]\((?!https?:|#)", text)
    assert len(text) > 400


def test_both_distributions_have_one_hook() -> None:
    assert (ROOT / "hatch_build.py").read_bytes() == (ROOT / "lab" / "hatch_build.py").read_bytes()


def test_the_citation_names_the_paper_and_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {__version__}" in text
    for name in ("Baykara", "Ünal", "Akgün", "Enabling Privacy-preserving Model Evaluation"):
        assert name in text


@pytest.mark.parametrize("workflow", ["ci", "publish"])
def test_workflows_call_what_runs_everywhere(workflow: str) -> None:
    text = (ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text(encoding="utf-8")
    assert "run: .ci/run" in text
    assert ("tags:" in text) == (workflow == "publish")


def test_contributors_are_told_of_every_target() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):.*## ", makefile, flags=re.MULTILINE)) - {"help", "clean", "demo"}
    assert len(targets) > 15
    assert {each for each in targets if f"`make {each}" not in text} == set()
    (row,) = re.findall(r"^\| `\.ci/run` \| (.*) \|$", text, flags=re.MULTILINE)
    runs = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"`make ([a-z]+)`", row) == re.findall(r"^make ([a-z]+)$", runs, flags=re.MULTILINE)
