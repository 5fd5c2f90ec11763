"""The paper's accuracy columns, from the published files to the decrypted AUC: 15 parties, on every engine."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from fheval import Counts, Grid, Result, evaluate
from fheval.counting import read_pair
from fheval.engines import Engine, available_engines, load_engine
from fheval_lab.clear import ClearEngine
from published_data import published_file

PARTIES = 15
POINTS = (25, 50, 100)

# Columns "Ours" of the paper's tables on Criteo and CelebA for N = 25, 50, 100, and how far they may lie from ours.
# CelebA, but for its last figure, is printed to five decimals. Criteo at 100 rows lies up to 3.6e-5 from the counts of
# the published files; the paper does not say why, and the bound is no more than that distance.
PRINTED = {
    "criteo_100": (0.764580, 0.761465, 0.764411, 4e-5),
    "criteo_1000": (0.752502, 0.752444, 0.752375, 2e-6),
    "criteo_10000": (0.745805, 0.746052, 0.746266, 2e-6),
    "criteo": (0.744820, 0.745283, 0.745380, 2e-6),
    "100": (0.893400, 0.888800, 0.892600, 5e-6),
    "1000": (0.937070, 0.938250, 0.938700, 5e-6),
    "10000": (0.909860, 0.910900, 0.911290, 5e-6),
    "": (0.950080, 0.952370, 0.953422, 5e-6),
}
CASES = [(name, n) for name in PRINTED for n in POINTS]
NAMED = [(name, n) for name, n in CASES if name in ("", "criteo_1000")]
# The smallest data, where noise would show first; the largest CelebA is among the named ones.
SMALLEST = [("100", 100), ("criteo_100", 100)]

# Noise of CKKS in our own results: measured at most 1e-11, three splits of each case under encryption, either engine.
OF_COUNTS = 1e-7
OF_SPLIT = 1e-7

Arrays = tuple[NDArray[np.uint8], NDArray[np.float64]]


@cache
def published(name: str) -> Arrays:
    suffix = f"_{name}.txt" if name else ".txt"
    return read_pair(published_file(f"labels{suffix}"), published_file(f"pred_cons{suffix}"))


def split(name: str, seed: int) -> list[Arrays]:
    """Each sample goes to one of the 15 parties, drawn uniformly, as in the paper."""
    labels, scores = published(name)
    party = np.random.default_rng(seed).integers(0, PARTIES, len(labels))
    return [(labels[party == number], scores[party == number]) for number in range(PARTIES)]


def private(name: str, n: int, engine: Engine, *, seed: int = 1) -> Result:
    return evaluate(
        split(name, seed),
        protocol="paper-semi-honest",
        decision_points=n,
        grid="even",
        precision="exact",
        engine=engine,
    )


def check(result: Result, name: str, n: int) -> None:
    assert (result.parties, result.decision_points, result.precision) == (PARTIES, n, "exact")
    assert result.auc == pytest.approx(Counts.from_scores(*published(name), Grid.even(n)).auc(), abs=OF_COUNTS)
    *figures, off = PRINTED[name]
    assert result.auc == pytest.approx(figures[POINTS.index(n)], abs=off)


@pytest.fixture(params=available_engines())
def engine(request: pytest.FixtureRequest) -> Engine:
    return load_engine(str(request.param))


@pytest.mark.parametrize(("name", "n"), CASES)
def test_every_figure_in_plaintext(name: str, n: int) -> None:
    check(private(name, n, ClearEngine()), name, n)


@pytest.mark.parametrize(("name", "n"), NAMED + SMALLEST)
def test_named_figures_under_encryption(engine: Engine, name: str, n: int) -> None:
    check(private(name, n, engine), name, n)


@pytest.mark.parametrize("name", ["", "criteo_1000"])
def test_the_split_among_parties_changes_nothing(engine: Engine, name: str) -> None:
    once, again = (private(name, 100, engine, seed=seed).auc for seed in (1, 2))
    assert once == pytest.approx(again, abs=OF_SPLIT)


@pytest.mark.skipif(len(available_engines()) < 2, reason="one engine loads here")
@pytest.mark.parametrize("name", ["", "criteo_100"])
def test_engines_agree(name: str) -> None:
    values = [private(name, 100, load_engine(engine)).auc for engine in available_engines()]
    assert values == pytest.approx([values[0]] * len(values), abs=OF_SPLIT)
