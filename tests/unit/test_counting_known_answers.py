"""The paper's figures from the data that its authors published."""

from __future__ import annotations

import numpy as np
import pytest

from fheval.counting import Counts, Grid, read_pair
from published_data import published_file

POINTS = (25, 50, 100)

# Column "Ours". The printed figures carry the noise of CKKS: below 5e-6, but for the smallest data set.
PRINTED = [
    ("_100", (0.893400, 0.888800, 0.892600), 5e-6),
    ("_1000", (0.937070, 0.938250, 0.938700), 5e-6),
    ("_10000", (0.909860, 0.910900, 0.911290), 5e-6),
    ("", (0.950080, 0.952370, 0.953422), 5e-6),
    ("_criteo_100", (0.764580, 0.761465, 0.764411), 4e-5),
    ("_criteo_1000", (0.752502, 0.752444, 0.752375), 5e-6),
    ("_criteo_10000", (0.745805, 0.746052, 0.746266), 5e-6),
    ("_criteo", (0.744820, 0.745283, 0.745380), 5e-6),
]

# Column "TensorFlow": 1,000 points, no encryption.
PRINTED_IN_CLEAR = [
    ("_100", 0.891400),
    ("_1000", 0.938614),
    ("_10000", 0.911410),
    ("", 0.954020),
    ("_criteo_100", 0.764792),
    ("_criteo_1000", 0.752482),
    ("_criteo_10000", 0.746190),
    ("_criteo", 0.745416),
]


@pytest.mark.parametrize(("suffix", "figures", "noise"), PRINTED)
def test_column_ours(suffix: str, figures: tuple[float, ...], noise: float) -> None:
    labels, scores = read_pair(published_file(f"labels{suffix}.txt"), published_file(f"pred_cons{suffix}.txt"))
    for points, figure in zip(POINTS, figures, strict=True):
        assert Counts.from_scores(labels, scores, Grid.even(points)).auc() == pytest.approx(figure, abs=noise)


@pytest.mark.parametrize(("suffix", "figure"), PRINTED_IN_CLEAR)
def test_column_tensorflow(suffix: str, figure: float) -> None:
    labels, scores = read_pair(published_file(f"labels{suffix}.txt"), published_file(f"pred_cons{suffix}.txt"))
    assert Counts.from_scores(labels, scores, Grid.even(1000)).auc() == pytest.approx(figure, abs=6e-7)


def test_the_split_among_parties_changes_nothing() -> None:
    labels, scores = read_pair(published_file("labels.txt"), published_file("pred_cons.txt"), 100)
    party = np.random.default_rng(0).integers(0, 15, size=len(labels))
    merged = Counts.zero(100)
    for m in range(15):
        merged += Counts.from_scores(labels[party == m], scores[party == m], 100)
    assert merged == Counts.from_scores(labels, scores, 100)
