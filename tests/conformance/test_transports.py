"""One suite for every transport: the same exchanges, the same conductor, the same rounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.carriers import CARRIERS, NAMES, Carrier
from fheval.aggregator.conductor import Report, drive
from fheval.aggregator.round_in_play import Exchange, Replies
from fheval.protocols.base import Stage
from vault.trial import Trial, make_consortium, running

# Long enough for a busy machine to answer, short enough to wait for who is away.
SECONDS = 4.0


@pytest.fixture(params=sorted(CARRIERS))
def carrier(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Carrier]:
    """Every transport, one after the other, with no vault up."""
    if request.param == "flower":
        pytest.importorskip("flwr", reason="Flower is not installed here")
        from flwr.supercore.task_identity import TaskIdentity

        for number in ("_run_id", "_node_id", "_task_id"):
            monkeypatch.setattr(TaskIdentity, number, 1)
    (tmp_path / "transport").mkdir()
    with CARRIERS[request.param](tmp_path / "transport", SECONDS) as made:
        yield made


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    """Five vaults with data, on no transport yet."""
    (tmp_path / "trial").mkdir(mode=0o700)
    with running(tmp_path / "trial", make_consortium(tmp_path / "trial")) as made:
        yield made


def echo(carrier: Carrier, *names: str) -> None:
    for name in names:
        carrier.start(name, lambda data, name=name: name.encode() + data)  # type: ignore[misc]


def asked(body: bytes = b"hello", names: tuple[str, ...] = NAMES) -> Exchange:
    return Exchange(stage=Stage.HELLO, round="0123456789abcdef", requests=dict.fromkeys(names, body))


@pytest.mark.parametrize("body", [b"", b"\x00\xff", bytes(range(256)) * 16_384], ids=["empty", "two", "4 MiB"])
def test_bytes_arrive_as_they_were_sent_under_the_names_of_their_senders(carrier: Carrier, body: bytes) -> None:
    echo(carrier, *NAMES)
    assert carrier(asked(body)) == {name: name.encode() + body for name in NAMES}


def test_only_who_is_asked_answers(carrier: Carrier) -> None:
    echo(carrier, *NAMES)
    assert sorted(carrier(asked(names=NAMES[1:3]))) == sorted(NAMES[1:3])


def test_who_is_down_is_missing_and_holds_nobody_up_for_longer_than_was_said(carrier: Carrier) -> None:
    echo(carrier, *NAMES[:3])
    began = time.monotonic()
    assert sorted(carrier(asked())) == sorted(NAMES[:3])
    assert time.monotonic() - began < 5 * SECONDS


def test_who_comes_back_answers_the_next_exchange(carrier: Carrier) -> None:
    echo(carrier, *NAMES)
    carrier.stop("birch")
    assert "birch" not in carrier(asked())
    echo(carrier, "birch")
    assert "birch" in carrier(asked())


def test_a_name_that_nobody_has_is_nobody(carrier: Carrier) -> None:
    echo(carrier, *NAMES)
    assert sorted(carrier(asked(names=("alder", "stranger")))) == ["alder"]


# Whole rounds


def play(carrier: Carrier, trial: Trial, protocol: str, seen: list[str] | None = None) -> Report:
    def carry(exchange: Exchange) -> Replies:
        if seen is not None:
            seen.append(exchange.stage.value)
        return carrier(exchange)

    return drive(trial.conduct(trial.study(protocol)), carry)


@pytest.fixture
def joined(carrier: Carrier, trial: Trial) -> Carrier:
    """The trial's vaults, behind the transport."""
    for name, vault in trial.vaults.items():
        carrier.start(name, vault.handle)
    return carrier


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_a_round_gives_everybody_the_pooled_auc(joined: Carrier, trial: Trial, protocol: str) -> None:
    seen: list[str] = []
    report = play(joined, trial, protocol, seen)
    assert report.confirmed == NAMES
    for name in NAMES:
        assert trial.released(name) == pytest.approx(trial.pooled(), abs=1e-3)
    assert seen[0] == "setup"
    assert seen[-4:] == ["submit", "pads", "result", "broadcast"]


def test_a_round_goes_on_without_who_is_away(joined: Carrier, trial: Trial) -> None:
    joined.stop("maple")
    report = play(joined, trial, "padded")
    assert report.roster == NAMES[:-1]
    assert trial.released("alder") == pytest.approx(trial.pooled(NAMES[:-1]), abs=1e-3)


def test_a_leader_that_vanishes_is_replaced(joined: Carrier, trial: Trial) -> None:
    """It makes the keys, and is gone before anybody has uploaded."""
    gone: list[str] = []

    def carry(exchange: Exchange) -> Replies:
        replies = joined(exchange)
        if exchange.stage is Stage.SETUP and not gone:
            (leader,) = exchange.requests
            gone.append(leader)
            joined.stop(leader)
        return replies

    report = drive(trial.conduct(trial.study("padded")), carry)
    assert gone[0] not in report.roster
    assert len(report.attempts) == 2


def test_a_request_that_is_sent_twice_gets_the_same_answer(joined: Carrier, trial: Trial) -> None:
    """Whatever repeats a message on its way changes nothing: the round is as good as any."""
    differing: list[str] = []

    def carry(exchange: Exchange) -> Replies:
        first, second = joined(exchange), joined(exchange)
        if exchange.stage is not Stage.HELLO:
            differing.extend(name for name in first if first[name] != second[name])
        return second

    report = drive(trial.conduct(trial.study("padded-verified")), carry)
    assert differing == []
    assert report.confirmed == NAMES
