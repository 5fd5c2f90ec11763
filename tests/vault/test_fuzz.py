"""Whatever an aggregator sends, a vault answers or refuses: it never fails in a way that would show."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fheval.party.messages import REFUSAL, Reply
from fheval.protocols.base import Stage
from fheval.wire import HEADER, decode
from vault.requests import another, played_until, set_up
from vault.trial import NAMES, Trial

whole_test = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

integers = st.one_of(st.integers(-3, 12), st.integers(-(2**63), 2**63 - 1))
fields: dict[str, st.SearchStrategy[Any]] = {
    "id": st.text(max_size=40),
    "leader": st.sampled_from([*NAMES, "", "oak"]),
    "engine": st.sampled_from(["clear", "seal", ""]),
    "parties": st.permutations(NAMES).map(tuple),
    "study": st.binary(max_size=40),
}


@settings(whole_test, max_examples=150)
@given(st.fixed_dictionaries({}, optional=fields))
def test_descriptions_of_rounds(trial: Trial, changes: dict[str, Any]) -> None:
    study = trial.study()
    told = another(trial.round(study, "alder").call, **changes)
    reply = trial.vaults["alder"].handle(set_up(told))
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
