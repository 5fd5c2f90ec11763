"""Percentile intervals and p-values from resamples."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from fheval import ConfigError, evaluate
from fheval.errors import LocalProtocolError
from fheval.evaluation.result import Estimate, _recentred, average
from fheval.metrics.registry import parse_spec
from fheval.protocols.padded import Layout
from fheval.protocols.round import Denominator, FormError
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval_lab.clear import ClearEngine


def estimate(value: float, replicates: list[float], width: float = 0.0) -> Estimate:
    return Estimate(value, np.array(replicates), width)


def test_the_interval_ends_at_the_ranks_that_leave_its_level_between_them() -> None:
    """A new number falls below the fifth of 99 with probability 5/100."""
    low, high = estimate(0.5, [i / 100 for i in range(1, 100)]).interval(0.9)
    assert (low, high) == pytest.approx((0.05, 0.95))


def test_ninety_five_percent_of_new_numbers_lie_in_a_95_percent_interval() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(2000):
        low, high = Estimate(0.0, rng.normal(size=200), 0.0).interval(0.95)
        hits += low <= rng.normal() <= high
    assert hits / 2000 == pytest.approx(0.95, abs=0.015)


def test_undefined_resamples_are_left_out_and_counted() -> None:
    found = estimate(0.5, [0.1, np.nan, 0.3, np.nan])
    assert found.lost == 2
    assert found.interval(1 / 3) == pytest.approx((0.1, 0.3))


@pytest.mark.parametrize(
    ("replicates", "expected"),
    [
        ([1.0] * 99, 2 / 100),
        ([-1.0] * 99, 2 / 100),
        ([1.0] * 97 + [-1.0] * 2, 6 / 100),
        ([1.0] * 50 + [-1.0] * 49, 1.0),
        ([0.0] * 99, 1.0),
    ],
)
def test_the_p_value_is_twice_the_smaller_tail(replicates: list[float], expected: float) -> None:
    assert estimate(0.1, replicates).p_value() == pytest.approx(expected)


def test_differences_and_means_go_resample_by_resample() -> None:
    first, second = estimate(0.7, [0.6, 0.8], 1e-4), estimate(0.5, [0.5, 0.4], 1e-4)
    difference = first - second
    assert difference.replicates.tolist() == pytest.approx([0.1, 0.4])
    assert (difference.value, difference.width) == pytest.approx((0.2, 2e-4))
    mean = average([first, second])
    assert mean.replicates.tolist() == pytest.approx([0.55, 0.6])
    assert (mean.value, mean.width) == pytest.approx((0.6, 1e-4))
    assert not average([first, estimate(np.nan, [np.nan, 0.1])]).defined


def test_an_interval_needs_resamples_beyond_its_ends() -> None:
    Study.of(interval=0.95, replicates=40)
    with pytest.raises(ConfigError, match="39 resamples do not carry an interval"):
        Study.of(interval=0.95, replicates=39)


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_a_value_is_the_same_with_an_interval_around_it_or_without(protocol: str) -> None:
    """The data are counted at all points and resamples at a tenth; at these the AUC is 0.004 off."""
    rng = np.random.default_rng(8)
    parties = []
    for _ in range(3):
        labels = (rng.random(400) < 0.3).astype(np.int64)
        parties.append((labels, 0.01 / (1 + np.exp(-rng.normal(1.5 * labels, 1.0)))))
    options = {"protocol": protocol, "precision": "exact", "engine": ClearEngine(), "max_samples": 1 << 11}
    (row,) = evaluate(parties, ci=0.95, **options).results  # type: ignore[arg-type]
    plain = evaluate(parties, **options)  # type: ignore[arg-type]
    coarse = evaluate(parties, decision_points=100, **options)  # type: ignore[arg-type]
    assert row.value == plain.auc
    assert row.binning == plain.binning
    assert row.low is not None
    assert row.high is not None
    assert row.low < plain.auc < row.high
    # Resamples are symmetric about the value to within what chance does to 200 of them.
    width = row.high - row.low
    assert (row.low + row.high) / 2 == pytest.approx(plain.auc, abs=0.2 * width)
    assert coarse.auc != plain.auc


def test_resamples_are_moved_as_far_as_the_value_and_not_beyond_the_ends() -> None:
    spec = parse_spec("auc")
    assert _recentred(spec, [0.9, 0.8, None, 0.95], 0.88) == pytest.approx([0.9, 0.82, None, 0.97])
    assert _recentred(spec, [0.999, 0.99, 0.05], 0.9)[1:] == pytest.approx([1.0, 0.149])
    assert _recentred(spec, [0.9, 0.8], None) == [0.9, None]
    assert _recentred(spec, [None, 0.8], 0.9) == [None, None]


def test_what_is_read_of_the_data_has_one_denominator_and_resamples_scatter_about_it() -> None:
    """So that 1,000 points take no more primes than 100: every kind of denominator has to be hidden by itself."""
    fine, coarse = Study.of(interval=0.95), Study.of(interval=0.95, decision_points=100)
    value, *rest = fine.batch().denominators
    *resamples, error, at_fewer_points = rest
    assert value == error == at_fewer_points == Denominator(0, 0)
    assert resamples == [Denominator(0, line) for line in range(1, 1 + fine.replicates)]
    names = ("a", "b", "c")
    primes = [
        len(Layout.of(study.round(study.call(SystemRandomness(), engine="", parties=names, leader="a"))).primes)
        for study in (fine, coarse)
    ]
    assert primes[0] == primes[1]


def test_resamples_of_one_denominator_have_one_denominator() -> None:
    """Numbers with one denominator are blinded alike: were they of two, their difference would give the scale away."""
    batch = Study.of(metrics=["auc", "recall@0.3", "recall@0.5"], interval=0.95).batch()
    *others, again = (number for number, each in enumerate(batch.readings) if each.of == "resamples")
    wrong = replace(batch.readings[again], right=2 * batch.readings[again].right)
    readings = (*batch.readings[:again], wrong, *batch.readings[again + 1 :])
    assert len(others) == 2
    with pytest.raises(LocalProtocolError, match="two denominators"):
        _ = replace(batch, readings=readings).denominators
    with pytest.raises(FormError, match="different lengths"):
        replace(batch, readings=(replace(batch.readings[0], of="every"),))
