"""Signed receipts: what they say, what they do not carry, and that no byte of one can be changed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from cli.session import Session
from fheval.consortium import Rules, load_kit
from fheval.consortium import receipt as receipts
from fheval.consortium.receipt import Checked, SignedReceipt, check_receipt, make_receipt, require_same
from fheval.errors import ConfigError, FhevalError, InputError, RemoteProtocolError
from fheval.party.process import VaultFiles
from fheval.party.receipts import receipt_of
from fheval.protocols import PROTOCOLS
from fheval.protocols.round import Ending
from vault.trial import ALL, NAMES, RULES, Trial, make_consortium, running

CHECKER = "hazel"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("receipts")
    with running(folder, make_consortium(folder)) as trial:
        trial.checking = {CHECKER}
        yield trial


@pytest.fixture
def fheval(capsys: pytest.CaptureFixture[str]) -> Session:
    return Session(capsys)


def played(trial: Trial, protocol: str = "padded-verified", **changes: Any) -> None:
    trial.begin_anew()
    trial.play(trial.study(protocol, **changes))


def receipt(trial: Trial, name: str) -> SignedReceipt:
    files = VaultFiles.of(trial.consortium.path(name), trial.ledger_path(name).parent, None)
    kit = load_kit(files.kit, now=trial.clock.now)
    return receipt_of(trial.last(name), kit, files, now=trial.clock.now)


def authority(trial: Trial) -> str:
    return trial.consortium.authority.anchor.fingerprint()


def checked(trial: Trial, made: SignedReceipt) -> Checked:
    return check_receipt(made.to_bytes(), "receipt.json", authority=authority(trial))


@pytest.mark.parametrize("protocol", ALL)
def test_it_says_what_the_member_was_told(trial: Trial, protocol: str) -> None:
    played(trial, protocol)
    found = {name: checked(trial, receipt(trial, name)) for name in NAMES}
    for name, each in found.items():
        assert each.statement.member == name
        assert each.statement.roster == NAMES
        assert each.statement.rows() == trial.rows(name)
        assert set(each.tellers) == {each.statement.leader, CHECKER}
        assert each.statement.rows()[0].value == pytest.approx(trial.pooled(), abs=1e-3)
    require_same(found)


def test_a_committee_signs_as_a_whole(trial: Trial) -> None:
    played(trial, "committee", leaders=NAMES[:3], options=(("committee", 3),))
    assert set(checked(trial, receipt(trial, "maple")).tellers) == set(NAMES[:3])


# What it must not carry


def test_it_carries_no_resample_no_count_and_nothing_of_the_members_own(trial: Trial) -> None:
    played(trial, interval=0.95, replicates=40, metrics=("auc", "accuracy@0.5"))
    leader = trial.last(NAMES[0]).round.leader
    verdict = trial.last(leader).verdict
    assert verdict is not None
    assert len(verdict.ratios) > 40
    made = receipt(trial, leader)
    numbers = {each for row in made.statement.results for each in row.values() if isinstance(each, float)}
    shown = {number for row in trial.rows(leader) for number in (row.value, row.low, row.high, row.binning)}
    assert numbers <= shown | {row.precision for row in trial.rows(leader)}
    text = made.to_bytes().decode()
    for own in (f"of-{leader}", str(trial.folder), trial.data(leader).name):
        assert own not in text


def test_of_a_released_curve_it_has_the_numbers_and_not_the_counts(trial: Trial) -> None:
    played(trial, "padded", release="curve", precision=None)
    assert trial.last("alder").verdict.counts  # type: ignore[union-attr]
    made = receipt(trial, "alder")
    assert "counts" not in msgspec.to_builtins(made.statement)
    assert {key for row in made.statement.results for key in row} <= {
        *("metric", "model", "class", "group", "value", "low", "high", "binning"),
        *("precision", "p_value", "resamples", "note", "error", "verified"),
    }


def test_there_is_none_of_a_round_that_released_nothing(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    played(trial)
    last = trial.last("alder")
    assert last.verdict is not None
    for verdict in (None, dataclasses.replace(last.verdict, ending=Ending.REFUSED)):
        other = dataclasses.replace(last, verdict=verdict)
        monkeypatch.setattr(trial, "last", lambda _, other=other: other)
        with pytest.raises(ConfigError, match="released nothing"):
            receipt(trial, "alder")


# What must be refused


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_no_byte_of_it_can_be_changed(trial: Trial, step: int) -> None:
    played(trial)
    made = receipt(trial, "alder").to_bytes()
    said = made.index(b'"study": "', made.index(b'"signature"'))
    # Behind the statement and its signature are two signed files and a certificate, in base64.
    for place in (*range(0, said, step), *range(said, len(made), 17 * step)):
        forged = bytearray(made)
        forged[place] ^= 1
        with pytest.raises(FhevalError):
            check_receipt(bytes(forged), "receipt.json", authority=authority(trial))


CHANGES: dict[str, Any] = {
    "member": "birch",
    "certificate": "00" * 32,
    "consortium": "Other",
    "policy": "00" * 32,
    "study": "other",
    "study_hash": "00" * 32,
    "round": "00" * 16,
    "protocol": "padded",
    "engine": "seal",
    "parties": NAMES[:4],
    "leader": "maple",
    "roster": NAMES[:4],
    "verified": None,
    "soundness_bits": 1000.0,
    "hiding_bits": 1000,
    "results": (),
    "fheval": "0",
}


def test_no_field_of_it_can_be_changed(trial: Trial) -> None:
    played(trial)
    made = receipt(trial, "alder")
    changes = dict(CHANGES)
    for name in ("began", "ended", "signed"):
        changes[name] = getattr(made.statement, name) + timedelta(hours=1)
    assert set(changes) == set(made.statement.__struct_fields__)
    for name, value in changes.items():
        if getattr(made.statement, name) == value:
            continue
        forged = replace(made, statement=replace(made.statement, **{name: value}))
        with pytest.raises(FhevalError):
            checked(trial, forged)


def test_parts_of_another_receipt_do_not_fit(trial: Trial) -> None:
    played(trial)
    made = receipt(trial, "alder")
    played(trial, "padded", metrics=("auc", "accuracy@0.5"))
    other = receipt(trial, "alder")
    for part in ("signature", "study"):
        with pytest.raises(RemoteProtocolError):
            checked(trial, replace(made, **{part: getattr(other, part)}))


def test_a_newer_policy_does_not_stand_in_for_the_one_that_was_signed(trial: Trial) -> None:
    played(trial)
    made = receipt(trial, "alder")
    trial.consortium.sign(RULES)
    newer = trial.consortium.authority.policy_bytes()
    assert newer is not None
    with pytest.raises(RemoteProtocolError, match="another consortium or policy"):
        checked(trial, replace(made, policy=newer))
    trial.start()


def test_the_receipt_of_another_authority_is_refused(trial: Trial, tmp_path: Path) -> None:
    """Everything in it is in order, but for who vouches for it."""
    with running(tmp_path, make_consortium(tmp_path, Rules(releases_per_lineage=100))) as other:
        other.play(other.study())
        forged = receipt(other, "alder").to_bytes()
    with pytest.raises(RemoteProtocolError, match="comes from an authority with the fingerprint"):
        check_receipt(forged, "receipt.json", authority=authority(trial))


def test_a_member_cannot_sign_for_another_nor_tell_of_a_round_that_the_study_does_not_allow(trial: Trial) -> None:
    played(trial)
    made = receipt(trial, "alder")
    kit = trial.consortium.kit("alder", trial.clock.now)
    parts = {"signed_study": made.study, "signed_policy": made.policy}
    birch = kit.policy.member("birch")
    for change in (
        {"member": "birch", "certificate": birch.fingerprint().hex()},
        {"roster": NAMES[:1]},
        {"roster": (*NAMES, "stranger")},
        {"protocol": "padded"},
        {"leader": "stranger"},
        {"signed": made.statement.signed + timedelta(days=3000)},
    ):
        forged = make_receipt(kit.identity, replace(made.statement, **change), **parts)
        with pytest.raises(RemoteProtocolError):
            checked(trial, forged)


def test_without_the_signature_s_check_a_forgery_passes(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    played(trial)
    made = receipt(trial, "alder")
    forged = replace(made, statement=replace(made.statement, results=({**made.statement.results[0], "value": 0.99},)))
    with pytest.raises(RemoteProtocolError, match="was not signed by alder"):
        checked(trial, forged)
    monkeypatch.setattr(receipts, "_check_signer", lambda *_: None)
    assert checked(trial, forged).statement.rows()[0].value == 0.99


def test_receipts_that_do_not_agree_are_refused(trial: Trial) -> None:
    played(trial)
    mine, theirs = (receipt(trial, name) for name in ("alder", "birch"))
    identity = trial.consortium.kit("birch", trial.clock.now).identity
    lying = make_receipt(
        identity,
        replace(theirs.statement, results=({**theirs.statement.results[0], "value": 0.99},)),
        signed_study=theirs.study,
        signed_policy=theirs.policy,
    )
    with pytest.raises(RemoteProtocolError, match="has other numbers"):
        require_same({"a": checked(trial, mine), "b": checked(trial, lying)})
    with pytest.raises(ConfigError, match="both of alder"):
        require_same({"a": checked(trial, mine), "b": checked(trial, mine)})
    played(trial)
    with pytest.raises(RemoteProtocolError, match="another round"):
        require_same({"a": checked(trial, mine), "b": checked(trial, receipt(trial, "birch"))})


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"receipt": 2}'])
def test_what_is_no_receipt_is_bad_input(data: bytes) -> None:
    with pytest.raises(InputError, match="is no receipt"):
        check_receipt(data, "receipt.json", authority="")


# The command


def test_verify_says_what_was_checked_and_what_was_not(trial: Trial, fheval: Session, tmp_path: Path) -> None:
    played(trial)
    files = {name: tmp_path / f"{name}.json" for name in NAMES}
    for name, path in files.items():
        path.write_bytes(receipt(trial, name).to_bytes())
    leader = trial.last("alder").round.leader
    other = next(name for name in NAMES if name not in (leader, CHECKER))
    trusted = ("--authority", authority(trial).upper())

    alone = fheval("verify", files[other], *trusted)
    assert (alone.status, alone.err) == (0, "")
    assert f"the word of {other} alone" in " ".join(alone.out.split())
    assert "auc 0." in alone.out

    together = fheval("verify", *files.values(), *trusted)
    assert together.status == 0
    assert "Everyone who opened the answer" in together.out
    told = fheval("verify", *files.values(), *trusted, "--json", "-").json()
    assert (told["all_openers_signed"], told["signed_by"]) == (True, list(NAMES))
    assert told["results"][0]["value"] == trial.rows(other)[0].value

    assert fheval("verify", files[other], "--kit", trial.consortium.path(other)).status == 0
    unsure = fheval("verify", files[other])
    assert (unsure.status, authority(trial) in unsure.err) == (2, True)
    assert fheval("verify", files[other], "--authority", "0000-" * 7 + "0000").status == 1

    content = json.loads(files[other].read_text())
    content["statement"]["results"][0]["value"] += 0.01
    files[other].write_text(json.dumps(content))
    forged = fheval("verify", files[other], *trusted)
    assert (forged.status, forged.out) == (1, "")


def test_every_protocol_has_someone_who_opened(trial: Trial) -> None:
    """Otherwise nobody's signature would be missing from a receipt, and `verify` would say that all have signed."""
    for name, protocol in PROTOCOLS.items():
        if name != "committee":
            round_ = trial.round(trial.study(name), "alder")
            assert set(protocol.of_round(round_).tellers(round_)) == {"alder", CHECKER}
