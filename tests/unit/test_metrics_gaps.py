"""Differences of two groups' rates, of which neither rate is released; and who is not compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import metrics_oracle
from fheval import ConfigError, Result, Table, evaluate
from fheval.evaluation.tally import tally_party
from fheval.metrics.registry import METRICS
from fheval.protocols.groups import SUPPRESSED
from fheval.secrets import Secret, SystemRandomness, derive
from fheval.study import Study, StudyError
from fheval_lab.clear import ClearEngine
from keys_consortium import Consortium
from vault.trial import NAMES, make_consortium, running

GAPS = tuple(name for name, metric in METRICS.items() if metric.gap_of is not None)
AT = 0.5
GROUPS = ("F", "M", "X")
PADDED = ("padded", "padded-verified")

Party = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.str_]]


def parties(count: int = 4, shares: tuple[float, ...] = (0.4, 0.4, 0.2)) -> list[Party]:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(count):
        groups = rng.choice(GROUPS, 200, p=shares)
        labels = rng.integers(0, 2, 200)
        found.append((labels, np.clip(0.3 * labels + 0.1 * (groups == "M") + 0.6 * rng.random(200), 0, 1), groups))
    return found


def of_pooled(metric: str, data: list[Party], one: str, other: str) -> float:
    """The difference of what scikit-learn gives for each group."""
    labels, scores, groups = (np.concatenate(each) for each in zip(*data, strict=True))

    def rate(group: str) -> float:
        mine = groups == group
        if metric == "called-gap":
            return float((scores[mine] > AT).mean())
        found = metrics_oracle.pooled(f"{metric.removesuffix('-gap')}@{AT}", labels[mine], scores[mine])
        assert found is not None
        return found

    return rate(one) - rate(other)


def asked(data: list[Party], protocol: str = "padded", metrics: tuple[str, ...] = GAPS, **others: object) -> Result:
    tables = [Table.of(labels, scores, groups=groups) for labels, scores, groups in data]
    names = [f"{name}@{AT}" if METRICS[name].threshold else name for name in metrics]
    return evaluate(
        tables,
        metrics=names,
        group_column="sex",
        protocol=protocol,
        engine=ClearEngine(),
        max_samples=1 << 12,
        **others,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("protocol", PADDED)
def test_every_two_groups_are_compared_and_nothing_else_is_told(protocol: str) -> None:
    data = parties()
    rows = asked(data, protocol).results
    assert [(row.metric, row.group) for row in rows] == [
        (f"{name}@{AT}", f"sex={one} - {other}") for name in GAPS for one, other in (("F", "M"), ("F", "X"), ("M", "X"))
    ]
    for row in rows:
        one, _, other = str(row.group).removeprefix("sex=").partition(" - ")
        assert row.value == pytest.approx(of_pooled(row.metric.partition("@")[0], data, one, other), abs=0.6e-4)


@pytest.mark.parametrize("protocol", PADDED)
def test_a_difference_goes_with_other_metrics_and_intervals(protocol: str) -> None:
    data = parties()
    result = asked(data, protocol, ("auc", "recall-gap", "recall"), ci=0.9, replicates=40)
    gap = next(row for row in result.results if row.metric == f"recall-gap@{AT}" and row.group == "sex=F - M")
    assert gap.value == pytest.approx(of_pooled("recall-gap", data, "F", "M"), abs=0.6e-4)
    assert gap.value is not None
    assert gap.low is not None
    assert gap.high is not None
    assert gap.low < gap.value < gap.high
    recalls = [result.value(f"recall@{AT}", group=f"sex={name}") for name in "FM"]
    assert gap.value == pytest.approx(recalls[0] - recalls[1], abs=2e-4)


@pytest.mark.parametrize("protocol", PADDED)
def test_whoever_is_small_is_in_no_difference(protocol: str) -> None:
    """Of X no party holds enough; and M is left out with it, since all less F would be both of them."""
    rows = asked(parties(shares=(0.49, 0.49, 0.02)), protocol).results
    told = {row.group for row in rows if row.value is not None}
    assert told == set()
    assert {row.group for row in rows} == {"sex=F - M"}
    assert all(row.note == SUPPRESSED for row in rows)


def test_undefined_where_a_group_has_no_positives_and_refused_without_two_groups() -> None:
    data = [(np.where(groups == "F", 0, labels), scores, groups) for labels, scores, groups in parties()]
    rows = {(row.metric, row.group): row for row in asked(data, metrics=("recall-gap", "accuracy-gap")).results}
    assert "no sample of one group is positive" in str(rows[f"recall-gap@{AT}", "sex=F - M"].error)
    assert rows[f"accuracy-gap@{AT}", "sex=F - M"].value is not None
    nobody = [(np.zeros_like(labels), scores, groups) for labels, scores, groups in data]
    assert all(row.error is not None for row in asked(nobody, metrics=("recall-gap",)).results)
    with pytest.raises(StudyError, match="compares groups"):
        Study.of(metrics=["recall-gap"])
    with pytest.raises(StudyError, match="does not follow from a noisy curve"):
        Study.of(metrics=["recall-gap"], release="noisy-curve", epsilon=1, group_column="sex", groups=["F", "M"])
    with pytest.raises(ConfigError, match="compares two groups, and there are 1"):
        Study.of(metrics=["recall-gap"], group_column="sex", groups=["F"]).batch()


def test_many_groups_are_refused_without_listing_every_two_of_them() -> None:
    """Thirty thousand groups fit into a study, and 450 million pairs of them into nothing."""
    study = Study.of(metrics=["recall-gap"], group_column="g", groups=[f"{number:x}" for number in range(30_000)])
    assert study.number_of_evaluations() == 30_000 * 29_999 // 2
    with pytest.raises(StudyError, match="products and a round takes"):
        study.batch()


def test_the_forms_of_a_difference_are_within_their_bounds() -> None:
    study = Study.of(metrics=[f"{name}@{AT}" for name in GAPS], group_column="sex", groups=GROUPS, max_samples=800)
    data = parties()
    tables = [tally_party(study, [Table.of(y, s, groups=g)], derive(Secret(bytes(32)), "test")) for y, s, g in data]
    batch = study.batch()
    left, right = batch.factors(np.sum([each.contribution().table for each in tables], axis=0))
    products, start = left * right, 0
    for form in batch.forms:
        mine = products[start : start + form.terms]
        num, den = mine[: form.numerator].sum(), mine[form.numerator :].sum()
        assert 0 <= num <= min(form.bound, form.largest * den)
        assert den <= form.bound
        start += form.terms


def test_only_pairs_of_published_groups_are_opened() -> None:
    """Pads are given for these forms alone: of the others nobody can open anything."""
    study = Study.of(metrics=["accuracy", "recall-gap"], models=["old", "new"], group_column="sex", groups=GROUPS)
    round_ = study.round(study.call(SystemRandomness(), engine="", parties=("a", "b", "c"), leader="a"))
    # Two models, of which each has four slices, then three pairs.
    accuracies, pairs = 2 * 4, [("F", "M"), ("F", "X"), ("M", "X")]
    for published in (GROUPS, ("F", "M"), ("M", "X"), ("X",), ()):
        expected = [
            accuracies + 3 * model + number
            for model in range(2)
            for number, pair in enumerate(pairs)
            if set(pair) <= set(published)
        ]
        assert [form for form in round_.forms_of(published) if form >= accuracies] == expected


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return make_consortium(tmp_path_factory.mktemp("gaps"))


def written(party: Party) -> str:
    lines = (f"{y},{s!r},{g}\n" for y, s, g in zip(*(each.tolist() for each in party), strict=True))
    return "label,score,sex\n" + "".join(lines)


def test_vaults_leave_small_groups_out(consortium: Consortium, tmp_path: Path) -> None:
    """X is small, and F or M is left out with it, so that no two groups are compared."""
    with running(tmp_path, consortium) as trial:
        for name, party in zip(NAMES, parties(len(NAMES), (0.49, 0.49, 0.02)), strict=True):
            trial.data(name).write_text(written(party))
        study = trial.study(metrics=(f"recall-gap@{AT}",), group_column="sex", groups=GROUPS, max_samples=1 << 12)
        trial.play(study)
        for member in NAMES:
            assert [(row.value, row.note) for row in trial.rows(member)] == [(None, SUPPRESSED)] * 3


@pytest.mark.parametrize("protocol", PADDED)
def test_vaults_tell_the_same(consortium: Consortium, tmp_path: Path, protocol: str) -> None:
    data = parties(len(NAMES))
    with running(tmp_path, consortium) as trial:
        for name, party in zip(NAMES, data, strict=True):
            trial.data(name).write_text(written(party))
        metrics = tuple(f"{name}@{AT}" for name in GAPS)
        trial.play(trial.study(protocol, metrics=metrics, group_column="sex", groups=GROUPS, max_samples=1 << 12))
        for member in NAMES:
            rows = trial.rows(member)
            assert len(rows) == 3 * len(GAPS)
            for row in rows:
                one, _, other = str(row.group).removeprefix("sex=").partition(" - ")
                assert row.value == pytest.approx(of_pooled(row.metric.partition("@")[0], data, one, other), abs=0.6e-4)
