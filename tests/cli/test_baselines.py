"""`fheval baseline`: the output of `fheval simulate`, with null where a field does not apply."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cli.session import Session

FIELDS = {
    "protocol",
    "engine",
    "parties",
    "decision_points",
    "auc",
    "precision",
    "verified",
    "soundness_bits",
    "seconds",
    "bytes",
    "fheval",
}

needs_opendp = pytest.mark.skipif(find_spec("opendp") is None, reason="opendp is not installed: fheval-lab[baselines]")
needs_mpyc = pytest.mark.skipif(find_spec("mpyc") is None, reason="mpyc is not installed: fheval-lab[baselines]")


@pytest.fixture(scope="module")
def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 60)
    return labels, np.round(np.clip(0.3 * labels + 0.7 * rng.random(60), 0, 1), 2)


@pytest.fixture
def pair(tmp_path: Path, arrays: tuple[np.ndarray, np.ndarray]) -> list[str]:
    labels, scores = arrays
    np.savetxt(tmp_path / "labels.txt", labels, fmt="%d")
    np.savetxt(tmp_path / "scores.txt", scores, fmt="%.2f")
    words = ["--labels", str(tmp_path / "labels.txt"), "--scores", str(tmp_path / "scores.txt")]
    return [*words, "--parties", "4"]


@needs_opendp
def test_dpauc_has_the_fields_of_the_contract_and_its_budget(fheval: Session, pair: list[str]) -> None:
    done = fheval("baseline", "dpauc", *pair, "--epsilon", "1", "--decision-points", "25", "--json", "-")
    assert done.status == 0, done.err
    content = done.json()
    assert content.keys() == FIELDS | {"epsilon", "noise_scale"}
    assert (content["protocol"], content["parties"], content["decision_points"]) == ("dpauc", 4, 25)
    assert (content["engine"], content["verified"], content["soundness_bits"]) == (None, None, None)
    assert (content["epsilon"], content["noise_scale"]) == (1.0, 100.0)
    assert content["bytes"] == {"party_upload": 800, "leader_upload": None, "result": None}
    assert content["seconds"].keys() == {"party", "leader", "aggregator", "decrypt"}


@needs_opendp
def test_dpauc_with_a_huge_budget_is_the_auc(fheval: Session, pair: list[str], arrays: tuple[np.ndarray, ...]) -> None:
    done = fheval("baseline", "dpauc", *pair, "--epsilon", "1e7", "--decision-points", "101", "--quiet")
    assert (done.status, done.err) == (0, "")
    assert float(done.out) == pytest.approx(roc_auc_score(*arrays), abs=1e-3)


@needs_opendp
def test_people_see_what_dpauc_gives_away(fheval: Session, pair: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = fheval("baseline", "dpauc", *pair, "--report", page)
    assert done.status == 0
    told = "noisy counts from every party"
    assert told in " ".join(done.out.replace("│", " ").split())
    assert told in page.read_text(encoding="utf-8")
    assert "labels.txt" in page.read_text(encoding="utf-8")


@needs_mpyc
def test_mpc_is_exact_and_says_what_it_cost(
    fheval: Session, pair: list[str], arrays: tuple[np.ndarray, ...], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    done = fheval("baseline", "mpc", *pair, "--json", "-", "--report", page)
    assert done.status == 0, done.err
    content = done.json()
    assert content.keys() == FIELDS | {"traffic", "comparisons"}
    assert content["auc"] == pytest.approx(roc_auc_score(*arrays), abs=1e-12)
    assert (content["precision"], content["verified"], content["decision_points"]) == ("exact", None, None)
    assert content["seconds"]["aggregator"] > 0
    assert content["traffic"] > 0
    assert "computing process" in page.read_text(encoding="utf-8")


@needs_opendp
def test_a_seed_repeats_the_split_and_a_grid_may_be_listed(fheval: Session, pair: list[str], tmp_path: Path) -> None:
    points = tmp_path / "points.txt"
    points.write_text("\n".join(str(1 - n / 10) for n in range(11)) + "\n")
    words = ["--seed", "4", "--grid", str(points), "--json", "-"]
    assert fheval("baseline", "dpauc", *pair, *words).json()["decision_points"] == 11


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["mpc", "--epsilon", "1"], r"No such option\W+--epsilon"),
        (["mpc", "--decision-points", "10"], r"No such option\W+--decision-points"),
        (["dpauc", "--precision", "1e-4"], r"No such option\W+--precision"),
        (["mpc", "--engine", "seal"], r"No such option\W+--engine"),
        (["dpauc", "--metric", "f1"], r"No such option\W+--metric"),
        (["dpauc", "--epsilon", "0"], "The privacy budget must be a positive number"),
        (["dpau"], "No such command 'dpau'"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    fheval: Session, pair: list[str], words: list[str], complaint: str
) -> None:
    done = fheval("baseline", *words, *pair)
    assert (done.status, done.out) == (2, "")
    assert re.match(complaint, done.err)


@pytest.mark.parametrize("name", ["dpauc", "mpc"])
def test_a_baseline_is_no_protocol(fheval: Session, parties: list[str], pair: list[str], name: str) -> None:
    for words in (["evaluate", *parties], ["simulate", *pair]):
        done = fheval(*words, "--protocol", name)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"There is no protocol '{name}'")
