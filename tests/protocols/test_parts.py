"""A batch that is too large for one message of the leader goes in several: each is a stage, answered once."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from fheval import Table, wire
from fheval.errors import CapacityError, RemoteProtocolError
from fheval.evaluation import evaluate_study
from fheval.protocols import padded
from fheval.protocols.base import Stage
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval_lab.clear import ClearEngine
from protocols.rounds import PADDED, Cast, a_round, contributions_of, curve, exact, layout_of, play, pooled

COUNTS = [curve(40, 70), curve(0, 25), curve(9, 1)]


@pytest.fixture
def one_prime_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padded, "MOST_CIPHERTEXTS", 1)


@pytest.mark.usefixtures("one_prime_a_message")
@pytest.mark.parametrize("protocol", PADDED)
def test_the_parts_give_what_one_message_gives(protocol: str) -> None:
    round_ = a_round(protocol, 3, precision=None)
    layout = layout_of(round_)
    assert len(layout.parts) == len(layout.primes) > 1
    assert play(round_, contributions_of(round_, COUNTS)).ratio() == exact(pooled(COUNTS))


@pytest.mark.usefixtures("one_prime_a_message")
def test_the_leader_gives_all_parts_for_one_roster() -> None:
    """Pads of one roster for some primes and of another for the rest would open sums that nobody agreed to."""
    cast = Cast(a_round("padded", 4))
    aggregator = cast.aggregator()
    for party, own in contributions_of(cast.round, [*COUNTS, curve(3, 3)]).items():
        aggregator.receive(cast.upload(party, own))
    notice = aggregator.close()
    cast.answer(cast.round.leader, Stage.PADS, wire.encode(notice))
    fewer = structs.replace(notice, roster=notice.roster[:3], nonces=bytes(notice.nonces)[:48])
    with pytest.raises(RemoteProtocolError, match="not that of the pads that were given before"):
        cast.answer(cast.round.leader, Stage.PADS_2, wire.encode(fewer))
    cast.answer(cast.round.leader, Stage.PADS_2, wire.encode(notice))


def test_what_takes_more_messages_than_there_are_stages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Layouts that were not refused are remembered.
    monkeypatch.setattr(padded, "_laid_out", padded._laid_out.__wrapped__)
    monkeypatch.setattr(padded, "MOST_CIPHERTEXTS", 1)
    with pytest.raises(CapacityError, match="messages of the leader"):
        layout_of(a_round("padded", 3, precision=1e-90))
    monkeypatch.setattr(padded, "MOST_RESULTS", 3)
    with pytest.raises(CapacityError, match="ciphertexts of the result"):
        layout_of(a_round("padded", 3))
    monkeypatch.setattr(padded, "MOST_UPLOADED", 100)
    with pytest.raises(CapacityError, match="bytes of an upload"):
        layout_of(a_round("padded", 3))


def test_a_stage_knows_its_parts() -> None:
    assert Stage.PADS.parts[:3] == (Stage.PADS, Stage.PADS_2, Stage.PADS_3)
    assert [stage.part for stage in Stage.PADS.parts] == list(range(8))
    assert {stage.whole for stage in Stage.PADS.parts} == {Stage.PADS}
    assert Stage.RESULT.parts == (Stage.RESULT,)


def test_a_study_of_many_numbers_needs_several_messages() -> None:
    """Two models, two groups and 200 resamples, as the first example of docs/metrics.md has them."""
    study = Study.of(
        metrics=["auc", "f1@0.3", "log-loss"], models=["old", "new"], group_column="sex", groups=["F", "M"],
        interval=0.95, decision_points=100,
    )  # fmt: skip
    call = study.call(SystemRandomness(), engine="clear", parties=["a", "b", "c"], leader="a")
    assert len(padded.Layout.of(study.round(call)).parts) > 1


@pytest.mark.usefixtures("one_prime_a_message")
def test_pads_of_few_groups_come_in_as_many_messages_as_those_of_all() -> None:
    """The leader is asked as often as the study says, whatever it chose to give pads for."""
    study = Study.of(metrics=["auc"], group_column="g", groups=["a", "b", "c", "d"], decision_points=30)
    rng = np.random.default_rng(0)
    tables = [Table.of(rng.integers(0, 2, 60), rng.random(60), groups=["a"] * 30 + ["b"] * 30) for _ in range(3)]
    result = evaluate_study(study, tables, engine=ClearEngine())
    assert [row.group for row in result.results if row.value is not None] == [None, "g=a", "g=b"]
