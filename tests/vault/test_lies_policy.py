"""Rounds that break the policy or their study's terms: each rule, at set-up and at submit; releases are counted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NoReturn

import msgspec
import pytest

from fheval.consortium import Rules
from fheval.counting import Grid
from fheval.errors import CohortTooSmall, ConfigError
from fheval.party.messages import REFUSAL, Epoch, Submit, request
from fheval.protocols.base import Stage
from fheval.protocols.round import RoundCall
from fheval.study import Study
from vault.requests import a_party, another, is_refused, played_until, set_up
from vault.trial import NAMES, Trial

Log = pytest.LogCaptureFixture

STRICT = Rules(minimum_cohort=4, releases_per_lineage=1)

BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("asks for at least 4", {"parties": NAMES[:3], "leader": NAMES[0]}),
    ("'oak' is not a member", {"parties": (*NAMES[:4], "oak")}),
    ("could have more than the 65536", {"parties": (*NAMES, "oak")}),
    ("is not on the roster", {"parties": NAMES[1:], "leader": NAMES[1]}),
    ("is not a party of the round", {"leader": "oak"}),
    ("A party is named twice", {"parties": (*NAMES[:4], NAMES[0])}),
    ("hexadecimal digits", {"id": "../../etc/passwd"}),
    ("hexadecimal digits", {"id": ""}),
    ("is not accepted here, or not ready", {"study": bytes(32)}),
    ("is not accepted here, or not ready", {"study": b""}),
    ("this vault has clear", {"engine": "openfhe"}),
]


def is_refused_at(trial: Trial, stage: Stage, told: RoundCall, reason: str, caplog: Log, victim: str = "") -> None:
    """Asked to make keys as a leader, or to submit as a party, a vault has no part in such a round."""
    leader = told.leader
    data = set_up(told)
    if stage is Stage.SUBMIT:
        epoch = Epoch(id=told.id, leader=leader)
        data = request(stage, Submit(call=told, epoch=epoch, bundle=b"", box=b""))
    leads = leader if leader in NAMES else "birch"
    is_refused(
        trial,
        victim or (leads if stage is Stage.SETUP else next(name for name in NAMES if name != leader)),
        data,
        reason,
        caplog,
    )


@pytest.fixture
def strict(trial: Trial) -> RoundCall:
    """Vaults under strict rules, and a round that follows them."""
    trial.consortium.sign(STRICT)
    trial.start()
    study = trial.study(precision=1e-3, minimum_cohort=4)
    return trial.round(study, "birch").call


@pytest.mark.parametrize(("reason", "changes"), BROKEN)
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT])
def test_a_round_that_breaks_the_policy(
    trial: Trial, strict: RoundCall, caplog: Log, stage: Stage, reason: str, changes: dict[str, Any]
) -> None:
    victim = NAMES[0] if "is not on the roster" in reason else ""
    is_refused_at(trial, stage, another(strict, **changes), reason, caplog, victim)


def test_groups_whose_number_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of a hundred kilobytes could ask for millions of numbers: they are counted before any is listed."""
    study = Study.of(group_column="g", groups=list(map(str, range(20_000))))

    def listed(*_: object) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(Study, "slices", listed)
    with pytest.raises(ConfigError, match="products and a round takes"):
        study.batch()


def test_slices_are_counted_as_they_are_listed() -> None:
    asked = Study(protocol="padded", precision=None, grid=Grid.even(5), models=("a", "b"), metrics=("auc", "brier"))
    for study in (asked, msgspec.structs.replace(asked, classes=("x", "y", "z"))):
        for groups in ((), ("f", "m", "d")):
            grouped = msgspec.structs.replace(study, groups=groups, group_column="sex")
            assert grouped.number_of_slices() == len(grouped.slices(groups))
            assert len(grouped.batch().forms) == 3 * len(grouped.slices(groups))


def test_a_study_that_was_signed_and_not_accepted(trial: Trial, strict: RoundCall, caplog: Log) -> None:
    study = trial.study(precision=2e-3, minimum_cohort=4)
    trial.consortium.authority.sign_study(study)
    told = another(strict, study=study.hash())
    is_refused_at(trial, Stage.SETUP, told, "is not accepted here, or not ready", caplog)
    trial.accept(study)
    assert trial.vaults["birch"].handle(set_up(told)) != REFUSAL


