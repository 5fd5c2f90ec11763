"""Curves under noise: what is added, that everything drawn from them is possible and consistent, and the intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from fheval import Study, Table, evaluate
from fheval.counting import bin_numbers
from fheval.errors import ConfigError
from fheval.evaluation import Result
from fheval.evaluation.noisy_curves import Monotone, NoisyCurve, noisy_curve
from fheval.forecast import error_in_words, noise_forecast
from fheval.metrics.registry import parse_spec
from fheval.privacy.sampling import DiscreteGaussian, DiscreteLaplace
from fheval.secrets import Secret, SystemRandomness, derive
from fheval.study import Slice
from fheval_lab.clear import ClearEngine

ENGINE = ClearEngine()
WHERE = Slice("", None, None)
Rows = tuple[NDArray[np.int64], NDArray[np.float64]]


def rows(seed: int, count: int, share: float = 0.4) -> Rows:
    draw = np.random.default_rng(seed)
    labels = (draw.random(count) < share).astype(np.int64)
    return labels, 1 / (1 + np.exp(-draw.normal(2 * labels - 1, 1.5)))


PARTIES = [rows(seed, 400) for seed in range(5)]


def noisy(parties: Any = PARTIES, **options: Any) -> Result:
    return evaluate(parties, release="noisy-curve", engine=ENGINE, **({"epsilon": 1.0} | options))


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Noise of zeros; gives how many numbers each share was asked for."""
    asked: list[int] = []

    def share(_self: DiscreteLaplace, _rng: object, count: int) -> NDArray[np.int64]:
        asked.append(count)
        return np.zeros(count, dtype=np.int64)

    monkeypatch.setattr(DiscreteLaplace, "share", share)
    return asked


# What is added


def test_every_party_adds_one_share_to_every_count(silent: list[int]) -> None:
    result = noisy(decision_points=21, metrics=["auc", "recall@0.37"])
    # Twenty bins, one of which the threshold cuts in two, of positives and of negatives.
    assert silent == [2 * 21] * len(PARTIES)
    (curve,) = result.curves
    labels, scores = (np.concatenate(each) for each in zip(*PARTIES, strict=True))
    thresholds = curve.thresholds
    assert 0.37 in thresholds
    assert curve.tp.tolist() == [int(labels[scores > at].sum()) for at in thresholds[:-1]] + [int(labels.sum())]
    assert curve.fp.tolist()[:-1] == [int((1 - labels)[scores > at].sum()) for at in thresholds[:-1]]


def test_the_sum_of_all_shares_is_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiscreteLaplace, "share", lambda _self, _rng, count: np.arange(count) - 7)
    found = noisy(decision_points=11).curves[0].to_dict()
    monkeypatch.setattr(DiscreteLaplace, "share", lambda _self, _rng, count: np.zeros(count, dtype=np.int64))
    plain = noisy(decision_points=11).curves[0].to_dict()
    changes = [np.subtract(found[name], plain[name]) for name in ("noisy_positives", "noisy_negatives")]
    assert np.concatenate(changes).tolist() == [5 * (number - 7) for number in range(20)]


def test_noise_is_drawn_anew_in_every_round() -> None:
    first, second = (noisy(decision_points=101).curves[0].to_dict() for _ in range(2))
    assert first["noisy_positives"] != second["noisy_positives"]


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_counts_that_noise_makes_negative_come_through(protocol: str) -> None:
    """Hardly any row, and much noise: half of the counts are below zero."""
    few = [([0, 1], [0.4, 0.6])] * 3
    result = noisy(few, protocol=protocol, epsilon=0.05, decision_points=51)
    found = result.curves[0].to_dict()
    counts = [*found["noisy_positives"], *found["noisy_negatives"]]
    assert 10 < sum(count < 0 for count in counts) < 90
    assert max(map(abs, counts)) < 10_000
    assert result.verified is (True if protocol == "padded-verified" else None)


def test_the_noise_is_calibrated_to_the_honest_of_the_least_cohort() -> None:
    study = Study.of(release="noisy-curve", epsilon=1.0, minimum_cohort=12, colluding=3)
    assert study.noise == DiscreteLaplace(1.0, 9)
    several = Study.of(
        release="noisy-curve", epsilon=1.0, models=("old", "new"), classes=("a", "b", "c"), minimum_cohort=12
    )
    assert several.noise == DiscreteLaplace(0.166666, 11)
    grouped = Study.of(
        release="noisy-curve", epsilon=1.0, group_column="sex", groups=("F", "M", "X"), minimum_cohort=12
    )
    # All rows, and one of the groups.
    assert grouped.noise == DiscreteLaplace(0.5, 11)
    clusters = Study.of(release="noisy-curve", epsilon=1.0, by_cluster=True, most_rows_per_cluster=4)
    assert clusters.noise == DiscreteLaplace(0.25, 2)
    many = Study.of(release="noisy-curve", epsilon=1.0, delta=1e-6, classes=tuple("abcdefghijklmnopqrst"))
    assert isinstance(many.noise, DiscreteGaussian)


