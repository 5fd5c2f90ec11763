"""Members, leaders and the SuperLink fail in a consortium of real processes; the others get their result, or none do.

What can be shown without processes is in `test_aggregator_app` and in the tests of the vault.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flower.loopback import Loopback, consortium, ended, summary_of

pytestmark = pytest.mark.slow

MEMBERS = ("alder", "birch", "cedar", "dogwood")
# A study and a lineage for each test: rosters that differ by one member are not both opened within one.
USUAL = ("before", "slow", "during", "leader", "lost", "restarted")
STUDIES = dict.fromkeys(USUAL, 'grid = "even"\ndecision_points = 50\nrounds = 100\n')


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    with consortium(tmp_path_factory.mktemp("f"), MEMBERS, STUDIES) as made:
        yield made


def a_round(study: str, patience: str = "5") -> tuple[str, ...]:
    """What is asked of a study, without waiting long."""
    return ("--study", study, "--timeout", "40", "--patience", patience)


def who_says(running: Loopback, words: str, marks: dict[str, int]) -> str:
    """Wait until a vault's log has these words behind its mark; gives the member."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for member, mark in marks.items():
            if words in running.log(f"vault-{member}")[mark:]:
                return member
        time.sleep(0.02)
    raise AssertionError(f"No vault says {words!r}")


def check_result(running: Loopback, summary: dict[str, object], rest: list[str]) -> None:
    """The members that took part have the AUC of their own pool, and no other."""
    assert sorted(summary["roster"]) == sorted(rest)  # type: ignore[call-overload]
    assert sorted(summary["dropouts"]) == sorted(set(MEMBERS) - set(rest))  # type: ignore[call-overload]
    truth = running.pooled(rest, decision_points=50)
    for member in rest:
        latest = running.rounds(member)[-1]
        assert latest["round"] == summary["round"]
        assert latest["auc"] == pytest.approx(truth, abs=1e-4)


def test_a_study_that_nobody_accepted_is_refused_with_a_reason_at_home(running: Loopback) -> None:
    running.sign("unaccepted", 'grid = "even"\ndecision_points = 5000\n')
    status, output, complaint = ended(running.ask("--study", "unaccepted", "--timeout", "40"))
    assert (status, output) == (1, "")
    assert "accepted" not in complaint
    assert [member for member in MEMBERS if "Refused. " in running.log(f"vault-{member}")]
    assert not [each for member in MEMBERS for each in running.rounds(member) if each["state"] == "released"]


def test_a_vault_killed_before_submit_is_a_dropout_and_comes_back(running: Loopback) -> None:
    vault = running.programs["vault-alder"]
    vault.kill()
    check_result(running, running.evaluate(*a_round("before")), ["birch", "cedar", "dogwood"])
    vault.start()
    vault.wait_for("listens on", times=2)


def test_a_slow_member_misses_the_timeout_and_its_late_answer_changes_nothing(running: Loopback) -> None:
    vault = running.programs["vault-birch"]
    vault.pause()
    try:
        summary = running.evaluate(*a_round("slow"))
    finally:
        vault.resume()
    check_result(running, summary, ["alder", "cedar", "dogwood"])


def test_a_vault_killed_during_submit_is_a_dropout_and_comes_back(running: Loopback) -> None:
    """It stands still when the request comes, and is killed before it has answered."""
    vault = running.programs["vault-cedar"]
    marks = {member: len(running.log(f"vault-{member}")) for member in MEMBERS if member != "cedar"}
    vault.pause()
    asked = running.ask(*a_round("during"))
    try:
        who_says(running, "stage submit: answered", marks)
        time.sleep(3)  # the others have answered, or are about to: its own request waits
        vault.kill()
        check_result(running, summary_of(asked), [member for member in MEMBERS if member != "cedar"])
    finally:
        asked.kill()
        vault.kill()
    vault.start()
    vault.wait_for("listens on", times=vault.text().count("listens on") + 1)


def test_a_leader_killed_between_stages_is_replaced(running: Loopback) -> None:
    """Its vault, right after it has made the keys of the round."""
    # Keys of an earlier round would do, and the leader be asked for nothing before the submit.
    (running.root / "state" / "keys").unlink()
    marks = {member: len(running.log(f"vault-{member}")) for member in MEMBERS}
    asked = running.ask(*a_round("leader"))
    try:
        leader = who_says(running, "stage setup: answered", marks)
        running.programs[f"vault-{leader}"].kill()
        summary = summary_of(asked)
    finally:
        asked.kill()
    assert summary["leader"] != leader
    assert [tried["leader"] for tried in summary["attempts"]] == [leader, summary["leader"]]
    check_result(running, summary, [member for member in MEMBERS if member != leader])
    vault = running.programs[f"vault-{leader}"]
    vault.start()
    vault.wait_for("listens on", times=vault.text().count("listens on") + 1)


def test_a_machine_lost_right_after_its_upload_left_spoils_nothing(running: Loopback) -> None:
    """Whether the upload still arrived or not, the result is that of the roster."""
    marks = {"dogwood": len(running.log("vault-dogwood"))}
    asked = running.ask(*a_round("lost"))
    vault, party = running.programs["vault-dogwood"], running.programs["party-dogwood"]
    try:
        who_says(running, "stage submit: answered", marks)
        vault.kill()
        party.kill()
        summary = summary_of(asked)
    finally:
        asked.kill()
    assert "dogwood" not in summary["confirmed"]
    truth = running.pooled(summary["roster"], decision_points=50)
    assert len(summary["roster"]) >= 3
    for member in summary["confirmed"]:
        assert running.rounds(member)[-1]["auc"] == pytest.approx(truth, abs=1e-4)
    for program, words in ((vault, "listens on"), (party, "Connected to")):
        times = program.text().count(words) + 1
        program.start()
        program.wait_for(words, times=times)


def test_the_superlink_is_restarted_between_rounds(running: Loopback) -> None:
    hub = running.programs["hub"]
    hub.stop()
    status, _, complaint = ended(running.ask(*a_round("restarted")))
    assert status == 2
    assert "No aggregator is up" in complaint
    hub.start()
    hub.wait_for("Ready for", times=2)
    summary = running.evaluate(*a_round("restarted", "60"))
    check_result(running, summary, list(MEMBERS))
