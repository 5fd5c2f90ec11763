"""The paper's data on real engines: a committee of any size gives what `padded` gives. `make slow`."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import fheval
from fheval.engines import Engine, load_engine
from fheval.errors import ConfigError, EngineError
from fheval.evaluation.run import count_share
from fheval.protocols import PROTOCOLS
from fheval.protocols.play import play
from fheval.protocols.round import Contribution, Round
from fheval.secrets import SystemRandomness
from fheval.study import Study
from published_data import published_file

pytestmark = pytest.mark.slow

RNG = SystemRandomness()
PRECISION = Fraction(1, 10**4)
SETS = {"phishing": "", "criteo": "criteo_"}
# Committees of 2, 3, 5 and 7 wherever there are as many parties.
CELLS = [(parties, size) for parties in (3, 5, 7, 15, 40, 100) for size in (2, 3, 5, 7) if size <= parties]


@pytest.fixture(params=["seal", "openfhe"])
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        return load_engine(request.param)
    except (ConfigError, EngineError):
        pytest.skip(f"{request.param} is not installed here")


def study_of(protocol: str, precision: Any, **options: Any) -> Study:
    return Study.of(protocol=protocol, decision_points=100, precision=precision, **options)


@lru_cache(maxsize=4)
def counted(name: str, parties: int) -> dict[str, Contribution]:
    """A thousand rows of the paper's data, dealt out to so many parties and counted."""
    labels, scores = (np.loadtxt(published_file(f"{kind}_{SETS[name]}1000.txt")) for kind in ("labels", "pred_cons"))
    rows = zip(np.array_split(labels, parties), np.array_split(scores, parties), strict=True)
    named = ((f"party-{number}", each) for number, each in enumerate(rows, start=1))
    study = study_of("padded", "exact")
    return {party: count_share(study, data, party, RNG).contribution for party, data in named}


def released(engine: Engine, study: Study, own: dict[str, Contribution]) -> list[Fraction]:
    """The AUC of one round, and its binning error."""
    names = tuple(own)
    round_: Round = study.round(study.call(RNG, engine=engine.name, parties=names, leader=names[-1]))
    verdict = play(PROTOCOLS[study.protocol], engine, round_, own, RNG)
    assert len(verdict.ratios) == 2
    return [Fraction(ratio) for ratio in verdict.ratios if ratio is not None]


@pytest.mark.parametrize(("parties", "size"), CELLS)
def test_exact_and_rounded_results_are_those_of_padded(engine: Engine, parties: int, size: int) -> None:
    own = counted("phishing" if size % 3 else "criteo", parties)
    truth = released(engine, study_of("padded", "exact"), own)
    assert released(engine, study_of("committee", "exact", committee=size), own) == truth
    rounded = released(engine, study_of("committee", float(PRECISION), committee=size), own)
    assert all(abs(found - right) <= PRECISION / 2 for found, right in zip(rounded, truth, strict=True))


def test_groups_are_those_of_padded(engine: Engine) -> None:
    """Of everyone, a large group, and a small one, which is left out and another one with it."""
    rng = np.random.default_rng(14)
    labels, scores = (np.loadtxt(published_file(f"{name}_1000.txt")) for name in ("labels", "pred_cons"))
    rows = zip(*(np.array_split(each, 5) for each in (labels, scores)), strict=True)
    tables = [{"y": y, "s": s, "site": rng.choice(["A", "B", "C"], len(y), p=[0.5, 0.48, 0.02])} for y, s in rows]
    asked: dict[str, Any] = {"label": "y", "score": "s", "group_column": "site", "metrics": ["auc", "recall@0.5"]}
    asked |= {"engine": engine, "decision_points": 50, "precision": "exact"}
    truth = fheval.evaluate(tables, protocol="padded", **asked).results
    assert {row.group for row in truth if row.value is not None} == {None, "site=B"}
    for size in (2, 3, 5):
        assert fheval.evaluate(tables, protocol="committee", committee=size, **asked).results == truth


def test_three_hundred_rounded_results_are_within_half_the_precision(engine: Engine) -> None:
    """Committees of 2, 3 and 5 in turn. A uniform error comes within a tenth of its bounds in 300 rounds."""
    own = counted("phishing", 5)
    truth = released(engine, study_of("padded", "exact"), own)
    errors = [
        found - right
        for _ in range(100)
        for size in (2, 3, 5)
        for found, right in zip(
            released(engine, study_of("committee", float(PRECISION), committee=size), own), truth, strict=True
        )
    ]
    assert max(map(abs, errors)) <= PRECISION / 2
    assert min(errors) < 0 < max(errors)
    print(f"{engine.name}: errors from {float(min(errors)):.2e} to {float(max(errors)):.2e}")
