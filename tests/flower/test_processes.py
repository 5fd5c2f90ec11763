"""A child ends when told to, with everything that it started; what does not listen is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fheval.flower.processes import Child, Process, descendants, free_port, told_to_stop

# Seconds after which a test gives up; those below sleep longer.
PATIENCE = 30

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
# Starts a stubborn process in a session of its own, as SuperLink does with its SuperExec, and says its id.
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(60)
"""


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[Child, Process]]:
    child = Child([sys.executable, "-c", PARENT, str(tmp_path / "pid")], os.environ)
    grandchild = Process.of(int(wait_for(tmp_path / "pid")))
    assert grandchild is not None
    yield child, grandchild
    child.stop(grace=0)


def test_grandchildren_are_seen(family: tuple[Child, Process]) -> None:
    child, grandchild = family
    assert grandchild in list(descendants(child.pid))
    assert child.status() is None


def test_what_does_not_listen_is_killed(family: tuple[Child, Process]) -> None:
    child, grandchild = family
    child.stop(grace=0.5)
    assert child.status() == -signal.SIGTERM
    deadline = time.monotonic() + PATIENCE
    while grandchild.lives() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not grandchild.lives()


def test_children_of_one_that_ended_by_itself_are_ended_too(family: tuple[Child, Process]) -> None:
    child, grandchild = family
    assert child.status() is None
    os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while child.status() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert grandchild.lives()
    child.stop(grace=0.2)
    while grandchild.lives() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not grandchild.lives()


def test_stopping_twice_is_fine(family: tuple[Child, Process]) -> None:
    child, _ = family
    child.stop(grace=0)
    child.stop(grace=0)


def test_a_process_is_not_taken_for_its_successor() -> None:
    me = Process.of(os.getpid())
    assert me is not None
    assert me.lives()
    assert not Process(os.getpid(), "1").lives()


def test_the_status_of_a_child_that_ends_by_itself() -> None:
    child = Child([sys.executable, "-c", "raise SystemExit(3)"], os.environ)
    deadline = time.monotonic() + PATIENCE
    while child.status() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert child.status() == 3


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_a_second_one_changes_nothing(number: signal.Signals) -> None:
    with told_to_stop() as told:
        os.kill(os.getpid(), number)
        assert told.wait(1)
        os.kill(os.getpid(), number)
    for again in SIGNALS:
        os.kill(os.getpid(), again)


def test_without_a_signal_the_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with told_to_stop() as told:
        assert not told.is_set()
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_free_ports_are_free() -> None:
    assert 1024 <= free_port() <= 65535


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_child_does_not_outlive_a_parent_that_was_killed() -> None:
    program = (
        "import os, sys, time\n"
        "from fheval.flower.processes import Child\n"
        "child = Child([sys.executable, '-c', 'import time; time.sleep(600)'], dict(os.environ))\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Process.of(int(parent.stdout.readline()))
        assert child is not None
        parent.kill()
        deadline = time.monotonic() + 30
        while child.lives() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not child.lives()
