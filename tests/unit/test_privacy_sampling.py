"""Noise in shares: tables against their formulas, and the distribution of the sum against that of one curator."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import reduce
from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from numpy.typing import NDArray

from fheval.privacy import sampling
from fheval.privacy.sampling import DiscreteGaussian, DiscreteLaplace, Noise, NoiseError
from fheval.secrets import Secret, Stream, derive

Floats = NDArray[np.float64]


def stream(*labels: str | int) -> Stream:
    return derive(Secret(bytes(32)), "noise", *labels)


class Listed:
    """Randomness that gives the listed 128-bit numbers."""

    def __init__(self, *numbers: int) -> None:
        self._bytes = b"".join(number.to_bytes(16, "little") for number in numbers)

    def draw(self, count: int) -> bytes:
        assert count == len(self._bytes)
        return self._bytes


def probabilities(thresholds: tuple[int, ...]) -> Floats:
    """What a table makes of uniform numbers."""
    return np.array([(b - a) / 2.0**128 for a, b in pairwise((0, *thresholds))])


def share_of(noise: Noise) -> Floats:
    """The probabilities of one share, from −K to K."""
    if isinstance(noise, DiscreteLaplace):
        one = probabilities(sampling._negative_binomial(noise.step, noise.honest))
        return np.convolve(one, one[::-1])
    return probabilities(sampling._gaussian(noise.variance, noise.honest))


def sum_of(noise: Noise, shares: int) -> Floats:
    """The probabilities of the sum of so many shares, from −K to K."""
    return reduce(np.convolve, [share_of(noise)] * shares)


def laplace(step: float, length: int) -> Floats:
    """The curator's probabilities, from −K to K."""
    k = np.abs(np.arange(length) - length // 2)
    return np.exp(-step * k) * (1 - exp(-step)) / (1 + exp(-step))


# The tables


@pytest.mark.parametrize(("step", "honest"), [(1.0, 1), (1.0, 11), (0.1, 3), (8.0, 14), (0.01, 2)])
def test_a_table_is_within_two_to_the_minus_100_of_its_distribution(step: float, honest: int) -> None:
    """By a second computation with twice the digits, from the formula Γ(k + 1/h)/(k!·Γ(1/h))·(1 − α)^(1/h)·α^k."""
    thresholds = sampling._negative_binomial(step, honest)
    with localcontext() as context:
        context.prec = 130
        ratio, shape = (-Decimal(step)).exp(), 1 / Decimal(honest)
        likely = (1 - ratio) ** shape
        distance, reached = Decimal(0), Decimal(0)
        for k, (start, stop) in enumerate(pairwise((0, *thresholds))):
            distance += abs(Decimal(stop - start) / (1 << 128) - likely)
            reached += likely
            likely *= ratio * (k + shape) / (k + 1)
        assert distance / 2 + (1 - reached) < Decimal(2) ** -100
        assert 0 < 1 - reached < Decimal(2) ** -109


@pytest.mark.parametrize(("variance", "honest"), [(3.0, 3), (24.0, 2), (480.0, 11)])
def test_a_gaussian_table_is_within_two_to_the_minus_100_of_its_distribution(variance: float, honest: int) -> None:
    thresholds = sampling._gaussian(variance, honest)
    middle = len(thresholds) // 2
    with localcontext() as context:
        context.prec = 130
        # Far beyond the table's end, so that the total is that of all integers.
        weights = [(-Decimal(k * k * honest) / (2 * Decimal(variance))).exp() for k in range(3 * middle + 10)]
        total = 2 * sum(weights) - 1
        distance = Decimal(0)
        for k, (start, stop) in enumerate(pairwise((0, *thresholds))):
            distance += abs(Decimal(stop - start) / (1 << 128) - weights[abs(k - middle)] / total)
        left_out = 2 * sum(weights[middle + 1 :], Decimal(0)) / total
    assert distance / 2 + left_out < Decimal(2) ** -100


def test_a_number_is_looked_up_among_thresholds_without_a_float_in_between() -> None:
    noise = DiscreteLaplace(1.0, 3)
    first, second, *_ = sampling._negative_binomial(1.0, 3)
    # What differs in the last of 128 bits differs in the outcome; the second half is subtracted.
    assert noise.share(Listed(first - 1, first, second, 0, 0, first), 3).tolist() == [0, 1, 1]
    largest = len(sampling._negative_binomial(1.0, 3)) - 1
    assert noise.share(Listed((1 << 128) - 1, 0), 1).tolist() == [largest]


def test_a_gaussian_share_is_symmetric() -> None:
    noise = DiscreteGaussian(12.0, 3)
    thresholds = sampling._gaussian(12.0, 3)
    middle = len(thresholds) // 2
    assert noise.share(Listed(0, thresholds[middle - 1], (1 << 128) - 1), 3).tolist() == [-middle, 0, middle]
    below, above = thresholds[middle - 1], (1 << 128) - thresholds[middle]
    assert abs(below - above) < len(thresholds)


# The sum


@pytest.mark.parametrize(("step", "honest"), [(1.0, 1), (1.0, 2), (1.0, 11), (0.2, 14), (8.0, 5)])
def test_the_sum_of_the_shares_is_the_discrete_laplace_distribution(step: float, honest: int) -> None:
    found = sum_of(DiscreteLaplace(step, honest), honest)
    assert np.abs(found - laplace(step, len(found))).max() < 1e-14


def test_shares_of_another_number_of_parties_are_not() -> None:
    found = sum_of(DiscreteLaplace(1.0, 5), 4)
    assert np.abs(found - laplace(1.0, len(found))).max() > 0.01


@pytest.mark.parametrize("noise", [DiscreteLaplace(0.5, 7), DiscreteGaussian(24.0, 7)])
@pytest.mark.parametrize("parties", [7, 15])
def test_the_variance_of_more_shares_is_what_is_said(noise: Noise, parties: int) -> None:
    found = sum_of(noise, parties)
    k = np.arange(len(found)) - len(found) // 2
    assert found @ (k * k) == pytest.approx(noise.variance_of(parties), rel=1e-9)


@pytest.mark.parametrize("noise", [DiscreteLaplace(1.0, 5), DiscreteGaussian(20.0, 5)])
def test_drawn_sums_have_the_distribution_of_the_sum(noise: Noise) -> None:
    count = 20_000
    drawn = np.sum([noise.share(stream(type(noise).__name__, party), count) for party in range(5)], axis=0)
    expected = sum_of(noise, 5)
    middle = len(expected) // 2
    reach = int(np.flatnonzero(expected * count >= 10).max()) - middle
    inside = np.bincount(drawn[np.abs(drawn) <= reach] + reach, minlength=2 * reach + 1)
    likely = expected[middle - reach : middle + reach + 1]
    observed = np.append(inside, count - inside.sum())
    wanted = np.append(likely, 1 - likely.sum()) * count
    chi_square = float(((observed - wanted) ** 2 / wanted).sum())
    degrees = len(wanted) - 1
    # Five deviations: the stream is fixed, so this never fails by chance.
    assert chi_square < degrees + 5 * (2 * degrees) ** 0.5


def test_neighbouring_shares_are_independent() -> None:
    noise = DiscreteLaplace(1.0, 3)
    drawn = noise.share(stream("independent"), 40_000).astype(np.float64)
    halves = drawn[:20_000], drawn[20_000:]
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(*halves)[0, 1]) < 0.03


