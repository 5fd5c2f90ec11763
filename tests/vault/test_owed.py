"""Whoever was cut off gets what it is owed when it is back: the outcome, or its releases."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from fheval.aggregator import owed as owed_module
from fheval.aggregator.conductor import Report, drive
from fheval.aggregator.orders import deliver
from fheval.aggregator.owed import Owed, OwedFile
from fheval.aggregator.round_in_play import Exchange, RoundInPlay
from fheval.errors import ConfigError, FhevalError
from fheval.party.messages import REFUSAL
from fheval.party.sqlite_file import LEAST_ROOM
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Stage
from vault.trial import ALL, NAMES, PADDED, PicksTheFirst, Trial, Wire


def spent(trial: Trial, name: str) -> int:
    return trial.ledgers[name].releases(f"of-{name}")


def evaluated(trial: Trial, wire: Wire, file: OwedFile, protocol: str = "padded") -> Report | None:
    """One evaluation over this wire; what is owed afterwards goes into the file."""
    try:
        return drive(trial.conduct(trial.study(protocol), PicksTheFirst(), owed=file), wire)
    except FhevalError:
        return None


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

    report = drive(trial.conduct(trial.study(protocol), PicksTheFirst(), owed=file), carry)
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

    report = drive(trial.conduct(trial.study(), PicksTheFirst(), owed=file), carry)
    assert [each.void for each in report.attempts] == [False, False]
    assert [spent(trial, name) for name in NAMES[1:]] == [2] * 4
    trial.start("alder")
    deliver(file, NAMES, Wire(trial))
    # One release for the evaluation that gave a result, and none for the attempt that never will.
    assert [spent(trial, name) for name in NAMES] == [0, 1, 1, 1, 1]
    assert file.members() == set()


class Killed(BaseException):
    """The aggregator is killed."""


def killed_at(stage: Stage, trial: Trial, file: OwedFile, protocol: str) -> list[tuple[str, ...]]:
    """An evaluation whose aggregator is killed when it is about to ask for a stage: the rosters noted by then."""
    wire, noted = Wire(trial), list[tuple[str, ...]]()

    def carry(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is stage:
            raise Killed
        return wire(asked)

    with pytest.raises(Killed):
        drive(trial.conduct(trial.study(protocol), PicksTheFirst(), owed=file, opening=noted.append), carry)
    return noted


def unanswered(protocol: str) -> Stage:
    """The stage after the uploads."""
    return PROTOCOLS[protocol].steps[1].stage


@pytest.mark.parametrize("protocol", ALL)
def test_an_aggregator_that_was_killed_after_the_uploads_gives_releases_back(
    trial: Trial, file: OwedFile, protocol: str, folder: Path
) -> None:
    killed_at(unanswered(protocol), trial, file, protocol)
    again = OwedFile(folder / "owed")
    if PROTOCOLS[protocol].steps[-1].stage is unanswered(protocol):
        # Everybody opens the answer, which was kept.
        deliver(again, NAMES, Wire(trial))
        assert all(trial.last(name).verdict is not None for name in NAMES)
        return
    assert [spent(trial, name) for name in NAMES] == [1] * 5
    deliver(again, NAMES, Wire(trial))
    assert [spent(trial, name) for name in NAMES] == [0] * 5
    assert again.members() == set()


@pytest.mark.parametrize("protocol", ALL)
def test_a_roster_is_noted_before_its_outcome_goes_out_and_no_sooner(
    trial: Trial, file: OwedFile, protocol: str
) -> None:
    """Members that are told after the aggregator's end compare later rosters with this one: so must the aggregator."""
    last = PROTOCOLS[protocol].steps[-1].stage
    assert killed_at(last, trial, file, protocol) == [NAMES]
    trial.begin_anew()
    assert killed_at(Stage.SUBMIT, trial, file, protocol) == []


@pytest.mark.parametrize("protocol", PADDED)
def test_an_aggregator_that_was_killed_before_it_told_anybody_tells_them_later(
    trial: Trial, file: OwedFile, protocol: str, folder: Path
) -> None:
    killed_at(Stage.BROADCAST, trial, file, protocol)
    deliver(OwedFile(folder / "owed"), NAMES, Wire(trial))
    assert {trial.released(name) for name in NAMES} == {trial.released("alder")}
    assert [spent(trial, name) for name in NAMES] == [1] * 5


