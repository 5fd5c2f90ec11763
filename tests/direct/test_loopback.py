"""A consortium of real processes on loopback over gRPC and mutual TLS: five vaults, their relays, a hub. `make e2e`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flower.loopback import FHEVAL, ROUND_SECONDS, Loopback, consortium, ended

pytestmark = pytest.mark.slow

MEMBERS = ("alder", "birch", "cedar", "dogwood", "elm")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    studies = {
        "padded": 'protocol = "padded"\ndecision_points = 1000\n',
        "committee": 'protocol = "committee"\ndecision_points = 1000\nleaders = ["alder", "birch", "cedar"]\n',
        "verified": 'protocol = "padded-verified"\ngrid = "even"\ndecision_points = 100\n',
        "told": (
            'protocol = "padded-verified"\ngrid = "even"\ndecision_points = 100\nprecision = 1e-3\n'
            'checkers = ["cedar"]\nlearns = "members and aggregator"\n'
        ),
    }
    with consortium(tmp_path_factory.mktemp("d"), MEMBERS, studies, transport="direct") as made:
        yield made


def status(running: Loopback) -> Any:
    command = [FHEVAL, "aggregator", "status", "--state", str(running.root / "state"), "--json", "-"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def ended_everywhere(running: Loopback, summary: dict[str, Any]) -> set[float]:
    latest = [running.rounds(member)[-1] for member in summary["roster"]]
    assert {each["round"] for each in latest} == {summary["round"]}
    assert {each["state"] for each in latest} == {"released"}
    return {each["auc"] for each in latest}


@pytest.mark.parametrize("study", ["padded", "committee"])
def test_a_round_takes_seconds(running: Loopback, record_property: Callable[[str, object], None], study: str) -> None:
    """The first one makes keys, the next ones use them again; what they took is shown at the end, beside Flower's."""
    took = []
    for _ in range(3):
        summary = running.evaluate("--study", study)
        assert sorted(summary["confirmed"]) == sorted(MEMBERS)
        (released,) = ended_everywhere(running, summary)
        assert 0.5 < released < 1
        took.append(summary["seconds"]["total"])
    again = " and ".join(f"{seconds:.2f} s" for seconds in took[1:])
    record_property("round time", f"direct, five members, {study}: {took[0]:.2f} s with new keys, then {again}")
    # One and three seconds on an idle machine; this one may be busy.
    assert min(took[1:]) < 10


def test_padded_verified_gives_the_pooled_auc(running: Loopback) -> None:
    summary = running.evaluate("--study", "verified")
    truth = running.pooled(decision_points=100)
    for member in MEMBERS:
        latest = running.rounds(member)[-1]
        assert latest["verified"] is True
        assert latest["auc"] == pytest.approx(truth, abs=1e-4)
    assert sorted(summary["roster"]) == sorted(MEMBERS)


def test_an_aggregator_that_may_learn_it_is_told_what_leader_and_checker_have_signed(running: Loopback) -> None:
    summary = running.evaluate("--study", "told")
    assert set(summary["told_by"]) == {summary["leader"], "cedar"}
    assert summary["auc"] == round(running.pooled(decision_points=100), 3) == running.rounds("elm")[-1]["auc"]
    assert summary["verified"] is True
    place = ("--kit", str(running.kit("hub")), "--state", str(running.root / "state"))
    printed = subprocess.run(
        [FHEVAL, "aggregator", "evaluate", *place, "--study", "told"],
        capture_output=True,
        text=True,
        check=True,
        timeout=ROUND_SECONDS,
    ).stdout
    assert f"auc {summary['auc']}" in printed
    assert "Signed by" in printed


def test_the_status_names_members_studies_and_the_last_round(running: Loopback) -> None:
    found = status(running)
    assert [each["member"] for each in found["members"]] == sorted(MEMBERS)
    assert all(each["since"] and abs(each["clock"]) < 5 for each in found["members"])
    assert found["studies"] == ["committee", "padded", "told", "verified"]
    assert found["last"]["round"] == running.rounds(MEMBERS[0])[-1]["round"]


def test_the_aggregator_has_no_result(running: Loopback) -> None:
    """Neither what it prints nor anything that it keeps, nor what relays print, says the AUC."""
    values = {str(each["auc"])[:7].encode() for each in running.rounds(MEMBERS[0])}
    kept = [path for path in (running.root / "state").rglob("*") if path.is_file()]
    printed = [running.programs[name].log for name in running.programs if not name.startswith("vault")]
    assert kept
    for path in [*kept, *printed]:
        content = path.read_bytes()
        assert not any(value in content for value in values), path


def test_a_relay_that_was_restarted_is_there_again(running: Loopback) -> None:
    running.programs["party-elm"].kill()
    running.start_party("elm").wait_for("Connected to", times=2)
    assert sorted(running.evaluate("--study", "padded")["roster"]) == sorted(MEMBERS)


def test_a_hub_that_was_restarted_finds_its_members_again(running: Loopback) -> None:
    running.programs["hub"].kill()
    running.start_aggregator().wait_for("Ready for", times=2)
    deadline = time.monotonic() + 60
    while any(each["since"] is None for each in status(running)["members"]):
        assert time.monotonic() < deadline, running.log("party-alder")
        time.sleep(0.5)
    assert sorted(running.evaluate("--study", "padded")["roster"]) == sorted(MEMBERS)


def test_a_vault_that_is_down_is_named_and_missed(running: Loopback) -> None:
    """Without it, the difference to the rounds before would show its own numbers."""
    running.programs["vault-elm"].kill()
    status, _, complaint = ended(running.ask("--study", "padded", "--timeout", "5"))
    assert status == 1
    assert "elm were in an earlier round" in complaint
    assert "No vault answers" in running.log("party-elm")
    running.start_vault("elm").wait_for("listens on", times=2)
    assert sorted(running.evaluate("--study", "padded")["roster"]) == sorted(MEMBERS)
