"""What may be released of a lineage is bounded in all: no change of the file and no other study makes it begin anew."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from fheval.errors import CohortTooSmall, TransportError
from fheval.party.accepted import Acceptance
from vault.trial import RULES, PicksTheFirst, Trial

Refused = (CohortTooSmall, TransportError)


@pytest.fixture
def three(trial: Trial) -> Trial:
    """A consortium whose policy allows three numbers of a lineage."""
    trial.consortium.sign(msgspec.structs.replace(RULES, releases_per_lineage=3))
    trial.start()
    return trial


def play(trial: Trial, **changes: object) -> None:
    trial.play(trial.study(**changes), rng=PicksTheFirst(), attempts=1)  # type: ignore[arg-type]


def test_one_byte_more_is_no_new_budget(three: Trial) -> None:
    for _ in range(3):
        play(three)
    with pytest.raises(Refused):
        play(three)
    for path in map(three.data, three.vaults):
        path.write_bytes(path.read_bytes() + b"\n")
    three.prepare()
    with pytest.raises(Refused):
        play(three)
    # Nor is a vault that was started again, or the study accepted anew, or another study.
    three.start()
    three.accept(three.study(), *three.vaults)
    with pytest.raises(Refused):
        play(three)
    with pytest.raises(Refused):
        play(three, precision=1e-3)
    assert three.ledgers["birch"].releases("of-birch") == 3


def test_it_would_be_if_budgets_belonged_to_bytes(three: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attack, with the operator's name for the data taken out of it."""
    monkeypatch.setattr(
        Acceptance, "lineage", property(lambda own: sha256(Path(own.data).read_bytes()).hexdigest()), raising=False
    )
    for _ in range(3):
        play(three)
    with pytest.raises(Refused):
        play(three)
    for path in map(three.data, three.vaults):
        path.write_bytes(path.read_bytes() + b"\n")
    three.prepare()
    play(three)


def test_an_operator_may_begin_anew(three: Trial) -> None:
    for _ in range(3):
        play(three)
    three.begin_anew()
    play(three)
    assert three.ledgers["birch"].releases("of-birch") == 1


def test_a_study_that_asks_for_more_than_is_left(three: Trial) -> None:
    play(three, metrics=("auc", "accuracy@0.5"))
    with pytest.raises(Refused):
        play(three, metrics=("auc", "accuracy@0.5"))
    play(three)
