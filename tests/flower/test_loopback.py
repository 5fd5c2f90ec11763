"""A consortium of real processes on loopback: TLS, node authentication, five vaults, two protocols, the pooled AUC.

`make e2e` runs this. It takes under two minutes on two idle cores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flower.loopback import Loopback, consortium

pytestmark = pytest.mark.slow

MEMBERS = ("alder", "birch", "cedar", "dogwood", "elm")
POINTS = 100


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    # An exact release needs the consortium's consent.
    with consortium(tmp_path_factory.mktemp("c"), MEMBERS, "--finest-precision", "exact") as made:
        yield made


@pytest.mark.parametrize(
    ("protocol", "precision", "verified"), [("padded", 1e-4, None), ("padded-verified", "exact", True)]
)
def test_every_vault_has_the_pooled_auc(
    running: Loopback, protocol: str, precision: float | str, verified: bool | None
) -> None:
    summary = running.evaluate("--protocol", protocol, "--decision-points", str(POINTS))
    assert sorted(summary["roster"]) == sorted(summary["confirmed"]) == sorted(MEMBERS)
    assert summary["dropouts"] == []
    assert summary["precision"] == precision
    # Four for the round, one for its keys.
    assert summary["exchanges"] <= 5
    truth = running.pooled(decision_points=POINTS)
    for member in MEMBERS:
        latest = running.rounds(member)[-1]
        assert latest["round"] == summary["round"]
        assert latest["state"] == "released"
        assert latest["verified"] is verified
        assert latest["auc"] == pytest.approx(truth, abs=1e-12 if precision == "exact" else 1e-4)


def test_the_aggregator_has_no_result(running: Loopback) -> None:
    """What it prints and everything that it keeps says nothing of the AUC."""
    values = {str(each["auc"])[:8] for each in running.rounds(MEMBERS[0])}
    assert len(values) == 2
    kept = [path for path in (running.root / "state").rglob("*") if path.is_file()]
    assert len(kept) > 5
    for path in [*kept, running.root / "hub.log"]:
        content = path.read_bytes()
        assert not any(value.encode() in content for value in values), path


def test_a_round_that_the_policy_forbids_is_refused_by_every_vault(running: Loopback) -> None:
    status = running.ask("--protocol", "padded", "--decision-points", "5000", "--timeout", "60")
    _, complaint = status.communicate(timeout=150)
    assert status.returncode == 1
    assert "failed" in complaint
    assert "5000 decision points" in (running.root / f"vault-{MEMBERS[0]}.log").read_text() or any(
        "5000 decision points" in (running.root / f"vault-{member}.log").read_text() for member in MEMBERS
    )
    assert json.dumps([each["state"] for each in running.rounds(MEMBERS[1])]).count("released") == 2


def test_members_logs_name_no_secret(running: Loopback) -> None:
    for member in MEMBERS:
        text = Path(running.root / f"party-{member}.log").read_text(errors="replace")
        assert "Traceback" not in text
        assert str(running.rounds(member)[0]["auc"])[:8] not in text
