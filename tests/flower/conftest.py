"""Where the tests of the Flower transport stand in for an app's process."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from flwr.supercore.task_identity import TaskIdentity


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """A process that was told to stop ignores being told again; this one goes on to other tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def _as_an_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages can be made only in the process of an app, which Flower gives these numbers."""
    monkeypatch.setattr(TaskIdentity, "_run_id", 1)
    monkeypatch.setattr(TaskIdentity, "_node_id", 1)
    monkeypatch.setattr(TaskIdentity, "_task_id", 1)
