"""Rounds on hosts of their own: far away, with losses, cut off for a while, restarted, with a clock that is wrong."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.running import MEMBERS, Deployed, deployed, summary_of, wait_for_line

pytestmark = pytest.mark.slow

CLOCK = Path(__file__).with_name("clock.c")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with deployed(tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture
def network(built: Deployed) -> Iterator[Deployed]:
    yield built
    built.calm()


def show(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with capsys.disabled():
        print(f"\n{words}")


def everybody_has_the_same(network: Deployed) -> None:
    assert len({network.released(name) for name in MEMBERS}) == 1


def test_a_round_across_hosts(network: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    took = [network.round()["seconds"]["total"] for _ in range(3)]
    everybody_has_the_same(network)
    show(capsys, f"hosts, three members: {took[0]:.2f} s with new keys, then {took[1]:.2f} s and {took[2]:.2f} s")


def test_nothing_but_the_switch_is_between_them(network: Deployed) -> None:
    for name in ("hub", *MEMBERS):
        links = network.site[name].run("ip -brief link")
        assert {line.split()[0] for line in links.splitlines()} == {"lo", "tap0"}
        assert network.site[name].run("ip route").split()[0] == "10.16.0.0/24"
    before = network.switch.passed
    network.round()
    assert network.switch.passed > before


def test_fifty_milliseconds_away(network: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """Each way, so that every answer takes a tenth of a second."""
    network.switch.delay = 0.05
    took = [network.round()["seconds"]["total"] for _ in range(3)]
    show(capsys, f"hosts, 50 ms each way: {', '.join(f'{each:.2f} s' for each in took)}")
    # Three seconds on an idle machine; this one may be busy.
    assert min(took) < 10


def test_losses(network: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    network.switch.delay, network.switch.loss = 0.05, 0.02
    summary = network.round()
    assert sorted(summary["roster"]) == sorted(MEMBERS)
    show(capsys, f"hosts, 50 ms each way and 2 % lost: {summary['seconds']['total']:.2f} s")


@pytest.mark.parametrize("seconds", [3, 45], ids=["briefly", "beyond a heartbeat"])
def test_a_partition_during_submit_that_heals(network: Deployed, seconds: int) -> None:
    """The connection stands it, or breaks and is made anew; the member is asked again, and nobody is missing."""
    network.switch.delay = 0.3
    asked = network.ask("--timeout", "140")
    wait_for_line(asked, "submit: asking")
    network.switch.cut = {"hospital-b"}
    time.sleep(seconds)
    assert asked.poll() is None
    network.calm()
    assert sorted(summary_of(asked)["roster"]) == sorted(MEMBERS)
    everybody_has_the_same(network)


def test_a_member_that_lost_its_power(network: Deployed) -> None:
    network.restart("hospital-c", kill=True)
    assert sorted(network.round()["roster"]) == sorted(MEMBERS)


def test_a_hub_that_lost_its_power_finds_its_members_again(network: Deployed) -> None:
    network.restart("hub", kill=True)
    assert sorted(network.round()["roster"]) == sorted(MEMBERS)


def test_a_clock_that_is_a_minute_off_is_said_to_both_and_harms_nobody(network: Deployed, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler to make a clock with")
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(CLOCK), "-ldl"], check=True)
    host = network.site["hospital-a"]
    host.environment = {"LD_PRELOAD": str(library), "SHIFT_CLOCK": "60"}
    try:
        network.restart("hospital-a").wait_for("differ by 60 s")
        network.program("hub").wait_for("differ by 60 s")
        assert sorted(network.round()["roster"]) == sorted(MEMBERS)
    finally:
        host.environment = {}
        network.restart("hospital-a")
