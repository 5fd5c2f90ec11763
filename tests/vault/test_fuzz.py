"""Whatever an aggregator sends, a vault answers or refuses: it never fails in a way that would show."""

from __future__ import annotations

from typing import Any

import msgspec
from fheval.metrics.question import Question
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fheval.counting import Grid
from fheval.errors import ConfigError
from fheval.party.messages import REFUSAL, Reply, SetUp, request
from fheval.protocols.base import Stage
from fheval.secrets import SystemRandomness
from fheval.wire import HEADER, decode
from vault.requests import another, played_until
from vault.trial import ALL, NAMES, Trial

whole_test = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

integers = st.one_of(st.integers(-3, 12), st.integers(-(2**63), 2**63 - 1))
metrics = st.lists(st.sampled_from(["auc", "accuracy@0.5", "brier", "r2", "log-loss", "recall@1"]), min_size=1).map(
    tuple
)
questions = st.builds(
    lambda **fields: fields,
    metrics=metrics,
    replicates=st.sampled_from([0, 0, 4, 40, 1001]),
    confidence=st.sampled_from([None, 0.5, 0.95]),
    models=st.sampled_from([("",), ("", "old"), ("old",)]),
    classes=st.sampled_from([(), ("0", "1")]),
    targets=st.sampled_from([None, (0.0, 1.0), (-1e9, 1e9)]),
    curve=st.booleans(),
    by_cluster=st.booleans(),
)
fields: dict[str, st.SearchStrategy[Any]] = {
    "protocol": st.sampled_from([*ALL, "", "clear"]),
    "engine": st.sampled_from(["clear", "seal", ""]),
    "precision": st.one_of(st.none(), st.floats(0, 1), st.sampled_from([5e-324, 1e-300, 1 - 1e-16])),
    "minimum_cohort": integers,
    "max_samples": integers,
    "splits": integers,
    "runs": integers,
    "packing": st.sampled_from(["paper", "compact", ""]),
    "parties": st.permutations(NAMES).map(tuple),
    "sums": st.sampled_from([0, 0, 0, 7]),
}


@whole_test
@given(st.fixed_dictionaries({}, optional=fields), st.one_of(st.none(), questions), st.integers(2, 60))
def test_descriptions_of_rounds(trial: Trial, changes: dict[str, Any], asked: dict[str, Any] | None, n: int) -> None:
    plan = trial.plan()
    honest = plan.round(NAMES, "alder", SystemRandomness())
    try:
        question = Question(grid=Grid.even(n), **(asked or {}))
        bound = changes.get("max_samples", honest.max_samples)
        told = another(honest, **changes, question=question.to_bytes(), forms=question.forms(bound))
    except ConfigError:
        return
    reply = trial.vaults["alder"].handle(request(Stage.SETUP, SetUp(round=told)))
    assert reply == REFUSAL or decode(reply, Reply, sender="alder").stage is Stage.SETUP


@whole_test
@given(st.data())
def test_flipped_bytes(trial: Trial, data: st.DataObject) -> None:
    stage = data.draw(st.sampled_from([Stage.SETUP, Stage.SUBMIT, Stage.PADS, Stage.RESULT, Stage.BROADCAST]))
    _, round_, asked = played_until(trial, stage)
    name = round_.leader
    # Most of a request are keys or ciphertexts; what surrounds them is more interesting.
    honest = bytearray(asked[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.one_of(st.integers(0, min(600, len(honest) - 1)), st.integers(0, len(honest) - 1)))
        honest[place] = data.draw(st.integers(0, 255))
    reply = trial.vaults[name].handle(bytes(honest))
    assert reply == REFUSAL or decode(reply, Reply, sender=name).sender == name


@whole_test
@given(
    st.recursive(st.one_of(st.none(), st.integers(-(2**60), 2**60), st.text(), st.binary()), st.lists, max_leaves=20)
)
def test_nonsense_in_every_stage(trial: Trial, content: Any) -> None:
    for stage in Stage:
        body = HEADER + msgspec.msgpack.encode([stage.value, content])
        data = HEADER + msgspec.msgpack.encode(["Request", stage.value, body])
        assert trial.vaults["alder"].handle(data) == REFUSAL
