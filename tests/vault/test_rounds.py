"""Whole rounds among vaults: all protocols, dropouts, leaders that die, keys that are used again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import certificates
from fheval.counting import Grid
from fheval.errors import CohortTooSmall, RemoteProtocolError, TransportError
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Stage
from fheval.protocols.round import Ending
from vault.requests import changed
from vault.trial import ALL, NAMES, PADDED, PAPER, PicksTheFirst, Trial, Wire


@pytest.mark.parametrize("protocol", ALL)
def test_every_member_holds_the_pooled_auc(trial: Trial, protocol: str) -> None:
    study = trial.study(protocol)
    report = trial.play(study)
    assert report.roster == report.confirmed == NAMES
    assert not report.dropped
    for name in NAMES:
        assert trial.released(name) == pytest.approx(trial.pooled(), abs=study.precision or 1e-6)
        verdict = trial.last(name).verdict
        assert verdict is not None
        assert verdict.roster == NAMES
        assert verdict.verified == (True if protocol in ("padded-verified", "paper-malicious") else None)


@pytest.mark.parametrize(("protocol", "exchanges"), [(p, 5) for p in PADDED] + [(p, 3) for p in PAPER])
def test_exchanges_after_the_set_up(trial: Trial, protocol: str, exchanges: int) -> None:
    wire = Wire(trial)
    drive(trial.conduct(trial.study(protocol)), wire)
    asked = list(dict.fromkeys(stage for stage, _, _ in wire.requests))
    assert asked[:2] == [Stage.SETUP, Stage.HELLO]
    assert len(asked) == 1 + exchanges


def test_several_metrics_with_intervals_in_one_round(trial: Trial) -> None:
    metrics = ("auc", "accuracy@0.5", "brier")
    trial.play(trial.study(grid=Grid.even(11), metrics=metrics, replicates=5, interval=0.5))
    assert [row.metric for row in trial.rows("birch")] == [*metrics]
    assert all(row.low is not None for row in trial.rows("birch"))
    use = trial.last("birch").use
    assert use is not None
    assert use.releases == 3


@pytest.mark.parametrize("protocol", [*PADDED, "paper-semi-honest"])
def test_a_member_that_is_away_costs_nothing(trial: Trial, protocol: str) -> None:
    trial.stop("hazel")
    report = trial.play(trial.study(protocol), rng=PicksTheFirst())
    assert len(report.attempts) == 1
    rest = tuple(name for name in NAMES if name != "hazel")
    assert report.roster == rest
    assert report.dropped == ("hazel",)
    assert trial.released("maple") == pytest.approx(trial.pooled(rest), abs=1e-4)


def test_paper_malicious_starts_again_without_the_member_that_is_away(trial: Trial) -> None:
    trial.stop("hazel")
    report = trial.play(trial.study("paper-malicious"))
    assert report.round.parties == tuple(name for name in NAMES if name != "hazel")
    assert len({attempt.round for attempt in report.attempts}) == len(report.attempts) == 2


def test_too_few_members(trial: Trial) -> None:
    trial.stop("alder", "birch", "cedar")
    with pytest.raises(CohortTooSmall):
        trial.play(attempts=9)
    for name in ("hazel", "maple"):
        assert all(each.verdict is None for each in trial.ledgers[name].history())


@pytest.mark.parametrize("dies_before", [Stage.SETUP, Stage.SUBMIT, Stage.PADS, Stage.RESULT])
def test_a_dead_leader_is_replaced_in_a_new_round(trial: Trial, dies_before: Stage) -> None:
    wire = Wire(trial)
    leaders: list[str] = []

    def exchange(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is Stage.SETUP:
            leaders.extend(asked.requests)
        if asked.stage is dies_before and len(leaders) == 1:
            trial.stop(leaders[0])
        return wire(asked)

    report = drive(trial.conduct(trial.study()), exchange)
    assert [attempt.leader for attempt in report.attempts] == leaders
    assert len(set(leaders)) == len({attempt.round for attempt in report.attempts}) == 2
    rest = tuple(name for name in NAMES if name != leaders[0])
    assert report.roster == report.confirmed == rest
    for name in rest:
        assert trial.released(name) == pytest.approx(trial.pooled(rest), abs=1e-4)
        assert sum(each.verdict is not None for each in trial.ledgers[name].history()) == 1


def test_a_leader_whose_reply_to_the_result_is_lost_is_asked_again(trial: Trial) -> None:
    lost: list[str] = []

    def lose(asked: Exchange, name: str) -> bool:
        if asked.stage is Stage.RESULT and not lost:
            lost.append(name)
            return True
        return False

    wire = Wire(trial, lose=lose)
    report = drive(trial.conduct(trial.study()), wire)
    assert len(report.attempts) == 1
    first, second = (data for stage, _, data in wire.replies if stage is Stage.RESULT)
    assert first == second
    assert all(len(trial.ledgers[name].history()) == 1 for name in NAMES)


def test_no_round_without_an_end(trial: Trial) -> None:
    with pytest.raises(TransportError, match="3 attempts"):
        drive(trial.conduct(trial.study()), lambda asked: dict.fromkeys(asked.requests, b"noise"))


# Keys that are used again


@pytest.mark.parametrize("protocol", ALL)
def test_a_second_round_under_the_same_keys(trial: Trial, protocol: str) -> None:
    study = trial.study(protocol)
    first = trial.play(study)
    wire = Wire(trial)
    second = drive(trial.conduct(study, keys=first.keys), wire)
    assert second.round.id != first.round.id
    assert second.keys.epoch == first.keys.epoch
    assert Stage.SETUP not in {stage for stage, _, _ in wire.requests}
    assert trial.released("cedar") == pytest.approx(trial.pooled(), abs=study.precision or 1e-6)


def test_uploads_under_the_same_keys_have_fresh_pads(trial: Trial) -> None:
    first, second = Wire(trial), Wire(trial)
    keys = drive(trial.conduct(trial.study()), first).keys
    drive(trial.conduct(trial.study(), keys=keys), second)
    assert first.reply(Stage.SUBMIT, "maple")[-2000:-100] != second.reply(Stage.SUBMIT, "maple")[-2000:-100]


def test_keys_of_other_parameters_are_not_used_again(trial: Trial) -> None:
    keys = trial.play(trial.study("padded")).keys
    report = trial.play(trial.study("paper-semi-honest"), keys=keys)
    assert report.keys.epoch != keys.epoch
    assert len(report.attempts) == 1


def test_keys_that_have_expired_are_replaced(trial: Trial) -> None:
    keys = trial.play().keys
    trial.clock.now += timedelta(days=1, minutes=1)
    report = trial.play(keys=keys)
    assert len(report.attempts) == 2
    assert report.roster == NAMES
    assert report.keys.epoch != keys.epoch


def test_a_member_that_missed_the_first_round_of_an_epoch_joins_the_second(trial: Trial) -> None:
    trial.stop("maple")
    first = trial.play(rng=PicksTheFirst())
    assert first.dropped == ("maple",)
    trial.begin_anew()
    trial.start("maple")
    second = trial.play(keys=first.keys)
    assert second.keys.epoch == first.keys.epoch
    assert second.roster == NAMES


# Answers that do not stand up


def adds_one_upload_twice(monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    """Let the aggregator deviate."""
    aggregator: Any = PROTOCOLS[protocol].aggregator
    honest = aggregator.receive

    def receive(self: Any, upload: Any) -> None:
        honest(self, upload)
        if len(self.roster) == 1 and protocol == "padded-verified":
            self.uploads.add(upload.values, upload.sender)
        elif len(self.roster) == 1:
            self.sums[0].add(self.sums[0].load(upload.runs[0]))

    monkeypatch.setattr(aggregator, "receive", receive)


def sizes(wire: Wire) -> list[tuple[Stage, int]]:
    """What an aggregator sees of the vaults' last replies."""
    return sorted((stage, len(data)) for stage, _, data in wire.replies if stage in (Stage.RESULT, Stage.BROADCAST))


