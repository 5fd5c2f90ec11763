"""Whoever was cut off gets what it is owed when it is back: the outcome, or its releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fheval.aggregator import owed as owed_module
from fheval.aggregator.conductor import Report, drive
from fheval.aggregator.orders import deliver
from fheval.aggregator.owed import Owed, OwedFile
from fheval.aggregator.round_in_play import Exchange
from fheval.errors import FhevalError
from fheval.party.messages import REFUSAL
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Stage
from vault.trial import ALL, NAMES, PicksTheFirst, Trial, Wire


def spent(trial: Trial, name: str) -> int:
    return trial.ledgers[name].releases(f"of-{name}")


def evaluated(trial: Trial, wire: Wire, file: OwedFile, protocol: str = "padded") -> Report | None:
    """One evaluation over this wire; what is owed afterwards goes into the file."""
    owed: list[Owed] = []
    try:
        return drive(trial.conduct(trial.study(protocol), PicksTheFirst(), owed=owed), wire)
    except FhevalError:
        return None
    finally:
        file.add(owed)


@pytest.fixture
def file(folder: Path) -> OwedFile:
    return OwedFile(folder / "owed")


@pytest.mark.parametrize("protocol", ALL)
@pytest.mark.parametrize("lost", ["request", "reply"])
def test_the_outcome_waits_for_whoever_was_cut_off(trial: Trial, file: OwedFile, protocol: str, lost: str) -> None:
    last = PROTOCOLS[protocol].steps[-1].stage
    wire = Wire(trial)

    def carry(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is not last:
            return wire(asked)
        cut = {name: body for name, body in asked.requests.items() if name != "maple"}
        answered = wire(replace(asked, requests=cut) if lost == "request" else asked)
        return {name: reply for name, reply in answered.items() if name != "maple"}

    owed: list[Owed] = []
    report = drive(trial.conduct(trial.study(protocol), PicksTheFirst(), owed=owed), carry)
    file.add(owed)
    assert report.confirmed == NAMES[:-1]
    assert file.members() == {"maple"}
    trial.start("maple")
    deliver(file, NAMES, Wire(trial))
    assert file.members() == set()
    assert trial.last("maple").verdict is not None
    assert trial.released("maple") == trial.released("alder")
    assert [spent(trial, name) for name in NAMES] == [1] * 5


def test_the_outcome_can_be_opened_after_other_rounds(trial: Trial, file: OwedFile) -> None:
    """The keys of a round that is open are kept, though those of other old rounds are not."""
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.BROADCAST and name == "maple")
    away = trial.vaults["maple"]
    wire.meddle = lambda asked, name, data: b"" if (asked.stage, name) == (Stage.BROADCAST, "maple") else data
    evaluated(trial, wire, file)
    assert away is trial.vaults["maple"]
    for _ in range(6):
        trial.play()
    assert trial.ledgers["maple"].history()[0].verdict is None
    lost = Wire(trial, lose=lambda _asked, _name: True)
    deliver(file, ["maple"], lost)
    assert trial.ledgers["maple"].history()[0].verdict is not None
    # The confirmation was lost, and comes again in the same bytes although the round is an old one.
    again = Wire(trial)
    deliver(file, ["maple"], again)
    assert again.replies[0] == lost.replies[0]
    assert file.members() == set()


def test_a_leader_that_was_silent_gives_releases_back_when_it_is_there_again(trial: Trial, file: OwedFile) -> None:
    wire = Wire(trial)

    def carry(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is Stage.PADS:
            trial.stop("alder")
        return wire(asked)

    owed: list[Owed] = []
    report = drive(trial.conduct(trial.study(), PicksTheFirst(), owed=owed), carry)
    file.add(owed)
    assert [each.void for each in report.attempts] == [False, False]
    assert [spent(trial, name) for name in NAMES[1:]] == [2] * 4
    trial.start("alder")
    deliver(file, NAMES, Wire(trial))
    # One release for the evaluation that gave a result, and none for the attempt that never will.
    assert [spent(trial, name) for name in NAMES] == [0, 1, 1, 1, 1]
    assert file.members() == set()


def test_a_refusal_settles_nothing(trial: Trial, file: OwedFile) -> None:
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.BROADCAST and name == "maple")
    evaluated(trial, wire, file)
    deliver(file, NAMES, lambda asked: dict.fromkeys(asked.requests, REFUSAL))
    assert file.members() == {"maple"}


def test_what_is_owed_is_not_kept_for_ever(trial: Trial, file: OwedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.BROADCAST and name == "maple")
    evaluated(trial, wire, file)
    assert file.members() == {"maple"}
    monkeypatch.setattr(owed_module, "_KEPT_SECONDS", -1.0)
    deliver(file, NAMES, lambda asked: dict.fromkeys(asked.requests, REFUSAL))
    assert file.members() == set()


def test_a_damaged_file_is_an_empty_one(file: OwedFile, folder: Path) -> None:
    (folder / "owed").write_bytes(b"\xc1 nothing")
    assert file.members() == set()


def test_nobody_uploads_where_too_few_are_there(trial: Trial, file: OwedFile) -> None:
    trial.stop(*NAMES[2:])
    assert evaluated(trial, Wire(trial), file) is None
    assert [spent(trial, name) for name in NAMES[:2]] == [0, 0]
    assert file.members() == set()


def test_only_an_answer_without_which_all_was_in_vain_is_worth_a_long_wait(trial: Trial) -> None:
    for protocol in ALL:
        needed: dict[Stage, bool] = {}
        wire = Wire(trial)

        def carry(asked: Exchange, wire: Wire = wire, needed: dict[Stage, bool] = needed) -> dict[str, bytes]:
            needed[asked.stage] = asked.needed
            return wire(asked)

        drive(trial.conduct(trial.study(protocol)), carry)
        last = PROTOCOLS[protocol].steps[-1].stage
        before = {Stage.SETUP, Stage.HELLO, Stage.SUBMIT, last}
        assert {stage for stage in needed if needed[stage]} == needed.keys() - before
