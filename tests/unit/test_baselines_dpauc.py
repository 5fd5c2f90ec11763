"""DPAUC: the noise it promises, the estimators, and the figures that the paper prints for it."""

from __future__ import annotations

import math
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.typing import NDArray

from fheval.counting import Counts, Grid
from fheval.errors import ConfigError, InputError, UndefinedMetric
from fheval.secrets import Secret, derive, integer_below
from fheval_lab.baselines import optional
from fheval_lab.baselines.data import Parties
from fheval_lab.baselines.dpauc import ESTIMATORS, Estimator, aggregator_add, dpauc, laplace_mechanism, party_statistics
from published_data import published_file

needs_opendp = pytest.mark.skipif(find_spec("opendp") is None, reason="OpenDP is not installed")

PRINTED_STD = [
    ("", 1, (0.022812, 0.049092, 0.103526)),
    ("", 8, (0.003212, 0.006660, 0.011731)),
    ("_10000", 8, (0.027761, 0.057772, 0.115002)),
    ("_criteo_10000", 8, (0.028154, 0.049641, 0.107208)),
]


def some_parties() -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    index = np.arange(300)
    scores = (index * 7919 % 1001) / 1001
    labels = (index * 104729 % 97 < 40 + 30 * scores).astype(np.int64)
    return [(labels[start::3], scores[start::3]) for start in range(3)]


def published(suffix: str, parties: int = 15) -> Parties:
    """A published data set, every sample at a party chosen at random but always the same."""
    labels = np.loadtxt(published_file(f"labels{suffix}.txt"))
    scores = np.loadtxt(published_file(f"pred_cons{suffix}.txt"))
    stream = derive(Secret(bytes(32)), "test split")
    owner = np.array([integer_below(stream, parties) for _ in labels])
    return [(labels[owner == party], scores[owner == party]) for party in range(parties)]