@pytest.mark.parametrize("protocol", ["padded-verified", "paper-malicious"])
def test_a_wrong_answer_is_refused_by_all_and_the_aggregator_sees_no_difference(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    honest, lying = Wire(trial), Wire(trial)
    drive(trial.conduct(trial.study(protocol)), honest)
    adds_one_upload_twice(monkeypatch, protocol)
    report = drive(trial.conduct(trial.study(protocol)), lying)
    assert report.confirmed == NAMES
    for name in NAMES:
        verdict = trial.last(name).verdict
        assert verdict is not None
        assert verdict.ending is Ending.REFUSED
        assert not verdict.ratios
    assert sizes(lying) == sizes(honest)


def test_what_was_refused_counts_as_a_release(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the aggregator could tell, by how many rounds are still answered, which of its answers were accepted."""
    trial.play(trial.study("padded-verified"))
    assert trial.ledgers["hazel"].releases("of-hazel") == 1
    adds_one_upload_twice(monkeypatch, "padded-verified")
    trial.play(trial.study("padded-verified"))
    assert trial.ledgers["hazel"].releases("of-hazel") == 2


@pytest.mark.parametrize("protocol", ALL)
def test_one_class_only_is_undefined_and_looks_like_a_result(trial: Trial, protocol: str) -> None:
    defined, undefined = Wire(trial), Wire(trial)
    drive(trial.conduct(trial.study(protocol)), defined)
    for name in NAMES:
        trial.data(name).write_text("label,score\n1,0.5\n1,0.7\n")
    trial.prepare()
    drive(trial.conduct(trial.study(protocol)), undefined)
    for name in NAMES:
        verdict = trial.last(name).verdict
        assert verdict is not None
        assert verdict.ending is Ending.UNDEFINED
    assert sizes(undefined) == sizes(defined)


def test_an_answer_that_is_no_ciphertext_gets_a_verdict_all_the_same(trial: Trial) -> None:
    def meddle(asked: Exchange, _: str, data: bytes) -> bytes:
        return changed(data, body=b"noise") if asked.stage is Stage.RESULT else data

    report = drive(trial.conduct(trial.study()), Wire(trial, meddle=meddle))
    assert report.confirmed == NAMES
    verdict = trial.last("maple").verdict
    assert verdict is not None
    assert verdict.ending is Ending.REFUSED


def test_certificates_are_checked_once_for_each_kit(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their issuer, use and keys; their dates are looked at in every request."""
    trial.play()
    again = trial.conduct(trial.study())
    checked: list[str] = []
    monkeypatch.setattr(certificates, "check_member_use", lambda _certificate, name: checked.append(name))
    # The vault of one member is started anew: it checks its own certificate, and those of the policy.
    trial.start("alder")
    drive(again, Wire(trial))
    assert sorted(checked) == sorted(["alder", *NAMES])
    kit = trial.consortium.kit("alder")
    for later in (0, 1):
        kit.identity.anchor.check_member(kit.policy.members[0], now=trial.clock.now + timedelta(days=later))
    with pytest.raises(RemoteProtocolError, match="expired"):
        kit.identity.anchor.check_member(kit.policy.members[0], now=trial.clock.now + timedelta(days=3650))
