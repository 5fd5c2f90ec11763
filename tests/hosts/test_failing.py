"""Hosts whose disks are full, fill up in a round, or fail and turn read-only.

Whatever fails, `evaluate` says so in a sentence, and once it is mended every release that a member has spent is one of
a round whose outcome it has.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.disk import Disk, on_a_disk, why_no_disks
from hosts.running import MEMBER_UP, MEMBERS, Deployed, deployed, wait_for_line
from hosts.site import STEP_SECONDS

pytestmark = pytest.mark.slow

FAILING = "hospital-b"
# Of the study, each of which counts as a release.
NUMBERS = 2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with deployed(tmp_path_factory.mktemp("failing")) as made:
        yield made


@pytest.fixture
def network(built: Deployed) -> Iterator[Deployed]:
    yield built
    built.calm()


def rounds(network: Deployed, name: str) -> list[dict[str, str]]:
    found = json.loads(network.site[name].run("fheval vault rounds --kit ./kit --json -"))["rounds"]
    return [each for each in found if each["lineage"] is not None]


def spent(network: Deployed, name: str) -> int:
    """What rounds have cost a member's lineage, in rounds."""
    status = json.loads(network.site[name].run("fheval vault status --kit ./kit --json -"))
    return sum(int(each["releases"]) for each in status["lineages"]) // NUMBERS


def every_release_has_an_outcome(network: Deployed) -> None:
    for name in MEMBERS:
        released = [each for each in rounds(network, name) if each["state"] == "released"]
        assert spent(network, name) == len(released)
        assert {each["state"] for each in rounds(network, name)} <= {"released", "void"}


def refused(asked: subprocess.Popen[str]) -> str:
    """Wait for a round that must fail, in a sentence; gives it."""
    try:
        _, complaint = asked.communicate(timeout=STEP_SECONDS)
    finally:
        asked.kill()
    assert asked.returncode != 0
    assert "Traceback" not in complaint
    return complaint


def goes_well_again(network: Deployed) -> None:
    """What a round that failed had cost is given back at the latest with the next one."""
    assert sorted(network.round()["roster"]) == sorted(MEMBERS)
    every_release_has_an_outcome(network)
    assert len({network.released(name) for name in MEMBERS}) == 1


def stopped_at_submit(network: Deployed, name: str) -> subprocess.Popen[str]:
    """Begin a round, and stop a member's programs when they are about to be asked for an upload."""
    network.switch.delay = 0.5
    asked = network.ask("--timeout", "60")
    wait_for_line(asked, "submit: asking")
    os.killpg(network.program(name).process.pid, signal.SIGSTOP)
    return asked


def go_on(network: Deployed, name: str) -> None:
    os.killpg(network.program(name).process.pid, signal.SIGCONT)


# Disks


@pytest.fixture
def disk(network: Deployed, tmp_path: Path) -> Iterator[Disk]:
    """A member's state on a disk of its own."""
    yield from _disk_of(network, FAILING, "kit/vault", tmp_path)


@pytest.fixture
def hubs_disk(network: Deployed, tmp_path: Path) -> Iterator[Disk]:
    yield from _disk_of(network, "hub", "state", tmp_path)


def _disk_of(network: Deployed, name: str, folder: str, tmp_path: Path) -> Iterator[Disk]:
    reason = why_no_disks(tmp_path)
    if reason is not None:
        pytest.skip(f"disks cannot be made: {reason}")
    network.program(name).stop()
    with on_a_disk(network.site[name], folder) as made:
        network.start(name, until="Connected to")
        yield made
        network.program(name).stop()
    network.start(name, until="Connected to")


def test_a_full_disk_counts_as_absent_before_anybody_uploads(network: Deployed, disk: Disk) -> None:
    before = [spent(network, name) for name in MEMBERS]
    disk.fill()
    assert FAILING in refused(network.ask("--patience", "60"))
    assert "The disk is full" in network.program(FAILING).text()
    assert [spent(network, name) for name in MEMBERS] == before
    disk.make_room()
    # Nobody has to start it again.
    goes_well_again(network)


def test_a_disk_that_fills_up_in_a_round(network: Deployed, disk: Disk) -> None:
    asked = stopped_at_submit(network, FAILING)
    disk.fill()
    go_on(network, FAILING)
    refused(asked)
    assert "The disk is full" in network.program(FAILING).text()
    network.calm()
    disk.make_room()
    goes_well_again(network)


def test_a_disk_that_turns_read_only(network: Deployed, disk: Disk) -> None:
    """Of a round before nothing is lost; nothing is answered that is not on disk; a start says what is the matter."""
    goes_well_again(network)
    history = rounds(network, FAILING)
    asked = stopped_at_submit(network, FAILING)
    disk.fail()
    go_on(network, FAILING)
    refused(asked)
    network.calm()
    assert "read-only" in network.program(FAILING).text() or "cannot read or write" in network.program(FAILING).text()
    assert FAILING in refused(network.ask("--patience", "60"))
    network.program(FAILING).stop()
    started = network.site[FAILING].attempt(MEMBER_UP)
    assert started.returncode != 0
    assert "read-only" in started.stdout + started.stderr
    assert "Traceback" not in started.stdout + started.stderr
    disk.repair()
    network.start(FAILING, until="Connected to")
    assert rounds(network, FAILING)[: len(history)] == history
    goes_well_again(network)


def test_a_full_disk_of_the_hub(network: Deployed, hubs_disk: Disk) -> None:
    before = [spent(network, name) for name in MEMBERS]
    hubs_disk.fill()
    assert "The disk is full" in refused(network.ask("--patience", "60"))
    assert [spent(network, name) for name in MEMBERS] == before
    hubs_disk.make_room()
    goes_well_again(network)
