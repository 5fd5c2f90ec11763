"""Certificates, keys and messages of enrolment with one part damaged: refused in a sentence, whatever is damaged."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fheval.consortium import load_aggregator_kit, load_kit
from fheval.consortium.enrolment import (
    EnrolmentReply,
    EnrolmentRequest,
    accept_reply,
    answer_request,
    make_request,
    request_fingerprint,
)
from fheval.consortium.member_keys import read_signing_key
from fheval.consortium.records import MemberRecord, TrustAnchor, domain, read_transport_key
from fheval.errors import ConfigError, FhevalError, RemoteProtocolError
from fheval.wire import decode, encode
from keys_consortium import NOW, Consortium, consortium

VERSION_3 = bytes.fromhex("a003020102")
ED25519 = bytes.fromhex("06032b6570")

# What a reader notices at once, when it looks at the subject, and when it looks at the key.
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "version": lambda der: der.replace(VERSION_3, VERSION_3[:-1] + b"\x7d", 1),
    "name": lambda der: der.replace(b"\x0c\x05Trial", b"\x0c\x05\xff\xff\xff\xff\xff"),
    "own name": lambda der: der.replace(b"\x0c\x05alder", b"\x0c\x05\xff\xff\xff\xff\xff"),
    "algorithm": lambda der: der.replace(ED25519, b"\x06\x03\x2a\x65\x70"),
    "cut": lambda der: der[:-7],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return consortium(tmp_path_factory.mktemp("damaged") / "authority")


def damaged_pem(pem: bytes, damage: Callable[[bytes], bytes]) -> bytes:
    first, *lines, last = pem.strip().splitlines()
    der = base64.b64decode(b"".join(lines))
    return b"\n".join([first, base64.b64encode(damage(der)), last, b""])


@pytest.mark.parametrize("damage", ["version", "name", "own name", "algorithm", "cut"])
@pytest.mark.parametrize("file", ["certificate.pem", "authority.pem", "policy-key.pem"])
def test_a_kit_with_a_damaged_file_is_refused(made: Consortium, tmp_path: Path, file: str, damage: str) -> None:
    kit = tmp_path / "kit"
    shutil.copytree(made.path("alder"), kit)
    before = (kit / file).read_bytes()
    after = damaged_pem(before, DAMAGES[damage])
    if base64.b64decode(b"".join(before.splitlines()[1:-1])) == base64.b64decode(b"".join(after.splitlines()[1:-1])):
        pytest.skip("There is no such part in this file.")
    (kit / file).write_bytes(after)
    with pytest.raises(ConfigError):
        load_kit(kit, now=NOW)


def test_an_aggregators_kit_with_a_damaged_policy_key_is_refused(made: Consortium, tmp_path: Path) -> None:
    kit = tmp_path / "hub"
    shutil.copytree(made.path("hub"), kit)
    path = kit / "policy-key.pem"
    path.write_bytes(damaged_pem(path.read_bytes(), DAMAGES["algorithm"]))
    with pytest.raises(ConfigError, match="does not hold an Ed25519 public key"):
        load_aggregator_kit(kit, now=NOW)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_reply_with_a_damaged_certificate_is_refused(made: Consortium, tmp_path: Path, damage: str) -> None:
    kit = tmp_path / "kit"
    make_request(kit, "alder")
    request = (kit / "request.fhev").read_bytes()
    reply = decode(
        answer_request(
            made.authority, "alder", request, fingerprint=request_fingerprint(request),
            certificate_pem=None, renew=True, now=NOW, days=30,
        ),
        EnrolmentReply,
        sender="test",
    )  # fmt: skip
    heard = TrustAnchor(
        authority_pem=reply.authority_pem, policy_key=Ed25519PublicKey.from_public_bytes(reply.policy_key)
    ).fingerprint()
    for field in ("certificate", "transport"):
        before = getattr(reply, field)
        after = DAMAGES[damage](before)
        if after == before:
            continue
        forged = encode(msgspec.structs.replace(reply, **{field: after}))
        with pytest.raises(ConfigError, match=r"malformed certificate or key|is foreign"):
            accept_reply(kit, forged, expected_anchor=heard, now=NOW)
    assert DAMAGES[damage](reply.certificate) != reply.certificate


def test_a_request_with_a_compressed_point_for_a_key_is_refused(made: Consortium, tmp_path: Path) -> None:
    """Signed by its maker, so that nothing but the key is wrong with it."""
    kit = tmp_path / "kit"
    make_request(kit, "rowan")
    request = decode((kit / "request.fhev").read_bytes(), EnrolmentRequest, sender="test")
    kind, key, *rest = request.content.supernode_key.split()
    blob = bytearray(base64.b64decode(key))
    assert blob[-97] == 4
    blob[-97] = 2
    line = " ".join([kind, base64.b64encode(bytes(blob)).decode(), *rest])
    with pytest.raises(NotImplementedError):
        read_transport_key(line)
    content = msgspec.structs.replace(request.content, supernode_key=line)
    signature = read_signing_key(kit / "signing.key").reveal().sign(domain("enrolment request") + encode(content))
    forged = encode(msgspec.structs.replace(request, content=content, signature=signature))
    with pytest.raises(RemoteProtocolError):
        answer_request(
            made.authority, "rowan", forged, fingerprint=request_fingerprint(forged),
            certificate_pem=None, renew=False, now=NOW, days=30,
        )  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_record_with_a_damaged_certificate_is_refused(made: Consortium, damage: str) -> None:
    policy = made.authority.policy()
    assert policy is not None
    record = next(each for each in policy.members if each.name == "alder")
    forged: MemberRecord = msgspec.structs.replace(record, certificate=DAMAGES[damage](record.certificate))
    with pytest.raises(FhevalError, match="alder"):
        forged.x509()
    with pytest.raises(FhevalError, match="malformed certificate or key"):
        made.authority.anchor.check_issued(forged)
