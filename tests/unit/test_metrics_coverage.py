"""Intervals cover the truth as often as they say, and are those of a bootstrap of the pooled data.

Six times 400 studies of ten parties with 200 rows each: scores of the classes are normal, d standard deviations apart,
and passed through a sigmoid, so that the AUC of the population is Φ(d/√2). Forty even decision points, 200 resamples,
an interval of 95 %. Everything comes from six seeds, so that the outcome does not change from run to run. Chance alone
moves the coverage in 400 studies by 1.1 percentage points, and in all 2,400 by 0.4.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from fheval import Table
from fheval.evaluation.result import Estimate, result_rows
from fheval.evaluation.tally import tally_party
from fheval.protocols import PROTOCOLS
from fheval.protocols.play import play
from fheval.protocols.round import Batch, Verdict
from fheval.secrets import Secret, Stream, derive
from fheval.study import Study
from fheval_lab.clear import ClearEngine

SEEDS = (20261115, 1, 2, 3, 4, 5)
STUDIES = 400
PARTIES = 10
ROWS = 200
REPLICATES = 200
LEVEL = 0.95
DISTANCE = 1.2
TRUTH = NormalDist().cdf(DISTANCE / 2**0.5)

STUDY = Study.of(decision_points=40, grid="even", replicates=REPLICATES, interval=LEVEL)

Rows = tuple[NDArray[np.int64], NDArray[np.float64]]


def sampled(rng: np.random.Generator) -> list[Rows]:
    parties = []
    for _ in range(PARTIES):
        labels = rng.integers(0, 2, ROWS)
        logits = rng.normal(size=ROWS) + DISTANCE * labels - DISTANCE / 2
        parties.append((labels, 1 / (1 + np.exp(-logits))))
    return parties


def weights(number: int, party: int) -> Stream:
    return derive(Secret(bytes(32)), "coverage", number, party)


def private(parties: list[Rows], number: int) -> Estimate:
    """The estimate that a round gives before anything is rounded."""
    shares = [
        tally_party(STUDY, [Table.of(*rows)], weights(number, index)).contribution()
        for index, rows in enumerate(parties)
    ]
    left, right = STUDY.batch().factors(np.sum([own.table for own in shares], axis=0))
    terms = STUDY.batch().readings[0].form.terms
    products = (left.astype(np.float64) * right)[: terms * (1 + STUDY.replicates)].reshape(-1, terms)
    values = products[:, :-1].sum(axis=1) / products[:, -1]
    return Estimate(float(values[0]), values[1:], 0.0)


def pooled_interval(parties: list[Rows], rng: np.random.Generator) -> tuple[float, float]:
    """The percentile interval of rows drawn with replacement from the pooled data, with the exact AUC."""
    labels, scores = (np.concatenate([rows[i] for rows in parties]) for i in range(2))
    order = np.argsort(scores)
    ordered = labels[order]
    drawn = rng.multinomial(len(labels), np.full(len(labels), 1 / len(labels)), size=REPLICATES)
    positives, negatives = drawn * ordered, drawn * (1 - ordered)
    below = np.cumsum(negatives, axis=1) - negatives / 2
    aucs = (positives * below).sum(axis=1) / (positives.sum(axis=1) * negatives.sum(axis=1))
    return Estimate(0.0, aucs, 0.0).interval(LEVEL)


def covered(intervals: NDArray[np.float64]) -> NDArray[np.bool_]:
    covers: NDArray[np.bool_] = (intervals[..., 0] <= TRUTH) & (intervals[..., 1] >= TRUTH)
    return covers


def both_intervals(seed: int) -> NDArray[np.float64]:
    """For each study the private and the pooled interval, shape (studies, 2, 2)."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(STUDIES):
        parties = sampled(rng)
        found.append([private(parties, seed * 1000 + number).interval(LEVEL), pooled_interval(parties, rng)])
    return np.array(found)


