"""Rounds that break the policy: each rule, asked at set-up and at submit; releases are counted, whatever happens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from fheval.metrics.question import Question

from fheval.consortium import Rules
from fheval.counting import Grid
from fheval.errors import CohortTooSmall
from fheval.metrics.forms import auc_form
from fheval.party.messages import Epoch, SetUp, Submit, request
from fheval.protocols.base import Stage
from fheval.secrets import SystemRandomness
from vault.requests import a_party, another, is_refused, played_until
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
    """The fields of a round over so many decision points, or another question."""
    question = Question(grid=Grid.even(points), **changes)
    return {"question": question.to_bytes(), "forms": question.forms(1 << 16)}


BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("is not allowed; these are", {"protocol": "paper-semi-honest", "precision": None}),
    ("'plain' is not allowed", {"protocol": "plain"}),
    ("the finest allowed is 0.001", {"precision": 1e-4}),
    ("the finest allowed is 0.001", {"precision": None}),
    ("51 decision points", asks_for(51)),
    ("would go on with 3 parties", {"minimum_cohort": 3}),
    ("asks for at least 4", {"parties": NAMES[:3], "leader": NAMES[0]}),
    ("'oak' is not a member", {"parties": (*NAMES, "oak")}),
    ("is not on the roster", {"parties": NAMES[1:], "leader": NAMES[1]}),
    ("hexadecimal digits", {"id": "../../etc/passwd"}),
    ("hexadecimal digits", {"id": ""}),
    ("not a question", {"question": b"noise"}),
    ("not a question", {"question": b""}),
    ("longer than any that makes sense", {"question": bytes(1 << 18)}),
    ("not in canonical form", {"question": Question(grid=Grid.even(9)).to_bytes().replace(b"\x09", b"\xcc\x09", 1)}),
    ("not those of its question", {"forms": (auc_form(7, 1 << 16),)}),
    ("not those of its question", {"max_samples": 1 << 20}),
    ("not those of its question", {"forms": (), "sums": 5}),
    ("releasing curves is not allowed", {"question": Question(grid=Grid.even(9), curve=True).to_bytes()}),
    ("which a vault does not answer about", asks_for(9, group_column="sex", groups=("f",))),
    ("which a vault does not answer about", asks_for(9, group_column="sex")),
    ("names the model 'b', and with --score-column this vault allows none", asks_for(9, models=("b",))),
    ("names the class '0', and with --class this vault allows none", asks_for(9, classes=("0", "1"))),
    ("this vault has no --cluster-column", asks_for(9, replicates=40, confidence=0.95, by_cluster=True)),
    ("1001 resamples; 1000 are allowed", asks_for(9, replicates=1001, confidence=0.95)),
    ("runs; between", {"runs": 10**9}),
    ("runs; between", {"runs": 0}),
    ("this vault has clear", {"engine": "openfhe"}),
]


@pytest.mark.parametrize(("reason", "changes"), BROKEN)
@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SUBMIT])
def test_a_round_that_breaks_the_policy(
    trial: Trial, caplog: Log, stage: Stage, reason: str, changes: dict[str, Any]
) -> None:
    trial.consortium.sign(STRICT)
    trial.start()
    plan = trial.plan(precision=1e-3, minimum_cohort=4)
    honest = plan.round(NAMES, "birch", SystemRandomness())
    told = another(honest, **changes)
    victim = told.leader if stage is Stage.SETUP else next(n for n in NAMES if n != told.leader)
    if "is not on the roster" in reason:
        victim = NAMES[0]
    data = request(Stage.SETUP, SetUp(round=told))
    if stage is Stage.SUBMIT:
        data = request(stage, Submit(round=told, epoch=Epoch(id=told.id, leader=told.leader), bundle=b"", box=b""))
    is_refused(trial, victim, data, reason, caplog)


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("would pass this round's verification", {"splits": 1} | asks_for(3)),
        ("number of splits must be at least 1", {"splits": 0}),
        ("Use --precision exact", {"precision": 1e-3}),
        ("needs 40000 slots", {"splits": 1000}),
    ],
)
def test_a_verification_that_would_be_worth_little(
    trial: Trial, caplog: Log, reason: str, changes: dict[str, Any]
) -> None:
    """The policy allows the protocol; what the aggregator makes of it is still not believed."""
    honest = trial.plan("paper-malicious").round(NAMES, "birch", SystemRandomness())
    is_refused(trial, "birch", request(Stage.SETUP, SetUp(round=another(honest, **changes))), reason, caplog)


def test_the_policy_allows_what_is_not_broken(trial: Trial) -> None:
    trial.consortium.sign(STRICT)
    trial.start()
    report = trial.play(trial.plan(precision=1e-3, minimum_cohort=4))
    assert report.confirmed == NAMES


def test_no_release_left(trial: Trial, caplog: Log) -> None:
    trial.consortium.sign(STRICT)
    trial.start()
    plan = trial.plan(precision=1e-3, minimum_cohort=4)
    trial.play(plan)
    caplog.clear()
    with pytest.raises(CohortTooSmall):
        trial.play(plan)
    assert "has had 1 releases; 1 are allowed" in caplog.text
    assert all(sum(each.verdict is not None for each in trial.ledgers[name].history()) == 1 for name in NAMES)


def test_releases_are_counted_across_restarts_and_for_new_data_anew(trial: Trial, caplog: Log) -> None:
    trial.consortium.sign(STRICT)
    trial.start()
    plan = trial.plan(precision=1e-3, minimum_cohort=4)
    trial.play(plan)
    trial.start()
    with pytest.raises(CohortTooSmall):
        trial.play(plan)
    for name in NAMES:
        with trial.data(name).open("a") as file:
            file.write("1,0.99\n")
    assert trial.play(plan).confirmed == NAMES


def test_several_numbers_in_one_round_are_several_releases(trial: Trial, caplog: Log) -> None:
    trial.consortium.sign(STRICT)
    trial.start()
    question = Question(grid=Grid.even(9), metrics=("auc", "accuracy@0.5"))
    with pytest.raises(CohortTooSmall):
        trial.play(trial.plan(precision=1e-3, minimum_cohort=4, question=question))
    assert "has had 1 releases" in caplog.text


def test_a_policy_that_has_expired(trial: Trial, caplog: Log) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    trial.clock.now += timedelta(days=366)
    name = a_party(round_)
    is_refused(trial, name, asked[name], "expired on", caplog)


def test_a_bound_below_this_partys_samples(trial: Trial, caplog: Log) -> None:
    with pytest.raises(CohortTooSmall):
        trial.play(trial.plan(max_samples=59))
    assert "more samples than the round's public bound" in caplog.text