def trapezoidal_auc(parties: list[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> float:
    """That of the pooled counts at 25 decision points."""
    labels, scores = (np.concatenate(arrays) for arrays in zip(*parties, strict=True))
    return Counts.from_scores(labels, scores, Grid.even(25)).auc()


def no_noise(values: list[int]) -> list[int]:
    return values


def test_statistics_are_the_confusion_matrix() -> None:
    counts = Counts.from_scores([1, 0, 1, 0], [0.9, 0.5, 0.4, 0.0], decision_points=3)
    tp, fp, tn, fn = party_statistics(counts).tolist()
    assert (tp, fp, tn, fn) == ([0, 1, 2], [0, 0, 2], [2, 2, 0], [2, 1, 0])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_without_noise_every_estimator_is_the_trapezoidal_auc(estimator: Estimator) -> None:
    parties = some_parties()
    statistics = [party_statistics(Counts.from_scores(*party, Grid.even(25))) for party in parties]
    values = ESTIMATORS[estimator](*aggregator_add(statistics, no_noise, repetitions=2))
    assert values == pytest.approx([trapezoidal_auc(parties)] * 2, abs=1e-12)


def test_every_party_and_repetition_has_noise_of_its_own() -> None:
    seen: list[int] = []

    def note(values: list[int]) -> list[int]:
        seen.append(len(values))
        return [value + 1 for value in values]

    total = aggregator_add([np.zeros((4, 25), dtype=np.int64)] * 3, note, repetitions=7)
    assert seen == [4 * 7 * 25] * 3
    assert total.shape == (4, 7, 25)
    assert (total == 3).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_totals_of_zero_give_rates_of_zero(estimator: Estimator) -> None:
    nothing = np.zeros((1, 5))
    assert ESTIMATORS[estimator](nothing, nothing, nothing, nothing).tolist() == [0.0]


def test_sorted_estimator_stays_within_bounds() -> None:
    stream = derive(Secret(bytes(32)), "test noise")
    noise = np.frombuffer(stream.draw(4 * 50 * 20), dtype=np.int8).reshape(4, 50, 20).astype(np.float64)
    values = ESTIMATORS["sorted"](*noise)
    assert 0 <= values.min() <= values.max() <= 1
    assert not 0 <= ESTIMATORS["first-totals"](*noise).min() <= ESTIMATORS["first-totals"](*noise).max() <= 1


@needs_opendp
def test_a_huge_budget_leaves_the_trapezoidal_auc() -> None:
    parties = some_parties()
    result = dpauc(parties, epsilon=1e7, decision_points=25, repetitions=3)
    assert result.mean == pytest.approx(trapezoidal_auc(parties), abs=1e-12)
    assert result.std == pytest.approx(0, abs=1e-12)


@needs_opendp
def test_budget_is_divided_among_all_statistics() -> None:
    result = dpauc(some_parties(), epsilon=8, decision_points=25, repetitions=2)
    assert result.epsilon_per_statistic == 8 / (4 * 25)
    assert result.noise_scale == pytest.approx(1 / result.epsilon_per_statistic)
    assert (result.parties, result.decision_points, len(result.values)) == (3, 25, 2)


@needs_opendp
def test_noise_is_laplace_of_the_stated_scale() -> None:
    """Mean |noise| is b and mean noise² is 2·b²; for normal noise of that mean, the second would be 1.57·b²."""
    size = 20_000
    drawn = np.array(laplace_mechanism(epsilon=1, points=25)([0] * size), dtype=np.float64)
    scale = 100
    # Five standard errors each; |noise| has standard deviation b, noise² one of √20·b².
    assert abs(np.abs(drawn).mean() - scale) < 5 * scale / math.sqrt(size)
    assert abs((drawn**2).mean() - 2 * scale**2) < 5 * math.sqrt(20) * scale**2 / math.sqrt(size)
    assert abs(drawn.mean()) < 5 * math.sqrt(2) * scale / math.sqrt(size)


@needs_opendp
def test_noise_is_fresh() -> None:
    parties = some_parties()
    first = dpauc(parties, 8, 25, repetitions=2)
    second = dpauc(parties, 8, 25, repetitions=2)
    assert len({*first.values, *second.values}) == 4


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"epsilon": 0}, "privacy budget"),
        ({"epsilon": math.nan}, "privacy budget"),
        ({"epsilon": math.inf}, "privacy budget"),
        ({"repetitions": 0}, "at least one repetition"),
        ({"estimator": "best"}, "no estimator 'best'"),
    ],
)
def test_bad_options_are_refused(wrong: dict[str, object], match: str) -> None:
    options: dict[str, object] = {"epsilon": 1, "decision_points": 25, **wrong}
    with pytest.raises(ConfigError, match=match):
        dpauc(some_parties(), **options)  # type: ignore[arg-type]


def test_no_parties_are_refused() -> None:
    with pytest.raises(InputError, match="no parties"):
        dpauc([], epsilon=1)


def test_one_class_has_no_auc() -> None:
    """Noise would hide that there is nothing to estimate; the parties' data do not."""
    with pytest.raises(UndefinedMetric):
        dpauc([([1, 1], [0.5, 0.6])], epsilon=1)


def test_without_opendp_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"DPAUC needs opendp.*pip install 'fheval-lab\[baselines\]'"):
        dpauc(some_parties(), epsilon=1)


@needs_opendp
@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "epsilon", "stds"), PRINTED_STD)
def test_printed_standard_deviations(suffix: str, epsilon: float, stds: tuple[float, ...]) -> None:
    """Both sides rest on 100 repetitions, so each is off by 7% at one standard error; per-point rates give half."""
    parties = published(suffix)
    for points, printed in zip((25, 50, 100), stds, strict=True):
        assert dpauc(parties, epsilon, points).std == pytest.approx(printed, rel=0.4)


@needs_opendp
@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["_100", "_1000", "_criteo_100", "_criteo_1000"])
def test_unusable_on_small_data(suffix: str) -> None:
    """The paper prints standard deviations of 400 and more; heavy tails make ours differ, but never small."""
    assert dpauc(published(suffix), 1, 25).std > 3


@needs_opendp
@pytest.mark.slow
def test_means_on_large_data_lie_within_the_printed_deviation() -> None:
    parties = published("")
    for points, epsilon, mean, std in ((25, 1, 0.947500, 0.022812), (100, 8, 0.953366, 0.011731)):
        assert abs(dpauc(parties, epsilon, points).mean - mean) < std