def test_what_is_said_of_the_noise() -> None:
    result = noisy(minimum_cohort=5, colluding=2)
    assert result.privacy is not None
    assert (result.privacy.epsilon, result.privacy.delta, result.privacy.noise) == (1.0, None, "laplace")
    assert (result.privacy.colluding, result.privacy.honest, result.privacy.rows) == (2, 3, 1)
    assert result.privacy.deviation == pytest.approx(DiscreteLaplace(1.0, 3).variance_of(5) ** 0.5)
    told = result.to_dict()
    assert (told["precision"], told["confidence"], told["privacy"]["epsilon"]) == ("noisy", 0.95, 1.0)
    assert "privacy" not in evaluate(PARTIES, engine=ENGINE).to_dict()


# Monotone


@pytest.mark.parametrize("seed", range(20))
def test_running_totals_are_the_isotonic_regression(seed: int) -> None:
    counts = np.random.default_rng(seed).integers(-6, 9, 40)
    found = Monotone.of(counts)
    totals = np.cumsum(counts)
    wanted = IsotonicRegression().fit_transform(np.arange(39), totals[:-1])
    assert np.repeat(found.levels, found.sizes) == pytest.approx(wanted)
    running = found.running
    assert (np.diff(running) >= 0).all()
    assert (running[0], running[-1]) == (0, max(totals[-1], 0))
    assert running[1:-1] == pytest.approx(np.clip(wanted, 0, running[-1]), abs=0.5)


def test_counts_that_rise_are_left_alone() -> None:
    assert Monotone.of(np.array([0, 3, 0, 2])).running.tolist() == [0, 0, 3, 3, 5]
    assert Monotone.of(np.array([4])).running.tolist() == [0, 4]
    assert Monotone.of(np.array([-4])).running.tolist() == [0, 0]


# Possible, and consistent


@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_negative_and_no_rate_above_one(seed: int) -> None:
    """Noise that drowns everything."""
    draw = np.random.default_rng(seed)
    names = ["auc", "recall@0.3", "precision@0.5", "f1@0.5", "kappa@0.5", "youden-j@0.2", "net-benefit@0.2"]
    study = Study.of(release="noisy-curve", epsilon=0.1, metrics=names, decision_points=31)
    counts = draw.poisson(2.0, study.histogram.width) + draw.integers(-40, 41, study.histogram.width)
    noise = study.noise
    assert noise is not None
    curve = noisy_curve(study, WHERE, counts, noise, 3)
    assert curve.calibration is not None
    for counted in (curve.tp, curve.fp, curve.calibration):
        assert (counted >= 0).all()
    if not curve.tp[-1] or not curve.fp[-1]:
        return
    for values in (*curve.roc(), *curve.precision_recall(), *curve.reliability()[:2], *curve.roc_band()):
        assert ((values >= 0) & (values <= 1)).all()
    for values in (*curve.precision_band(), *curve.reliability_band()):
        assert ((values >= 0) & (values <= 1)).all()
    for low, high in (curve.roc_band(), curve.precision_band(), curve.reliability_band(), curve.net_benefit_band()):
        assert (low <= high).all()
    from fheval.evaluation.result import _noisy_rows

    for row in _noisy_rows(study, [curve]):
        least = -1.0 if row.metric.startswith(("kappa", "youden", "net-benefit")) else 0.0
        found = [each for each in (row.low, row.value, row.high) if each is not None]
        if least == 0.0:
            assert all(0 <= each <= 1 for each in found), row
        assert found == sorted(found), row


def test_all_numbers_are_of_one_curve() -> None:
    names = ["auc", "recall@0.3", "specificity@0.3", "precision@0.3", "net-benefit@0.3", "accuracy@0.61"]
    result = noisy(metrics=names, decision_points=41)
    (curve,) = result.curves
    assert isinstance(curve, NoisyCurve)
    fpr, tpr = curve.roc()
    assert result.value("auc") == pytest.approx(np.trapezoid(tpr, fpr), abs=1e-12)
    (place,) = np.flatnonzero(curve.thresholds == 0.3)
    tp, fp, p, q = curve.tp[place], curve.fp[place], curve.tp[-1], curve.fp[-1]
    assert result.value("recall@0.3") == pytest.approx(tp / p)
    assert result.value("specificity@0.3") == pytest.approx(1 - fp / q)
    assert result.value("precision@0.3") == pytest.approx(tp / (tp + fp))
    at, benefit, _ = curve.net_benefit()
    assert result.value("net-benefit@0.3") == pytest.approx(benefit[at == 0.3][0], abs=1e-6)
    assert result.value("ks") == pytest.approx(np.abs(tpr - fpr).max())
    means, shares, samples = curve.reliability()
    assert samples.sum() == p + q
    assert (shares * samples).sum() == pytest.approx(p)
    assert (np.diff(means) > 0).all()


