"""A committee of three among five vaults that are real processes, one of which is killed at every stage. `make e2e`."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flower.loopback import ROUND_SECONDS, Loopback, consortium, ended

pytestmark = pytest.mark.slow

MEMBERS = ("alder", "birch", "cedar", "dogwood", "elm")
COMMITTEE = MEMBERS[:3]
POINTS = 100
PADDED = f'protocol = "padded"\ndecision_points = {POINTS}\ngrid = "even"\nrounds = 50\n'
STUDY = (
    f'protocol = "committee"\ndecision_points = {POINTS}\ngrid = "even"\nrounds = 50\n'
    'leaders = ["alder", "birch", "cedar"]\n'
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    studies = {"committee": STUDY, "padded": PADDED}
    policy = ("--releases-per-lineage", "100")
    with consortium(tmp_path_factory.mktemp("c"), MEMBERS, studies, transport="direct", policy=policy) as made:
        yield made


def require_right(running: Loopback) -> None:
    """Whoever holds a result of its newest round holds the right one."""
    truth = running.pooled(decision_points=POINTS)
    for member in MEMBERS:
        for each in running.rounds(member):
            if each["state"] == "released":
                assert each["auc"] == pytest.approx(truth, abs=1e-4)


def test_all_five_learn_what_three_have_opened(running: Loopback) -> None:
    summary = running.evaluate("--study", "committee")
    assert sorted(summary["confirmed"]) == sorted(MEMBERS)
    assert {running.rounds(member)[-1]["state"] for member in MEMBERS} == {"released"}
    require_right(running)


def test_a_round_takes_no_more_than_a_few_of_padded(running: Loopback, capsys: pytest.CaptureFixture[str]) -> None:
    """Both in turn, on the same machine at the same time: the first round makes keys, the next ones use them again."""
    took: dict[str, list[float]] = {"padded": [], "committee": []}
    for _ in range(3):
        for study, seconds in took.items():
            seconds.append(running.evaluate("--study", study)["seconds"]["total"])
    with capsys.disabled():
        for study, (first, *others) in took.items():
            then = ", ".join(f"{each:.2f} s" for each in others)
            print(f"\ndirect, five members, {study}: {first:.2f} s, then {then}", end="")
    # Three seconds on an idle machine; this one may be busy.
    assert min(took["committee"]) < 15


def wait_for(running: Loopback, line: str, times: int) -> None:
    deadline = time.monotonic() + ROUND_SECONDS
    while running.log("vault-birch").count(line) < times:
        assert time.monotonic() < deadline, running.log("vault-birch")
        time.sleep(0.01)


@pytest.mark.parametrize("stage", ["setup", "offer", "submit", "pads", "mix", "open", "broadcast"])
def test_a_member_killed_at_a_stage_gives_no_second_answer_and_no_wrong_result(running: Loopback, stage: str) -> None:
    line = f"stage {stage}: answered"
    if stage == "setup":
        # So that new ones are made.
        (running.root / "state" / "keys").unlink()
    before, starts = running.log("vault-birch").count(line), running.log("vault-birch").count("listens on")
    asked = running.ask("--study", "committee")
    wait_for(running, line, before + 1)
    running.programs["vault-birch"].kill()
    running.start_vault("birch").wait_for("listens on", times=starts + 1)
    status, _, complaint = ended(asked)
    assert status in (0, 1), complaint
    require_right(running)
    for each in running.rounds("birch"):
        assert len(set(each["stages"])) == len(each["stages"])


def test_after_all_that_a_round_goes_as_before(running: Loopback) -> None:
    assert sorted(running.evaluate("--study", "committee")["confirmed"]) == sorted(MEMBERS)
    require_right(running)
