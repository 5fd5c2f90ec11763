"""A signature means one payload, one stage, one round, one roster, one member."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from fheval.consortium import Identity, sign, verify
from fheval.consortium.identity import SignedContent
from fheval.consortium.records import domain
from fheval.errors import RemoteProtocolError
from fheval.wire import encode
from keys_consortium import NAMES, NOW, Consortium, consortium


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return consortium(tmp_path_factory.mktemp("identity") / "authority")


@pytest.fixture(scope="module")
def alder(made: Consortium) -> Identity:
    return made.kit("alder").identity


@pytest.fixture(scope="module")
def said(made: Consortium) -> dict[str, Any]:
    roster = made.kit("alder").roster(NAMES, now=NOW)
    return {"round_id": "r1", "stage": "submit", "roster_hash": roster.hash(), "payload": b"counts"}


def test_a_signature_verifies_for_what_was_said(alder: Identity, said: dict[str, Any]) -> None:
    verify(alder.record, sign(alder, **said), **said)


@pytest.mark.parametrize(
    "change",
    [
        {"round_id": "r2"},
        {"stage": "result"},
        {"roster_hash": bytes(32)},
        {"payload": b"other"},
        {"payload": b""},
        {"round_id": "r1s", "stage": "ubmit"},
    ],
)
def test_anything_else_is_refused(alder: Identity, said: dict[str, Any], change: dict[str, Any]) -> None:
    signature = sign(alder, **said)
    with pytest.raises(RemoteProtocolError, match="not signed by alder for this round and roster") as caught:
        verify(alder.record, signature, **(said | change))
    assert caught.value.culprit == "alder"
    assert caught.value.step == (said | change)["stage"]


def test_another_members_signature_is_refused(made: Consortium, alder: Identity, said: dict[str, Any]) -> None:
    birch = made.kit("birch").identity
    with pytest.raises(RemoteProtocolError, match="not signed by alder"):
        verify(alder.record, sign(birch, **said), **said)


def test_a_renewed_certificate_does_not_inherit_signatures(
    made: Consortium, alder: Identity, said: dict[str, Any]
) -> None:
    key = alder.signing_key.reveal().public_key()
    renewed = made.authority.issuer(now=NOW).member("alder", key, now=NOW, days=9)
    record = made.kit("alder").policy.member("alder")
    with pytest.raises(RemoteProtocolError):
        verify(replace(record, certificate=renewed.public_bytes(Encoding.DER)), sign(alder, **said), **said)


@pytest.mark.parametrize("signature", [b"", b"x", bytes(64), bytes(65)])
def test_what_is_no_signature_is_refused(alder: Identity, said: dict[str, Any], signature: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        verify(alder.record, signature, **said)


def test_a_signature_for_another_use_is_refused(alder: Identity, said: dict[str, Any]) -> None:
    content = SignedContent(
        round=said["round_id"],
        stage=said["stage"],
        roster_hash=said["roster_hash"],
        signer="alder",
        certificate=alder.record.fingerprint(),
        payload_hash=sha256(said["payload"]).digest(),
    )
    key = alder.signing_key.reveal()
    verify(alder.record, key.sign(domain("message") + encode(content)), **said)
    for prefix in (b"", domain("bundle signature"), domain("policy")):
        with pytest.raises(RemoteProtocolError):
            verify(alder.record, key.sign(prefix + encode(content)), **said)


def test_a_signature_is_the_same_when_it_is_made_again(alder: Identity, said: dict[str, Any]) -> None:
    # A retry must be the same bytes.
    assert sign(alder, **said) == sign(alder, **said)