def test_without_noise_all_numbers_are_those_of_the_exact_release(silent: list[int]) -> None:
    exact = evaluate(PARTIES, release="curve", allow_curves=True, decision_points=51, engine=ENGINE)
    found = noisy(decision_points=51)
    assert silent
    for name in ("auc", "average-precision", "ks"):
        assert found.value(name) == exact.value(name)


# Intervals


def deviations(
    study: Study, truth: NDArray[np.float64], names: list[str], draws: int
) -> dict[str, tuple[float, float]]:
    """For each number its standard deviation over draws of sampling and noise, and the mean standard error."""
    from statistics import NormalDist

    from fheval.evaluation.noisy_curves import estimated

    draw = np.random.default_rng(5)
    noise = study.noise
    assert noise is not None
    reach = 2 * NormalDist().inv_cdf(0.975)
    values: dict[str, list[float]] = {name: [] for name in names}
    errors: dict[str, list[float]] = {name: [] for name in names}
    for number in range(draws):
        shares = [noise.share(derive(Secret(bytes(32)), "d", number, party), len(truth)) for party in range(4)]
        curve = noisy_curve(study, WHERE, draw.poisson(truth) + np.sum(shares, axis=0), noise, 4)
        for name in names:
            found = estimated(study, curve, name)
            assert found.low is not None
            assert found.high is not None
            values[name].append(found.value)
            errors[name].append((found.high - found.low) / reach)
    return {name: (float(np.std(values[name])), float(np.mean(errors[name]))) for name in names}


def test_standard_errors_are_those_of_repeated_studies() -> None:
    names = ["auc", "average-precision", "ks", "recall@0.5", "precision@0.5", "f1@0.5", "lr+@0.5", "net-benefit@0.2"]
    study = Study.of(
        release="noisy-curve", epsilon=0.5, metrics=[each for each in names if "@" in each], decision_points=21,
        minimum_cohort=4,
    )  # fmt: skip
    labels, scores = rows(1, 200_000)
    tables = [Table.of(labels, scores)]
    from fheval.evaluation.tally import tally_party

    counted = tally_party(study, tables, SystemRandomness()).contribution().table[0]
    for name, (found, told) in deviations(study, counted / 100, names, 250).items():
        # A maximum, as of ks, scatters less than what it is the maximum of.
        assert told == pytest.approx(found, rel=0.2 if name != "ks" else 0.35), name


def test_a_metric_at_a_threshold_has_the_derivatives_of_its_formula() -> None:
    study = Study.of(release="noisy-curve", epsilon=1.0, metrics=["recall@0.5"], decision_points=3, grid="even")
    counts = np.array([60, 40, 20, 180])
    noise = study.noise
    assert noise is not None
    curve = noisy_curve(study, WHERE, counts, noise, 3)
    spec = parse_spec("recall@0.5")
    value, deviation = curve.at_threshold(spec, study.inputs(spec), 1)
    v = noise.variance_of(3)
    assert value == pytest.approx(0.6)
    # recall = a/(a + b): ∂a = b/(a + b)², ∂b = −a/(a + b)².
    assert deviation == pytest.approx((0.004**2 * (60 + v) + 0.006**2 * (40 + v)) ** 0.5, rel=1e-4)


def test_intervals_have_the_level_that_is_asked_for() -> None:
    study = Study.of(release="noisy-curve", epsilon=1.0, decision_points=21)
    assert study.interval == 0.95
    wide, narrow = (noisy(ci=level, decision_points=21) for level in (0.99, 0.5))
    spans = [each.results[0].high - each.results[0].low for each in (wide, narrow)]  # type: ignore[operator]
    assert spans[0] > 2.5 * spans[1]


# Groups and clusters


def test_named_groups_are_told_however_small(silent: list[int]) -> None:
    def party(seed: int) -> Table:
        labels, scores = rows(seed, 60)
        return Table.of(labels, scores, groups=["F"] * 58 + ["M", "M"])

    result = noisy([party(seed) for seed in range(3)], group_column="sex", groups=("F", "M", "X"), decision_points=11)
    assert [curve.where.group for curve in result.curves] == [None, "F", "M", "X"]
    totals = [int(curve.tp[-1] + curve.fp[-1]) for curve in result.curves]
    assert totals == [180, 174, 6, 0]
    assert len(silent) == 3


