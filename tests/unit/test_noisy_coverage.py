"""How often the 95 % interval of a noisy AUC holds the AUC of the population, over 1,000 studies at each size."""

from __future__ import annotations

from math import erfc

import numpy as np
import pytest

from fheval import Study
from fheval.counting import bin_numbers
from fheval.evaluation.noisy_curves import estimated, noisy_curve
from fheval.secrets import Secret, derive
from fheval.study import Slice

PARTIES = 15
STUDIES = 1000


def covered(study: Study, rows: int, *, share: float, mean: float, deviation: float) -> float:
    """In which share of studies the interval holds the truth: data are drawn anew each time, and so is the noise."""
    truth = erfc(-mean / deviation) / 2
    draw, noise = np.random.default_rng(rows), study.noise
    assert noise is not None
    width = study.histogram.width
    hits = 0
    for number in range(STUDIES):
        labels = draw.random(rows) < share
        scores = 1 / (1 + np.exp(-draw.normal(mean * (2.0 * labels - 1), deviation)))
        counts = np.bincount(bin_numbers(study.grid, scores) + (width // 2) * ~labels, minlength=width)
        for party in range(PARTIES):
            counts = counts + noise.share(derive(Secret(bytes(32)), "coverage", rows, number, party), width)
        curve = noisy_curve(study, Slice("", None, None), counts, noise, PARTIES)
        found = estimated(study, curve, "auc")
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high
    return hits / STUDIES


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1_000, 10_000])
@pytest.mark.parametrize(("share", "mean", "deviation"), [(0.5, 1.0, 1.5), (0.2, 1.0, 1.5), (0.5, 3.0, 3.0)])
def test_the_interval_holds_the_truth_in_93_to_97_of_100_studies(
    rows: int, share: float, mean: float, deviation: float
) -> None:
    study = Study.of(release="noisy-curve", epsilon=1.0, minimum_cohort=12, least_rows=rows)
    assert 0.93 <= covered(study, rows, share=share, mean=mean, deviation=deviation) <= 0.97
