"""Who gets which secrets of an epoch, and which rounds may run under them."""

from __future__ import annotations

from typing import Any

import pytest

from fheval.aggregator.conductor import Report, drive
from fheval.party.context import RoundContext
from fheval.party.messages import Submit, request
from fheval.protocols.base import Stage
from fheval.protocols.round import PartySecrets
from fheval.study import Study
from vault.requests import another, call_of, is_refused, of_another_study, opened
from vault.trial import NAMES, PADDED, PAPER, PicksTheFirst, Trial, Wire

Log = pytest.LogCaptureFixture


def play(trial: Trial, study: Study, wire: Wire | None = None, **options: Any) -> Report:
    """The first member leads, unless keys say otherwise."""
    return drive(trial.conduct(study, rng=PicksTheFirst(), **options), wire or Wire(trial))


def held(trial: Trial, report: Report) -> dict[str, PartySecrets]:
    """What each vault has after a round."""
    context = RoundContext.of(report.round, report.keys.epoch, trial.policy.roster(NAMES))
    return {name: trial.vaults[name]._steps._keyring.secrets(context, now=trial.clock.now) for name in NAMES}


@pytest.mark.parametrize("protocol", PADDED)
def test_the_leader_has_all_a_checker_the_keys_and_others_their_own_seeds(trial: Trial, protocol: str) -> None:
    wire = Wire(trial)
    found = held(trial, play(trial, trial.study(protocol, checkers=("cedar",)), wire))
    assert [name for name, each in found.items() if each.keys] == ["alder", "cedar"]
    assert [name for name, each in found.items() if each.master] == ["alder"]
    assert len({each.seed.reveal() for each in found.values()}) == 1
    assert len({each.pad_seed.reveal() for each in found.values()}) == len(NAMES)
    boxes = {name: bytes(opened(wire.request(Stage.SUBMIT, name), Submit).box) for name in NAMES}
    assert [name for name, box in boxes.items() if box] == ["alder", "cedar"]


@pytest.mark.parametrize("protocol", PAPER)
def test_in_the_papers_protocols_all_have_the_keys(trial: Trial, protocol: str) -> None:
    found = held(trial, play(trial, trial.study(protocol)))
    assert all(each.keys for each in found.values())


def test_who_made_the_keys_leads_as_long_as_they_are_used(trial: Trial) -> None:
    study = trial.study()
    first = drive(trial.conduct(study), Wire(trial))
    for _ in range(3):
        later = drive(trial.conduct(study, keys=first.keys), Wire(trial))
        assert later.keys.epoch == first.keys.epoch
        assert later.round.leader == first.round.leader


def test_a_lost_leader_means_a_new_epoch(trial: Trial) -> None:
    study = trial.study()
    first = play(trial, study)
    trial.begin_anew()
    trial.stop("alder")
    later = play(trial, study, keys=first.keys)
    assert later.keys.epoch != first.keys.epoch
    assert later.round.leader == later.keys.epoch.leader != "alder"
    assert "alder" not in later.roster


def test_other_checkers_mean_a_new_epoch(trial: Trial) -> None:
    first = play(trial, trial.study(checkers=("cedar",)))
    later = play(trial, trial.study(checkers=("maple",)), keys=first.keys)
    assert later.keys.epoch != first.keys.epoch
    assert len(later.attempts) == 1


def under_old_keys(
    trial: Trial, protocol: str = "padded", checkers: tuple[str, ...] = (), leader: str = "alder"
) -> bytes:
    """A submit for birch that asks for another round under the keys of an earlier one without checkers."""
    wire = Wire(trial)
    play(trial, trial.study(protocol), wire)
    earlier = opened(wire.request(Stage.SUBMIT, "birch"), Submit)
    same = call_of(wire.request(Stage.SUBMIT, "birch"))
    call = another(of_another_study(trial, same, checkers=checkers), leader=leader)
    asked = Submit(call=call, epoch=earlier.epoch, bundle=earlier.bundle, box=bytes(earlier.box))
    return request(Stage.SUBMIT, asked)


def test_no_vault_takes_keys_that_were_made_for_other_checkers(trial: Trial, caplog: Log) -> None:
    """A checker without keys could not check, and one that the study does not name would have them."""
    asked = under_old_keys(trial, checkers=("cedar",))
    is_refused(trial, "birch", asked, "made for another engine or other parameters", caplog)


@pytest.mark.parametrize("protocol", [*PADDED, *PAPER])
def test_no_vault_takes_keys_of_another_leader(trial: Trial, caplog: Log, protocol: str) -> None:
    asked = under_old_keys(trial, protocol, leader="cedar")
    is_refused(trial, "birch", asked, "who does not lead the round", caplog)
