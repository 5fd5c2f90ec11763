"""A protocol is one file: a twin of `padded` in a new module goes through everything, and nothing else knows a name.

The module is written to a folder of the test, loaded from there, and knows nothing but the package.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fheval
from fheval.aggregator.conductor import conduct, drive
from fheval.cli import main
from fheval.evaluation import Result
from fheval.party.accepted import Acceptance, AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.core import VaultCore
from fheval.party.ledger import Ledger
from fheval.party.prepare import accept_study
from fheval.protocols import PROTOCOLS
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval_lab.bench import suite as bench_suite
from fheval_lab.bench.aggregators import aggregator_work
from fheval_lab.bench.suite import run_bench
from fheval_lab.clear import ClearEngine
from in_process import in_process
from keys_consortium import NAMES, NOW, consortium

NAME = "twin"
SUMMARY = "as its twin, under another name"
SOURCE = f'''"""The one new file."""

from dataclasses import replace

from fheval.protocols import register
from fheval.protocols.padded import Padded


class Twin(Padded):
    """`padded`, once more."""

    name = "{NAME}"
    words = replace(Padded.words, summary="{SUMMARY}", aggregator="is a twin")


register(Twin())
'''


@pytest.fixture(scope="module", autouse=True)
def _twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    path = tmp_path_factory.mktemp("twin") / "twin.py"
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("a_twin_of_padded", path)
    assert spec is not None
    assert spec.loader is not None
    before = dict(PROTOCOLS)
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        assert [*PROTOCOLS] == [*before, NAME]
        yield
    finally:
        PROTOCOLS.pop(NAME, None)
        assert dict(PROTOCOLS) == before


def hospital(seed: int, rows: int = 60) -> tuple[list[int], list[float]]:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, rows)
    scores = np.clip(draw.normal(0.35 + 0.3 * labels, 0.2), 0, 1).round(3)
    return labels.tolist(), scores.tolist()


HOSPITALS = [hospital(seed) for seed in range(3)]
LABELS, SCORES = ([value for each in HOSPITALS for value in each[side]] for side in (0, 1))


def pooled(points: int) -> float:
    return fheval.Counts.from_scores(LABELS, SCORES, points).auc()


def evaluated(**options: object) -> Result:
    return fheval.evaluate(HOSPITALS, protocol=NAME, engine=ClearEngine(), **options)  # type: ignore[arg-type]


def test_evaluate() -> None:
    result = evaluated(decision_points=50)
    assert (result.protocol, result.precision, result.hiding_bits) == (NAME, 1e-4, 21)
    assert result.auc == pytest.approx(pooled(50), abs=1e-4)
    several = evaluated(metrics=["auc", "f1@0.4"], ci=0.9, replicates=30, decision_points=20, precision="exact")
    assert len(several.results) == 2
    assert all(row.low is not None for row in several.results)


def test_evaluate_a_curve() -> None:
    result = evaluated(decision_points=50, release="curve", allow_curves=True)
    assert result.auc == pooled(50)
    assert len(result.curves) == 1


def test_a_study_in_toml() -> None:
    study = Study.from_toml(f'protocol = "{NAME}"\ndecision_points = 50\nprecision = "exact"')
    assert fheval.evaluate(HOSPITALS, study=study, engine=ClearEngine()).auc == pooled(50)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    labels, scores = tmp_path / "labels.txt", tmp_path / "scores.txt"
    labels.write_text("".join(f"{label}\n" for label in LABELS), encoding="utf-8")
    scores.write_text("".join(f"{score}\n" for score in SCORES), encoding="utf-8")
    return ["--labels", str(labels), "--scores", str(scores), "--parties", "3", "--decision-points", "50"]


def test_simulate_as_json(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *files, "--protocol", NAME, "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["protocol"], content["parties"], content["precision"]) == (NAME, 3, 1e-4)
    assert content["auc"] == pytest.approx(pooled(50), abs=1e-4)
    assert set(content["seconds"]) == {"party", "leader", "aggregator", "online", "decrypt"}
    assert all(content["bytes"].values())


def test_the_terminal_and_the_report(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["simulate", *files, "--protocol", NAME, "--precision", "exact", "--report", str(page)]) == 0
    out = capsys.readouterr().out
    assert NAME in out
    assert f"{pooled(50):.6f}" in out
    written = page.read_text(encoding="utf-8")
    assert NAME in written
    assert "is a twin" in written
    assert f"{pooled(50):.6f}" in written


def test_a_round_among_vaults(tmp_path: Path) -> None:
    made = consortium(tmp_path / "authority")
    policy = made.authority.policy()
    assert policy is not None
    engine, vaults, ledgers = ClearEngine(), {}, {}
    asked = Study.of(name="twins", protocol=NAME, decision_points=50, max_samples=1 << 16)
    study, signed = made.authority.sign_study(asked)
    for name, (labels, scores) in zip(NAMES, HOSPITALS, strict=True):
        data, state = tmp_path / f"{name}.csv", tmp_path / f"state-{name}"
        state.mkdir(mode=0o700)
        rows = (f"{label},{score}\n" for label, score in zip(labels, scores, strict=True))
        data.write_text("label,score\n" + "".join(rows), encoding="utf-8")
        ledgers[name] = Ledger.open(state / "ledger.sqlite")
        studies = AcceptedStudies.open(state / "studies.sqlite")
        acceptance = Acceptance(signed=signed, data=str(data), columns=StudyColumns(), lineage="trial")
        accept_study(studies, acceptance, SystemRandomness(), now=NOW)
        vaults[name] = VaultCore(made.kit(name), ledgers[name], studies, {engine.name: engine}, clock=lambda: NOW)
    conducting = conduct(study, NAMES, policy, engine, SystemRandomness())
    report = drive(conducting, in_process({name: vault.handle for name, vault in vaults.items()}))
    assert (report.round.protocol, report.roster, report.confirmed) == (NAME, NAMES, NAMES)
    for ledger in ledgers.values():
        verdict = ledger.history()[-1].verdict
        assert verdict is not None
        assert float(verdict.ratio()) == pytest.approx(pooled(50), abs=1e-4)
        ledger.close()


def test_attack(capsys: pytest.CaptureFixture[str]) -> None:
    """It claims no resistance and has none; what its twin hides, it hides."""
    few = ("--tries", "1", "--parties", "3", "--decision-points", "5")
    assert main(["attack", "--protocol", NAME, *few, "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["protocol"], content["claims_to_resist"], content["held"]) == (NAME, False, True)
    worst = {each["name"]: each["worst_shift"] for each in content["attacks"]}
    assert worst["scale-all"] > 0.01
    assert "deny-dropout" in worst
    assert {"by-divisibility", "compare-uploads"} <= {line["name"] for line in content["privacy"]}
    assert main(["attack", "--protocol", NAME, "--strategy", "constants", *few]) == 0
    assert NAME in capsys.readouterr().out


def test_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    assert aggregator_work(ClearEngine(), NAME, 4, 5)().seconds > 0
    monkeypatch.setattr(bench_suite, "PARTIES", 4)
    monkeypatch.setattr(bench_suite, "MANY_PARTIES", 6)
    monkeypatch.setattr(bench_suite, "DECISION_POINTS", 5)
    monkeypatch.setattr(bench_suite, "LEAST_SECONDS", 0.001)
    found = run_bench([ClearEngine()], repeats=1, samples=1000)
    measured = {(each.name, each.parties): each.seconds for each in found.measurements}
    assert measured[NAME, 4] > 0
    assert measured[NAME, 6] > 0
    names = [ratio.name for ratio in found.ratios]
    assert f"{NAME} / paper-semi-honest" in names
    assert f"{NAME}: 6 parties / 4" in names


# No name of a protocol outside its own file

ROOT = Path(fheval.__file__).parents[2]
OWN = {
    name: f"{name.replace('-', '_')}.py"
    for name in ("padded", "padded-verified", "committee", "paper-semi-honest", "paper-malicious")
}


def names_in(text: str) -> set[str]:
    """The protocols that a text names: by being the name, or in a sentence, where "padded" is just a word."""
    if text in OWN:
        return {text}
    # Commands in examples are documentation.
    said = re.sub(r"\bfheval [^\n]*", "", text)
    return {name for name in OWN if "-" in name and re.search(rf"(?<![\w-]){name}(?![\w-])", said)}


def named_in(source: str) -> dict[int, set[str]]:
    """Line by line, the protocols that string constants other than docstrings name."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return {
        node.lineno: found
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        if (found := names_in(node.value))
    }


@pytest.mark.parametrize("package", ["src/fheval", "lab/src/fheval_lab"])
def test_no_protocol_is_named_outside_its_own_file(package: str) -> None:
    paths = sorted((ROOT / package).rglob("*.py"))
    assert len(paths) > 30
    strangers = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        for line, names in named_in(path.read_text(encoding="utf-8")).items()
        for name in names
        if path.parts[-3:] != ("fheval", "protocols", OWN[name])
    ]
    assert strangers == []


def test_the_scan_finds_a_name() -> None:
    found = named_in(
        '"""padded-verified here."""\nx = "padded"\ny = f"use {x} or paper-malicious."\nz = "padded counts"\n'
    )
    assert found == {2: {"padded"}, 3: {"paper-malicious"}}
    assert named_in('e = "fheval attack --protocol padded-verified"\n') == {}
    assert named_in('e = "fheval attack --protocol padded-verified\\n\\nor padded-verified."\n') == {
        1: {"padded-verified"}
    }
    for name, own in OWN.items():
        assert name in set().union(
            *named_in((ROOT / "src/fheval/protocols" / own).read_text(encoding="utf-8")).values()
        )
