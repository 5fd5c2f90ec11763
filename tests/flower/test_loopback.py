"""A consortium of real processes on loopback: TLS, node authentication, five vaults, two protocols, the pooled AUC.

`make e2e` runs this. A message costs each SuperNode seconds of processor time, for a fresh process that loads Flower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flower.loopback import Loopback, consortium

pytestmark = pytest.mark.slow

MEMBERS = ("alder", "birch", "cedar", "dogwood", "elm")
POINTS = 100
PROTOCOLS = ("padded", "padded-verified")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    studies = {each: f'protocol = "{each}"\ngrid = "even"\ndecision_points = {POINTS}\n' for each in PROTOCOLS}
    with consortium(tmp_path_factory.mktemp("c"), MEMBERS, studies) as made:
        yield made


@pytest.mark.parametrize(
    ("protocol", "precision", "verified"), [("padded", 1e-4, None), ("padded-verified", "exact", True)]
)
def test_every_vault_has_the_pooled_auc(
    running: Loopback,
    record_property: Callable[[str, object], None],
    protocol: str,
    precision: float | str,
    verified: bool | None,
) -> None:
    summary = running.evaluate("--study", protocol)
    assert sorted(summary["roster"]) == sorted(summary["confirmed"]) == sorted(MEMBERS)
    assert summary["dropouts"] == []
    assert summary["precision"] == precision
    # Who is there, four for the round, one for its keys.
    assert summary["exchanges"] <= 6
    record_property(
        "round time", f"Flower, five members, {protocol}: {summary['seconds']['total']:.2f} s with new keys"
    )
    truth = running.pooled(decision_points=POINTS)
    for member in MEMBERS:
        latest = running.rounds(member)[-1]
        assert latest["round"] == summary["round"]
        assert latest["state"] == "released"
        assert latest["verified"] is verified
        assert latest["auc"] == pytest.approx(truth, abs=1e-12 if precision == "exact" else 1e-4)


def test_the_aggregator_has_no_result(running: Loopback) -> None:
    """Neither what it prints nor anything that it keeps, nor what SuperNodes print, says the AUC."""
    values = {str(each["auc"])[:8].encode() for each in running.rounds(MEMBERS[0])}
    assert len(values) == 2
    kept = [path for path in (running.root / "state").rglob("*") if path.is_file()]
    printed = [running.programs[name].log for name in running.programs if not name.startswith("vault")]
    assert len(kept) > 5
    for path in [*kept, *printed]:
        content = path.read_bytes()
        assert not any(value in content for value in values), path


def test_supernodes_report_no_failure(running: Loopback) -> None:
    for member in MEMBERS:
        assert "Traceback" not in running.log(f"party-{member}")