def test_a_study_that_is_withdrawn(trial: Trial, strict: RoundCall, caplog: Log) -> None:
    (standing,) = trial.studies["birch"].all()
    assert trial.studies["birch"].withdraw(standing.acceptance.study.name)
    is_refused_at(trial, Stage.SETUP, another(strict), "is not accepted here, or not ready", caplog)
    assert not trial.studies["birch"].withdraw(standing.acceptance.study.name)


def test_a_study_of_a_smaller_cohort_than_a_newer_policy_asks_for(trial: Trial, caplog: Log) -> None:
    study = trial.study()
    told = trial.round(study, "birch").call
    trial.consortium.sign(STRICT)
    trial.start()
    is_refused_at(trial, Stage.SETUP, told, "would go on with 3 parties", caplog)


def test_the_last_day_of_a_study(trial: Trial, caplog: Log) -> None:
    study = trial.study(until=trial.clock.now.date())
    assert trial.play(study).confirmed == NAMES
    told = trial.round(study, "birch").call
    trial.clock.now += timedelta(days=1)
    is_refused_at(trial, Stage.SETUP, told, "The study ended on 2031-05-17", caplog)


def test_a_round_too_soon(trial: Trial, caplog: Log) -> None:
    study = trial.study(every=3600)
    keys = trial.play(study).keys
    trial.clock.now += timedelta(minutes=59)
    with pytest.raises(CohortTooSmall):
        trial.play(study, keys=keys)
    assert "had one at 12:00:00" in caplog.text
    trial.clock.now += timedelta(minutes=1)
    assert trial.play(study, keys=keys).confirmed == NAMES


def test_one_round_too_many(trial: Trial, caplog: Log) -> None:
    study = trial.study(rounds=1)
    trial.play(study)
    with pytest.raises(CohortTooSmall):
        trial.play(study)
    assert "has had its 1 rounds" in caplog.text


def test_the_policy_allows_what_is_not_broken(trial: Trial) -> None:
    trial.consortium.sign(STRICT)
    trial.start()
    report = trial.play(trial.study(precision=1e-3, minimum_cohort=4))
    assert report.confirmed == NAMES


def test_no_release_left(trial: Trial, caplog: Log) -> None:
    trial.consortium.sign(STRICT)
    trial.start()
    study = trial.study(precision=1e-3, minimum_cohort=4)
    trial.play(study)
    caplog.clear()
    with pytest.raises(CohortTooSmall):
        trial.play(study)
    assert "has had 1 releases; 1 are allowed" in caplog.text
    assert all(sum(each.verdict is not None for each in trial.ledgers[name].history()) == 1 for name in NAMES)


def test_releases_are_counted_across_restarts_and_for_new_data_as_well(trial: Trial, caplog: Log) -> None:
    """One byte that changes in the file makes no other data of it: the lineage is the same."""
    trial.consortium.sign(STRICT)
    trial.start()
    study = trial.study(precision=1e-3, minimum_cohort=4)
    trial.play(study)
    trial.start()
    with pytest.raises(CohortTooSmall):
        trial.play(study)
    for name in NAMES:
        with trial.data(name).open("a") as file:
            file.write("1,0.99\n")
    trial.prepare()
    with pytest.raises(CohortTooSmall):
        trial.play(study)


def test_several_numbers_in_one_round_are_several_releases(trial: Trial, caplog: Log) -> None:
    trial.consortium.sign(STRICT)
    trial.start()
    study = trial.study(grid=Grid.even(9), metrics=("auc", "accuracy@0.5"), precision=1e-3, minimum_cohort=4)
    with pytest.raises(CohortTooSmall):
        trial.play(study)
    assert "has had 1 releases" in caplog.text


def test_a_policy_that_has_expired(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    trial.clock.now += timedelta(days=366)
    name = a_party(round_)
    is_refused(trial, name, asked[name], "expired on", caplog)