def test_a_cluster_of_more_rows_than_noise_hides_is_refused() -> None:
    table = Table.of([0, 1, 1, 0], [0.2, 0.4, 0.8, 0.1], clusters=["a", "b", "b", "b"])
    parties = [table] * 3
    assert noisy(parties, by_cluster=True, most_rows_per_cluster=3).parties == 3
    with pytest.raises(ConfigError, match="A cluster has more than 2 rows, and the study's noise hides 2"):
        noisy(parties, by_cluster=True, most_rows_per_cluster=2)


# What cannot be


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"epsilon": None}, "epsilon is None"),
        ({"epsilon": 0.0}, "epsilon is 0.0"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"colluding": 3}, "leave nobody whose noise they do not know"),
        ({"colluding": -1}, "leave nobody"),
        ({"metrics": ["brier"]}, "does not follow from a noisy curve"),
        ({"metrics": ["auc-mean"]}, "does not follow from a noisy curve"),
        ({"by_cluster": True}, "Set by_cluster and most_rows_per_cluster together"),
        ({"most_rows_per_cluster": 3}, "Set by_cluster and most_rows_per_cluster together"),
        ({"group_column": "sex"}, "Name the groups"),
        ({"groups": ("F",)}, "says in which column they are"),
        ({"group_column": "sex", "groups": ("F", "F")}, "named twice"),
        ({"protocol": "paper-semi-honest"}, "computes one AUC a round"),
        ({"protocol": "committee"}, "committee has no release of counts. Use padded or padded-verified"),
        ({"epsilon": 1e-5}, "Raise epsilon"),
        ({"interval": 1.5}, "confidence level"),
    ],
)
def test_a_study_that_cannot_be(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Study.of(release="noisy-curve", **({"epsilon": 1.0} | options))


@pytest.mark.parametrize("options", [{"epsilon": 1.0}, {"delta": 1e-6}, {"colluding": 2}, {"most_rows_per_cluster": 2}])
@pytest.mark.parametrize("release", ["ratios", "curve"])
def test_terms_of_noise_without_noise(options: dict[str, Any], release: str) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=f'{name} goes with release = "noisy-curve"'):
        Study.of(release=release, **options)


# Decision points


def test_the_number_of_decision_points_follows_the_declared_rows() -> None:
    chosen = [
        len(Study.of(release="noisy-curve", epsilon=1.0, least_rows=rows).grid) for rows in (100, 1_000, 10_000, 10**6)
    ]
    assert chosen == sorted(set(chosen))
    stronger = Study.of(release="noisy-curve", epsilon=0.1, least_rows=10_000)
    assert len(stronger.grid) < chosen[2]
    assert len(Study.of(release="noisy-curve", epsilon=1.0, decision_points=33).grid) == 33
    assert len(Study.of(release="noisy-curve", epsilon=1.0, grid=[1.0, 0.5, 0.0]).grid) == 3


# What is expected of a study before anybody counts


@pytest.mark.parametrize(("rows_in_all", "epsilon"), [(1_000, 1.0), (10_000, 1.0), (10_000, 0.3)])
def test_the_forecast_is_what_noise_does(rows_in_all: int, epsilon: float) -> None:
    """On data such as it reckons with, and never too hopeful: it takes the worse of two models."""
    study = Study.of(release="noisy-curve", epsilon=epsilon, minimum_cohort=5, least_rows=rows_in_all)
    forecast, noise = noise_forecast(study), study.noise
    assert forecast is not None
    assert noise is not None
    labels, scores = rows(0, rows_in_all, share=0.2)
    width = study.histogram.width
    counts = np.bincount(bin_numbers(study.grid, scores) + (width // 2) * (labels == 0), minlength=width)
    stream = derive(Secret(bytes(32)), "forecast", rows_in_all, str(epsilon))
    found = []
    for _ in range(200):
        shares = sum(noise.share(stream, width) for _ in range(5))
        found.append(noisy_curve(study, WHERE, counts + shares, noise, 5).auc())
    exact = noisy_curve(study, WHERE, counts, noise, 5).auc()
    off = float(np.sqrt(np.mean((np.array(found) - exact) ** 2)))
    assert forecast.noise / 2 < off < 1.2 * forecast.noise


def test_a_useless_epsilon_is_seen_beforehand() -> None:
    def told(epsilon: float) -> str:
        return " ".join(error_in_words(Study.of(release="noisy-curve", epsilon=epsilon, least_rows=1_000)))

    assert "useless" in told(0.1)
    assert "by 0.5 or more for noise" in told(0.01)
    assert "useless" not in told(1.0)
    assert "Noise is the largest of these" in told(1.0)
    assert "Noise is the largest of these" not in told(8.0)
