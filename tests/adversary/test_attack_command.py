"""`fheval attack`: its JSON contract, its tables, its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fheval.cli import main
from fheval.protocols import PROTOCOLS, padded
from fheval_lab.attacks import Consortium, Findings, experiments
from fheval_lab.attacks.collusion import RING_BITS
from fheval_lab.attacks.released_pair import LeakRate
from fheval_lab.attacks.suite import Tally
from fheval_lab.clear import ClearEngine

pytestmark = pytest.mark.slow

SMALL = ("--tries", "2", "--parties", "3", "--decision-points", "5")


def attack(capture: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capture.readouterr()
    status = main(["attack", *arguments])
    return status, *capture.readouterr()


def test_one_protocol_is_one_object_as_the_contract_says(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--strategy", "drop-party", "--strategy", "constants")
    status, out, _ = attack(capsys, "--protocol", "padded-verified", *chosen, *SMALL, "--json", "-")
    content: dict[str, Any] = json.loads(out)
    assert status == 0
    assert content["protocol"] == "padded-verified"
    shown = [(entry["name"], entry["tries"], entry["caught"], entry["worst_shift"]) for entry in content["attacks"]]
    assert shown == [("drop-party", 2, 2, 0.0), ("constants", 2, 2, 0.0)]
    assert content["attacks"][0]["raised"] == {"VerificationFailed": 2}
    assert (content["claims_to_resist"], content["held"], content["parties"]) == (True, True, 3)


def test_all_protocols_stand_under_one_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    few = ("--tries", "1", "--parties", "3", "--decision-points", "3")
    status, out, _ = attack(capsys, "--strategy", "mix-sides", *few, "--json", str(target))
    content = json.loads(target.read_text())
    assert status == 0
    assert [each["protocol"] for each in content["protocols"]] == list(PROTOCOLS)
    assert out.count("mix-sides") == len(PROTOCOLS)
    assert out.count("No forged result was accepted") == 3
    assert out.count("Not claimed to resist") == 2


def test_without_a_choice_privacy_is_attacked_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = attack(capsys, "--protocol", "padded", *SMALL, "--json", "-")
    content = json.loads(out)
    assert status == 0
    names = {line["name"] for line in content["privacy"]}
    assert {"by-divisibility", "by-continued-fraction", "compare-uploads", "compare-used-slots"} <= names
    assert {"collude-recognise-data", "collude-open-pads", f"collude-mod-{1 << RING_BITS}-1"} <= names
    assert all(line["holds"] for line in content["privacy"])
    worst = {entry["name"]: entry["worst_shift"] for entry in content["attacks"]}
    assert worst["scale-all"] > 0.01


def test_what_is_not_claimed_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--strategy", "nudge", "--strategy", "nothing")
    _, out, _ = attack(capsys, "--protocol", "paper-malicious", *chosen, *SMALL, "--json", "-")
    content = json.loads(out)
    assert [entry["name"] for entry in content["attacks"]] == ["nothing"]
    assert [entry["name"] for entry in content["not_claimed"]] == ["nudge"]


def test_a_broken_claim_is_exit_status_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padded, "require_answered", lambda *_: None)
    chosen = ("--strategy", "deny-dropout")
    status, out, _ = attack(capsys, "--protocol", "padded-verified", *chosen, *SMALL)
    assert status == 1
    assert "FORGED" in out
    assert "A claim of this protocol broke" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--strategy", "bribe"), "no strategy 'bribe'"),
        (("--protocol", "handshake"), "no protocol 'handshake'"),
        (("--tries", "0"), "tries"),
        (("--parties", "2"), "parties"),
    ],
)
def test_what_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    status, out, err = attack(capsys, *arguments)
    assert (status, out) == (2, "")
    assert complaint in err


def test_a_leak_breaks_what_is_held() -> None:
    findings = Findings(consortium=Consortium(protocol="padded"), engine="clear", tallies=[])
    assert findings.held
    findings.sections["privacy"] = [LeakRate(name="any", tries=100, right=90, conceded=0.002)]
    assert not findings.held
    assert findings.to_dict()["privacy"][0]["holds"] is False


def test_a_strategy_that_no_one_claims_to_catch_breaks_nothing() -> None:
    tally = Tally(name="any", summary="any", claimed=False)
    tally.note_accepted(0.5)
    assert Findings(consortium=Consortium(protocol="padded"), engine="clear", tallies=[tally]).held


@pytest.mark.parametrize(
    ("protocol", "sections"),
    [
        ("padded", {"privacy", "counts"}),
        ("padded-verified", {"privacy", "small_field", "several_fields"}),
        ("committee", {"privacy", "deviations"}),
        ("paper-semi-honest", {"privacy"}),
        ("paper-malicious", {"privacy", "guessing", "nudge"}),
    ],
)
def test_every_protocol_has_its_experiments(protocol: str, sections: set[str]) -> None:
    found = experiments(Consortium(protocol=protocol), ClearEngine())
    assert {experiment.section for experiment in found} == sections
