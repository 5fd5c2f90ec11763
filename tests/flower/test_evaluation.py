"""`evaluate` believes a round when the ServerApp and Flower both say that it went well, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fheval.aggregator.orders import Failure, OrderEnd
from fheval.errors import CohortTooSmall, ConfigError, TransportError
from fheval.flower import evaluation
from fheval.flower.control import RunStatus
from fheval.flower.evaluation import APP, evaluate
from fheval.flower.orders import read_order, write_end
from fheval.flower.state import Running, State
from flower.samples import ORDER, SUMMARY

DONE = OrderEnd(summary=SUMMARY)
FAILED = OrderEnd(failure=Failure.of(CohortTooSmall("Only 2 members answered.")))


@dataclass
class FakeControl:
    """Stands where the `flwr` command stands. `play` is called with the order's name when a run is started."""

    state: State
    play: Callable[[str], None] = lambda _: None
    statuses: list[str] = field(default_factory=lambda: ["finished:completed"])
    started: list[str] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)

    def start(self, app: Path, settings: Mapping[str, str]) -> int:
        assert app == APP
        assert read_order(self.state, settings["order"]) == ORDER
        self.started.append(settings["order"])
        self.play(settings["order"])
        return 5

    def status(self, run: int) -> RunStatus:
        assert run == 5
        return RunStatus(self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0])

    def stop(self, run: int) -> None:
        self.stopped.append(run)

    def close(self) -> None:
        pass


@pytest.fixture
def state(tmp_path: Path) -> State:
    made = State.at(tmp_path / "state")
    made.write_running(Running(pid=os.getpid(), port=4321, kit="/kits/hub"))
    return made


@pytest.fixture
def control(state: State, monkeypatch: pytest.MonkeyPatch) -> FakeControl:
    made = FakeControl(state)
    monkeypatch.setattr(evaluation, "Control", lambda *_: made)
    monkeypatch.setattr(evaluation, "_LOOK_EVERY", 0.01)
    return made


def leaves(control: FakeControl, outcome: OrderEnd) -> None:
    control.play = lambda name: write_end(control.state, name, outcome)


def nothing_left(state: State) -> bool:
    return list((state.directory / "rounds").iterdir()) == []


def test_a_round_that_went_well(state: State, control: FakeControl) -> None:
    leaves(control, DONE)
    control.statuses = ["running", "finished:completed"]
    assert evaluate(state, ORDER) == SUMMARY
    assert control.stopped == []
    assert nothing_left(state)


def test_a_failure_is_the_one_that_the_app_met(state: State, control: FakeControl) -> None:
    leaves(control, FAILED)
    control.statuses = ["finished:failed"]
    with pytest.raises(CohortTooSmall, match="Only 2 members answered"):
        evaluate(state, ORDER)
    assert nothing_left(state)


def test_an_outcome_is_not_believed_when_the_run_failed(state: State, control: FakeControl) -> None:
    leaves(control, DONE)
    control.statuses = ["finished:failed"]
    with pytest.raises(TransportError, match="ended as 'finished:failed'"):
        evaluate(state, ORDER)


def test_a_run_that_failed_before_its_round(
    state: State, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_ASK_EVERY", 0.05)
    control.statuses = ["running", "finished:failed"]
    with pytest.raises(TransportError, match="failed before its round began"):
        evaluate(state, ORDER)
    assert nothing_left(state)


def test_a_run_that_never_ends_is_stopped(state: State, control: FakeControl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_EXCHANGES", 0)
    monkeypatch.setattr(evaluation, "_SLACK", 0.1 - ORDER.patience)
    with pytest.raises(TransportError, match="did not end in time"):
        evaluate(state, ORDER)
    assert control.stopped == [5]
    assert nothing_left(state)


def test_the_kit_of_another_aggregator_is_refused(state: State, control: FakeControl) -> None:
    state.write_running(Running(pid=os.getpid(), port=4321, kit="/kits/other"))
    with pytest.raises(ConfigError, match="Use --kit /kits/other"):
        evaluate(state, ORDER)
    assert control.started == []


def test_an_aggregator_that_died(state: State, control: FakeControl) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    state.write_running(Running(pid=gone.pid, port=4321, kit="/kits/hub"))
    with pytest.raises(TransportError, match="was stopped during the round"):
        evaluate(state, ORDER)
    assert nothing_left(state)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_run(state: State, control: FakeControl, number: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), number))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        evaluate(state, ORDER)
    timer.join()
    assert control.stopped == [5]
    assert nothing_left(state)
    assert signal.getsignal(signal.SIGTERM) is before