@pytest.mark.slow
def test_intervals_cover_the_truth_and_are_those_of_the_pooled_bootstrap() -> None:
    intervals = np.stack([both_intervals(seed) for seed in SEEDS])
    coverage = covered(intervals).mean(axis=1)
    width = (intervals[..., 1] - intervals[..., 0]).mean(axis=(0, 1))
    for seed, (private_coverage, pooled_coverage) in zip(SEEDS, coverage, strict=True):
        print(f"seed {seed}: private {private_coverage:.2%}, pooled {pooled_coverage:.2%}")
    print(f"all: private {coverage[:, 0].mean():.2%}, pooled {coverage[:, 1].mean():.2%}, mean widths {width.round(4)}")
    assert 0.93 <= coverage[:, 0].mean() <= 0.97
    assert abs(coverage[:, 0].mean() - coverage[:, 1].mean()) < 0.01
    assert width[0] == pytest.approx(width[1], rel=0.01)


def ratios(batch: Batch, table: NDArray[np.int64]) -> tuple[float, ...]:
    """Every ratio of a table before anything is rounded."""
    left, right = batch.factors(table)
    products, found, start = left.astype(np.float64) * right, [], 0
    for each in batch.readings:
        stop = start + batch.lines_read(each) * each.form.terms
        mine = products[start:stop].reshape(-1, each.form.terms)
        found += (mine[:, : each.form.numerator].sum(axis=1) / mine[:, each.form.numerator :].sum(axis=1)).tolist()
        start = stop
    return tuple(found)


@pytest.mark.slow
@pytest.mark.parametrize(("prevalence", "rows"), [(0.01, 1000), (0.3, 200)])
def test_intervals_cover_the_truth_for_rare_outcomes_too(prevalence: float, rows: int) -> None:
    """A thousand studies with default settings: ten parties, at 1 % about ten positives each.

    Values are counted at 1,000 points and resamples at a tenth of them, and moved.
    """
    study = Study.of(interval=LEVEL)
    assert study.recentred
    batch, rng, hits, widths = study.batch(), np.random.default_rng(round(1000 * prevalence)), 0, []
    for number in range(1000):
        total = np.zeros(1, dtype=np.int64)
        for party in range(PARTIES):
            labels = (rng.random(rows) < prevalence).astype(np.int64)
            logits = rng.normal(size=rows) + DISTANCE * labels - DISTANCE / 2 + np.log(prevalence / (1 - prevalence))
            table = Table.of(labels, 1 / (1 + np.exp(-logits)))
            total = total + tally_party(study, [table], weights(number, party)).contribution().table
        (row,) = result_rows(study, Verdict(roster=("party",) * PARTIES, ratios=ratios(batch, total)))
        assert row.low is not None
        assert row.high is not None
        hits += row.low <= TRUTH <= row.high
        widths.append(row.high - row.low)
    print(f"prevalence {prevalence:.0%}: {hits / 1000:.1%}, mean width {np.mean(widths):.4f}")
    assert 930 <= hits <= 970


def test_a_round_gives_the_resamples_that_the_parties_drew() -> None:
    parties = sampled(np.random.default_rng(1))
    expected = private(parties, 0)
    names = tuple(f"party-{index}" for index in range(PARTIES))
    rng = derive(Secret(bytes(32)), "round")
    round_ = STUDY.round(STUDY.call(rng, engine="clear", parties=names, leader=names[0]))
    contributions = {
        name: tally_party(STUDY, [Table.of(*rows)], weights(0, index)).contribution()
        for index, (name, rows) in enumerate(zip(names, parties, strict=True))
    }
    verdict = play(PROTOCOLS[STUDY.protocol], ClearEngine(), round_, contributions, rng)
    found = np.array([float(verdict.ratio(index)) for index in range(1 + REPLICATES)])
    assert np.abs(found - np.array([expected.value, *expected.replicates])).max() <= 0.6e-4
