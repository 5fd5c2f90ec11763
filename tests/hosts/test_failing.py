"""Hosts that fail in part: a full disk, a disk that turns read-only, too little memory, and cuts at the worst moment.

Whatever fails, `evaluate` says so in a sentence, and once it is mended every release that a member has spent is one of
a round whose outcome it has.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.disk import Disk, on_a_disk, why_no_disks
from hosts.running import MEMBER_UP, MEMBERS, Deployed, deployed, summary_of, until, wait_for_line
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


def test_a_disk_of_the_hub_that_fills_up_in_a_round(network: Deployed, hubs_disk: Disk) -> None:
    network.switch.delay = 0.5
    asked = network.ask("--timeout", "60")
    wait_for_line(asked, "submit: asking")
    hubs_disk.fill()
    assert sorted(summary_of(asked)["confirmed"]) == sorted(MEMBERS)
    assert "in memory only" in network.program("hub").text()
    network.calm()
    hubs_disk.make_room()
    goes_well_again(network)


# Memory


def limit_memory(process: int, more: int | None) -> None:
    """Let a process have so many bytes more than it has; None takes the limit away."""
    has = int(Path(f"/proc/{process}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    soft = resource.RLIM_INFINITY if more is None else has + more
    resource.prlimit(process, resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))


@pytest.mark.parametrize("more", [0, 16 << 20])
def test_a_vault_without_memory_refuses_and_goes_on_when_there_is_some(network: Deployed, more: int) -> None:
    """Also while it leads, where it needs most."""
    for name in MEMBERS:
        vault = network.program(name).process
        limit_memory(vault.pid, more)
        asked = network.ask("--timeout", "20", "--patience", "60")
        _, said = asked.communicate(timeout=STEP_SECONDS)
        assert "Traceback" not in said
        assert vault.poll() is None, network.program(name).text()[-2000:]
        limit_memory(vault.pid, None)
        goes_well_again(network)


# Connections

# Sockets that say nothing, or what TLS would begin with; one that the hub closes is opened anew.
_CROWD = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
crowd = [None] * 1100
while True:
    for number, each in enumerate(crowd):
        try:
            if each is not None and each.recv(1, socket.MSG_DONTWAIT) != b"":
                continue
        except BlockingIOError:
            continue
        except OSError:
            pass
        crowd[number] = None
        try:
            crowd[number] = socket.create_connection(("hub.example.org", 9092), timeout=5)
            if number % 2:
                crowd[number].sendall(bytes([0x16, 3, 1, 2, 0]))
        except OSError:
            pass
    print("there", flush=True)
    time.sleep(1)
"""


def test_a_thousand_idle_connections_keep_no_member_out(network: Deployed) -> None:
    """Of a stranger that comes again whenever it is hung up on; a process has 1,024 files unless it asks for more."""
    stranger = network.site["authority"]
    (stranger.folder / "crowd.py").write_text(_CROWD)
    crowd = stranger.start(f"{sys.executable} crowd.py")
    try:
        crowd.wait_for("there")
        hub = network.program("hub").process
        assert sorted(network.round()["roster"]) == sorted(MEMBERS)
        network.restart(FAILING, kill=True)
        assert sorted(network.round()["roster"]) == sorted(MEMBERS)
        assert hub.poll() is None
    finally:
        crowd.kill()


# Cuts at the worst moment


def test_whoever_is_cut_off_before_the_outcome_gets_it_when_it_is_back(network: Deployed) -> None:
    leader = network.round()["leader"]
    victim = next(name for name in MEMBERS if name != leader)
    network.switch.delay = 0.5
    asked = network.ask("--timeout", "15")
    wait_for_line(asked, "broadcast: asking")
    network.switch.cut = {victim}
    began = time.monotonic()
    assert summary_of(asked)["unconfirmed"] == [victim]
    # As long as a connection that is silent is kept, and longer.
    time.sleep(max(0.0, 45 - (time.monotonic() - began)))
    assert rounds(network, victim)[-1]["state"] == "open"
    network.calm()
    until(lambda: rounds(network, victim)[-1]["state"] == "released", seconds=90)
    every_release_has_an_outcome(network)


def test_a_leader_that_is_cut_off_after_the_uploads_is_waited_for(network: Deployed) -> None:
    before = [spent(network, name) for name in MEMBERS]
    leader = network.round()["leader"]
    network.switch.delay = 0.5
    asked = network.ask("--timeout", "30")
    wait_for_line(asked, "pads: asking")
    network.switch.cut = {leader}
    time.sleep(45)
    assert asked.poll() is None
    network.calm()
    assert sorted(summary_of(asked)["confirmed"]) == sorted(MEMBERS)
    assert [spent(network, name) for name in MEMBERS] == [count + 2 for count in before]
