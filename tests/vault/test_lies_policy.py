"""Rounds that break the policy: each rule, asked at set-up and at submit; releases are counted, whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

import msgspec
import pytest

from fheval.consortium import Rules
from fheval.counting import Grid
from fheval.errors import CohortTooSmall
from fheval.party.messages import REFUSAL, Epoch, Opening, Submit, request
from fheval.protocols.base import Stage
from fheval.study import Study
from vault.requests import a_party, another, first_words, is_refused, of_study, played_until, set_up
from vault.trial import NAMES, Trial

Log = pytest.LogCaptureFixture

STRICT = Rules(
    minimum_cohort=4,
    protocols=("padded", "padded-verified", "paper-malicious"),
    finest_precision=1e-3,
    most_decision_points=50,
    releases_per_data_set=1,
)


def asks_for(points: int, **changes: Any) -> dict[str, Any]:
    """The fields of a study over so many decision points, or of another one."""
    return {"grid": Grid.even(points)} | changes


BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("is not allowed; these are", {"protocol": "paper-semi-honest", "precision": None}),
    ("There is no protocol 'plain'", {"protocol": "plain"}),
    ("the finest allowed is 0.001", {"precision": 1e-4}),
    ("the finest allowed is 0.001", {"precision": None}),
    ("51 decision points", asks_for(51)),
    ("would go on with 3 parties", {"minimum_cohort": 3}),
    ("asks for at least 4", {"parties": NAMES[:3], "leader": NAMES[0]}),
    ("'oak' is not a member", {"parties": (*NAMES, "oak")}),
    ("is not on the roster", {"parties": NAMES[1:], "leader": NAMES[1]}),
    ("is not a party of the round", {"leader": "oak"}),
    ("A party is named twice", {"parties": (*NAMES, NAMES[0])}),
    ("hexadecimal digits", {"id": "../../etc/passwd"}),
    ("hexadecimal digits", {"id": ""}),
    ("of another study", {"study": bytes(32)}),
    ("of another study", {"study": b""}),
    ("max_samples must be between", {"max_samples": 0}),
    ("makes no sense", {"precision": 1.5}),
    ("releasing curves is not allowed", asks_for(9, release="curve")),
    ("which a vault does not answer about", asks_for(9, group_column="sex", groups=("f",))),
    ("which a vault does not answer about", asks_for(9, groups=("f",))),
    ("which a vault does not answer about", asks_for(9, group_column="sex")),
    ("names the model 'b', and with --score-column this vault allows none", asks_for(9, models=("b",))),
    ("names the class '0', and with --class this vault allows none", asks_for(9, classes=("0", "1"))),
    ("this vault has no --cluster-column", asks_for(9, replicates=40, interval=0.95, by_cluster=True)),
    ("1001 resamples; 1000 are allowed", asks_for(9, replicates=1001, interval=0.95)),
    ("Use a number from 1 to 8", {"protocol": "padded-verified", "options": [("runs", 10**9)]}),
    ("Use a number from 1 to 8", {"protocol": "padded-verified", "options": [("runs", 0)]}),
    ("padded has no runs", {"options": [("runs", 2)]}),
    ("this vault has clear", {"engine": "openfhe"}),
]


def is_refused_at(trial: Trial, stage: Stage, told: Opening, reason: str, caplog: Log, victim: str = "") -> None:
    """Asked to make keys as a leader, or to submit as a party, a vault has no part in such a round."""
    leader = told.call.leader
    data = set_up(told)
    if stage is Stage.SUBMIT:
        epoch = Epoch(id=told.call.id, leader=leader)
        data = request(stage, Submit(opening=told, epoch=epoch, bundle=b"", box=b""))
    leads = leader if leader in NAMES else "birch"
    is_refused(
        trial,
        victim or (leads if stage is Stage.SETUP else next(name for name in NAMES if name != leader)),
        data,
        reason,
        caplog,
    )


@pytest.fixture
def strict(trial: Trial) -> Opening:
    """Vaults under strict rules, and a round that follows them."""
    trial.consortium.sign(STRICT)
    trial.start()
    study = trial.study(precision=1e-3, minimum_cohort=4)
    return first_words(study, trial.round(study, "birch"))


@pytest.mark.parametrize(("reason", "changes"), BROKEN)
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT])
def test_a_round_that_breaks_the_policy(
    trial: Trial, strict: Opening, caplog: Log, stage: Stage, reason: str, changes: dict[str, Any]
) -> None:
    victim = NAMES[0] if "is not on the roster" in reason else ""
    is_refused_at(trial, stage, another(strict, **changes), reason, caplog, victim)


NO_STUDIES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("are not a message", lambda _: b"noise"),
    ("are not a message", lambda _: b""),
    ("exceeds the limit", lambda _: bytes(1 << 18)),
    ("malformed Study", lambda honest: honest[:-1]),
    ("malformed Study", lambda honest: honest + b"\0"),
    # MessagePack has two forms for a number of 40 points; the long one reads as an equal study.
    ("not in canonical form", lambda honest: honest.replace(b"even\x28", b"even\xcc\x28")),
    # An empty list has two forms as well.
    ("not in canonical form", lambda honest: honest.replace(b"padded\x90", b"padded\xdc\x00\x00")),
]


@pytest.mark.parametrize(("reason", "change"), NO_STUDIES)
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT])
def test_bytes_that_are_no_study(
    trial: Trial, strict: Opening, caplog: Log, stage: Stage, reason: str, change: Callable[[bytes], bytes]
) -> None:
    """Even where the call names these very bytes."""
    study = change(strict.study)
    assert study != strict.study
    is_refused_at(trial, stage, of_study(another(strict), study), reason, caplog)


MANY = tuple(map(str, range(400)))


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("The batch has 1,600,000 products", asks_for(5, models=MANY, classes=MANY)),
        ("The batch has 3,990,010 products", asks_for(5, groups=tuple(map(str, range(399_000))))),
        ("has room for 1048576 counts", asks_for(5, models=MANY, classes=MANY, release="curve")),
    ],
)
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT])
def test_lists_whose_product_would_fill_the_memory(
    trial: Trial,
    strict: Opening,
    caplog: Log,
    monkeypatch: pytest.MonkeyPatch,
    stage: Stage,
    reason: str,
    changes: dict[str, Any],
) -> None:
    """A description of a hundred kilobytes could ask for billions of numbers: they are counted before any is listed."""
    told = another(strict, **changes)

    def listed(*_: object) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(Study, "slices", listed)
    is_refused_at(trial, stage, told, reason, caplog)


def test_slices_are_counted_as_they_are_listed() -> None:
    asked = Study(protocol="padded", precision=None, grid=Grid.even(5), models=("a", "b"), metrics=("auc", "brier"))
    for study in (asked, msgspec.structs.replace(asked, classes=("x", "y", "z"))):
        for groups in ((), ("f", "m", "d")):
            assert study.number_of_slices(groups) == len(study.slices(groups))
            assert len(study.batch(groups).forms) == 3 * len(study.slices(groups))


@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT])
def test_a_call_that_names_another_study(trial: Trial, strict: Opening, caplog: Log, stage: Stage) -> None:
    """Each of the two is allowed by itself."""
    coarser = another(strict, precision=2e-3)
    mixed = of_study(another(strict), coarser.study, study=strict.call.study)
    is_refused_at(trial, stage, mixed, "of another study", caplog)
    assert trial.vaults["birch"].handle(set_up(coarser)) != REFUSAL


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("would pass this round's verification", asks_for(3, options=[("splits", 1)])),
        ("splits is 0. Use a number from 1", {"options": [("splits", 0)]}),
        ("Use --precision exact", {"precision": 1e-3}),
        ("needs 40000 slots", {"options": [("splits", 1000)]}),
    ],
)
def test_a_verification_that_would_be_worth_little(
    trial: Trial, caplog: Log, reason: str, changes: dict[str, Any]
) -> None:
    """The policy allows the protocol; what the aggregator makes of it is still not believed."""
    study = trial.study("paper-malicious")
    honest = first_words(study, trial.round(study, "birch"))
    is_refused(trial, "birch", set_up(another(honest, **changes)), reason, caplog)


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


def test_releases_are_counted_across_restarts_and_for_new_data_anew(trial: Trial, caplog: Log) -> None:
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
    assert trial.play(study).confirmed == NAMES


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


def test_a_bound_below_this_partys_samples(trial: Trial, caplog: Log) -> None:
    with pytest.raises(CohortTooSmall):
        trial.play(trial.study(max_samples=59))
    assert "more rows than the study allows" in caplog.text