def test_beside_the_samplers_of_opendp() -> None:
    """A curator's own samplers, vetted and exact, have the spread that our shares add up to."""
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64"))
    count = 20_000
    for make, distance, scale, noise in (
        (opendp.m.make_laplace, opendp.l1_distance(T="i64"), 1.0, DiscreteLaplace(1.0, 5)),
        (opendp.m.make_gaussian, opendp.l2_distance(T="f64"), 20.0**0.5, DiscreteGaussian(20.0, 5)),
    ):
        curators = np.array(make(space, distance, scale=scale)([0] * count))
        ours = np.sum([noise.share(stream("beside", party), count) for party in range(5)], axis=0)
        reach = range(-12, 13)
        differences = [float((curators <= k).mean() - (ours <= k).mean()) for k in reach]
        # Kolmogorov and Smirnov for two samples: 2.5·√(2/count) is exceeded once in 10^5 times.
        assert max(map(abs, differences)) < 2.5 * (2 / count) ** 0.5


# What cannot be


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiscreteLaplace(0.0, 3),
        lambda: DiscreteLaplace(float("nan"), 3),
        lambda: DiscreteLaplace(1.0, 0),
        lambda: DiscreteLaplace(2.0**-13, 3),
        lambda: DiscreteGaussian(2.0, 3),
        lambda: DiscreteGaussian(float("inf"), 3),
        lambda: DiscreteGaussian(float("nan"), 3),
    ],
)
def test_noise_that_cannot_be_is_refused(make: object) -> None:
    with pytest.raises(NoiseError, match=r"\. Raise epsilon"):
        make()  # type: ignore[operator]


def test_the_smallest_step_has_a_table_of_the_size_that_is_said() -> None:
    assert 110 * log(2) / sampling.SMALLEST_STEP < 1 << 20