def test_without_a_file_before_the_uploads_a_killed_aggregator_costs_a_release(
    trial: Trial, file: OwedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RoundInPlay, "_keep_before", lambda _self, _exchange: None)
    killed_at(Stage.PADS, trial, file, "padded")
    deliver(file, NAMES, Wire(trial))
    assert [spent(trial, name) for name in NAMES] == [1] * 5


def test_nothing_is_left_of_a_round_that_all_have_confirmed(trial: Trial, file: OwedFile) -> None:
    evaluated(trial, Wire(trial), file)
    assert file.members() == set()


def test_a_leader_may_give_a_round_up_after_days(trial: Trial, file: OwedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(Stage.PADS, trial, file, "padded")
    trial.clock.now += timedelta(days=30)
    later = time.time() + 30 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    deliver(file, NAMES, Wire(trial))
    assert [spent(trial, name) for name in NAMES] == [0] * 5


def test_members_of_one_request_share_its_bytes_on_disk(file: OwedFile, folder: Path) -> None:
    body = bytes(100_000)
    file.keep(Owed(round="r", stage=Stage.RESULT, requests=dict.fromkeys(NAMES, body), since=time.time()))
    assert (folder / "owed").stat().st_size < 2 * len(body)
    ((_, _, requests),) = file.to(NAMES)
    assert requests == dict.fromkeys(NAMES, body)


def test_a_refusal_settles_nothing(trial: Trial, file: OwedFile) -> None:
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.BROADCAST and name == "maple")
    evaluated(trial, wire, file)
    deliver(file, NAMES, lambda asked: dict.fromkeys(asked.requests, REFUSAL))
    assert file.members() == {"maple"}


def test_a_member_without_room_for_it_hears_later_that_a_round_is_void(trial: Trial, file: OwedFile) -> None:
    """Found by a script: its refusal was taken for that of a member that had never uploaded."""
    wire = Wire(trial)

    def carry(asked: Exchange) -> dict[str, bytes]:
        refusing = {"alder"} if asked.stage is Stage.PADS else {"maple"} if asked.stage is Stage.VOIDED else set()
        others = {name: body for name, body in asked.requests.items() if name not in refusing}
        return wire(replace(asked, requests=others)) | dict.fromkeys(refusing, REFUSAL)

    with pytest.raises(FhevalError):
        drive(trial.conduct(trial.study(), PicksTheFirst(), owed=file, attempts=1), carry)
    assert ([spent(trial, name) for name in NAMES], file.members()) == ([0, 0, 0, 0, 1], {"maple"})
    deliver(file, NAMES, Wire(trial))
    assert ([spent(trial, name) for name in NAMES], file.members()) == ([0] * 5, set())


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


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("room", [0, LEAST_ROOM - 1])
def test_nobody_uploads_where_the_hub_has_no_room_for_what_it_would_owe(
    trial: Trial, file: OwedFile, folder: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if room:
        found, left = os.statvfs, SimpleNamespace(f_bavail=room, f_frsize=1)
        monkeypatch.setattr(os, "statvfs", lambda path: left if path == folder else found(path))
    else:
        monkeypatch.setattr(owed_module, "replace_private", full)
    with pytest.raises(ConfigError, match=r"The disk is full, and .*owed was not written"):
        drive(trial.conduct(trial.study(), PicksTheFirst(), owed=file), Wire(trial))
    assert [spent(trial, name) for name in NAMES] == [0] * 5
    assert file.members() == set()


@pytest.mark.parametrize("protocol", ALL)
def test_a_hub_whose_disk_fills_up_in_a_round_tells_everybody_all_the_same(
    trial: Trial, file: OwedFile, protocol: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = PROTOCOLS[protocol].steps[-1].stage
    wire = Wire(trial)

    def carry(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is Stage.SUBMIT:
            monkeypatch.setattr(owed_module, "replace_private", full)
        replies = wire(asked)
        return {name: reply for name, reply in replies.items() if (asked.stage, name) != (last, "maple")}

    report = drive(trial.conduct(trial.study(protocol), PicksTheFirst(), owed=file), carry)
    assert report.confirmed == NAMES[:-1]
    assert file.members() == {"maple"}
    monkeypatch.undo()
    deliver(file, NAMES, Wire(trial))
    assert OwedFile(folder / "owed").members() == set()
    assert [spent(trial, name) for name in NAMES] == [1] * 5


def test_a_file_that_cannot_be_read_is_no_empty_one(folder: Path) -> None:
    (folder / "owed").mkdir()
    with pytest.raises(ConfigError, match=r"owed cannot be used"):
        OwedFile(folder / "owed")


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
