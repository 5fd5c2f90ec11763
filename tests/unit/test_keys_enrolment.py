"""Enrolment with keys that never leave the member, from this authority or from one elsewhere."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from fheval.consortium import Rules, certificates, install_policy, load_aggregator_kit, load_kit
from fheval.consortium.authority import Authority, import_authority
from fheval.consortium.enrolment import (
    EnrolmentReply,
    EnrolmentRequest,
    accept_reply,
    answer_request,
    enrol_aggregator,
    make_request,
    request_fingerprint,
)
from fheval.consortium.files import write_secret
from fheval.consortium.member_keys import private_pem, read_signing_key
from fheval.consortium.records import TrustAnchor, domain
from fheval.errors import ConfigError, FhevalError, RemoteProtocolError
from fheval.secrets import Secret
from fheval.wire import decode, encode
from keys_consortium import DAY, NAMES, NOW, Consortium, consortium


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return consortium(tmp_path_factory.mktemp("enrolment") / "authority")


def request_of(directory: Path, name: str) -> bytes:
    make_request(directory, name)
    return (directory / "request.fhev").read_bytes()


def answer(authority: Authority, name: str, request: bytes, *, pem: bytes | None = None, renew: bool = False) -> bytes:
    return answer_request(
        authority,
        name,
        request,
        fingerprint=request_fingerprint(request),
        certificate_pem=pem,
        renew=renew,
        now=NOW,
        days=30,
    )


def accept(directory: Path, reply: bytes, expected: str | None = None) -> None:
    """Accept a reply of the expected authority, otherwise of whoever it comes from."""
    accept_reply(directory, reply, expected_anchor=expected or heard(reply), now=NOW)


def heard(reply: bytes) -> str:
    """The fingerprint of the authority that a reply names, as its operator would read it out."""
    content = decode(reply, EnrolmentReply, sender="test")
    try:
        return TrustAnchor(
            authority_pem=content.authority_pem, policy_key=Ed25519PublicKey.from_public_bytes(content.policy_key)
        ).fingerprint()
    except (ConfigError, ValueError):
        return "none"


def test_a_member_joins_with_its_own_keys(tmp_path: Path) -> None:
    made = consortium(tmp_path / "authority")
    kit = tmp_path / "kit"
    request = request_of(kit, "dogwood")
    with pytest.raises(ConfigError, match="has no certificate yet"):
        load_kit(kit, now=NOW)
    reply = answer(made.authority, "dogwood", request)
    accept(kit, reply, made.authority.anchor.fingerprint().upper())
    with pytest.raises(ConfigError, match="does not list dogwood"):
        load_kit(kit, now=NOW)
    install_policy(kit, made.sign(), now=NOW)
    assert load_kit(kit, now=NOW).identity.name == "dogwood"


def test_a_request_and_its_reply_hold_no_secret(made: Consortium, tmp_path: Path) -> None:
    request = request_of(tmp_path / "kit", "elm")
    reply = answer(made.authority, "elm", request)
    for name in ("signing.key", "opening.key", "transport/transport.key"):
        for line in (tmp_path / "kit" / name).read_bytes().splitlines()[1:-1]:
            assert line not in request
            assert line not in reply
    made.authority.remove("elm")


def test_both_sides_compute_one_fingerprint(tmp_path: Path) -> None:
    told = make_request(tmp_path / "kit", "dogwood")
    assert told == request_fingerprint((tmp_path / "kit" / "request.fhev").read_bytes())


def test_a_request_with_another_fingerprint_is_not_enrolled(made: Consortium, tmp_path: Path) -> None:
    """Whoever exchanges a request on its way makes one that is in order in itself."""
    heard_from_the_member = make_request(tmp_path / "kit", "dogwood")
    exchanged = request_of(tmp_path / "thief", "dogwood")
    with pytest.raises(ConfigError, match="Do not enrol it"):
        answer_request(
            made.authority,
            "dogwood",
            exchanged,
            fingerprint=heard_from_the_member,
            certificate_pem=None,
            renew=False,
            now=NOW,
            days=30,
        )
    assert not made.authority.is_enrolled("dogwood")


def test_an_altered_request_is_refused(made: Consortium, tmp_path: Path) -> None:
    request = decode(request_of(tmp_path / "one", "dogwood"), EnrolmentRequest, sender="test")
    other = decode(request_of(tmp_path / "two", "dogwood"), EnrolmentRequest, sender="test")
    for field in ("csr", "sealing_key", "supernode_key"):
        content = msgspec.structs.replace(request.content, **{field: getattr(other.content, field)})
        with pytest.raises(RemoteProtocolError, match="request of dogwood was altered"):
            answer(made.authority, "dogwood", encode(msgspec.structs.replace(request, content=content)))
    with pytest.raises(ConfigError, match="request is from 'dogwood', not from 'elm'"):
        answer(made.authority, "elm", encode(request))
    renamed = msgspec.structs.replace(request.content, name="elm")
    with pytest.raises(RemoteProtocolError, match="request of elm was altered"):
        answer(made.authority, "elm", encode(msgspec.structs.replace(request, content=renamed)))
    assert not made.authority.is_enrolled("dogwood")


def test_a_request_with_keys_that_do_not_work_is_refused(made: Consortium, tmp_path: Path) -> None:
    request = decode(request_of(tmp_path / "kit", "dogwood"), EnrolmentRequest, sender="test")
    content = msgspec.structs.replace(request.content, sealing_key=request.content.sealing_key[:-32] + bytes(32))
    key = _signing_key(tmp_path / "kit")
    signature = key.sign(domain("enrolment request") + encode(content))
    with pytest.raises(ConfigError, match="malformed certificate or key"):
        answer(made.authority, "dogwood", encode(EnrolmentRequest(content=content, signature=signature)))


def _signing_key(kit: Path) -> Ed25519PrivateKey:
    return read_signing_key(kit / "signing.key").reveal()


def test_a_csr_with_a_bad_signature_is_refused(made: Consortium, tmp_path: Path) -> None:
    request = decode(request_of(tmp_path / "kit", "dogwood"), EnrolmentRequest, sender="test")
    csr = request.content.csr[:-1] + bytes([request.content.csr[-1] ^ 1])
    content = msgspec.structs.replace(request.content, csr=csr)
    signature = _signing_key(tmp_path / "kit").sign(domain("enrolment request") + encode(content))
    with pytest.raises(RemoteProtocolError, match="was altered"):
        answer(made.authority, "dogwood", encode(EnrolmentRequest(content=content, signature=signature)))


def test_a_csr_of_another_kind_of_key_is_refused(made: Consortium, tmp_path: Path) -> None:
    request = decode(request_of(tmp_path / "kit", "dogwood"), EnrolmentRequest, sender="test")
    csr = (
        x509.CertificateSigningRequestBuilder(x509.Name([]))
        .sign(ec.generate_private_key(ec.SECP256R1()), SHA256())
        .public_bytes(Encoding.DER)
    )
    content = msgspec.structs.replace(request.content, csr=csr)
    signature = _signing_key(tmp_path / "kit").sign(domain("enrolment request") + encode(content))
    with pytest.raises(RemoteProtocolError, match="was altered"):
        answer(made.authority, "dogwood", encode(EnrolmentRequest(content=content, signature=signature)))


def test_a_reply_for_another_member_or_kit_is_refused(tmp_path: Path) -> None:
    made = consortium(tmp_path / "authority")
    elm, fir = tmp_path / "elm", tmp_path / "fir"
    replies = {
        name: answer(made.authority, name, request_of(directory, name))
        for name, directory in (("elm", elm), ("fir", fir))
    }
    with pytest.raises(ConfigError, match="is for fir, not for elm"):
        accept(elm, replies["fir"])
    make_request(tmp_path / "second", "elm")
    with pytest.raises(ConfigError, match="is not for the key of the request"):
        accept(tmp_path / "second", replies["elm"])
    assert not (elm / "certificate.pem").exists()


def test_a_reply_of_an_unexpected_authority_is_refused(made: Consortium, tmp_path: Path) -> None:
    other = consortium(tmp_path / "other")
    kit = tmp_path / "kit"
    reply = answer(other.authority, "dogwood", request_of(kit, "dogwood"))
    with pytest.raises(ConfigError, match="Do not use it"):
        accept(kit, reply, made.authority.anchor.fingerprint())
    assert not (kit / "authority.pem").exists()


def test_a_complete_kit_does_not_change_its_authority(made: Consortium, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    request = request_of(kit, "gum")
    accept(kit, answer(made.authority, "gum", request))
    other = consortium(tmp_path / "other")
    before = (kit / "authority.pem").read_bytes()
    with pytest.raises(ConfigError, match="another authority than this kit's"):
        accept(kit, answer(other.authority, "gum", request))
    assert (kit / "authority.pem").read_bytes() == before
    made.authority.remove("gum")


def test_an_altered_reply_is_refused(made: Consortium, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    request = request_of(kit, "holly")
    reply = decode(answer(made.authority, "holly", request), EnrolmentReply, sender="test")
    other = consortium(tmp_path / "other")
    foreign = decode(answer(other.authority, "holly", request), EnrolmentReply, sender="test")
    changes: list[tuple[dict[str, bytes], str]] = [
        ({"certificate": foreign.certificate}, "foreign"),
        ({"certificate": b"x"}, "malformed"),
        ({"transport": foreign.transport}, "foreign"),
        ({"transport": reply.certificate}, "not for connections"),
        ({"transport": b"x"}, "malformed"),
        ({"policy_key": b"x"}, "malformed"),
        ({"policy": foreign.policy}, "not signed by"),
        ({"policy_key": foreign.policy_key}, "not signed by"),
        ({"authority_pem": b"x"}, "no certificate in PEM"),
    ]
    for change, reason in changes:
        with pytest.raises(FhevalError, match=reason):
            accept(kit, encode(msgspec.structs.replace(reply, **change)))
    assert sorted(path.name for path in kit.iterdir()) == [
        "opening.key",
        "request.csr",
        "request.fhev",
        "signing.key",
        "transport",
        "transport.csr",
    ]
    made.authority.remove("holly")


def test_an_expired_certificate_in_a_reply_is_refused(made: Consortium, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    reply = answer(made.authority, "ivy", request_of(kit, "ivy"))
    with pytest.raises(ConfigError, match="certificate of ivy expired"):
        accept_reply(kit, reply, expected_anchor=heard(reply), now=NOW + 31 * DAY)
    made.authority.remove("ivy")


def test_a_certificate_is_renewed_for_the_same_keys(tmp_path: Path) -> None:
    made = consortium(tmp_path / "authority")
    kit = tmp_path / "kit"
    request = request_of(kit, "dogwood")
    accept(kit, answer(made.authority, "dogwood", request))
    install_policy(kit, made.sign(), now=NOW)
    old_reply = answer(made.authority, "dogwood", request, renew=True)
    install_policy(kit, made.sign(), now=NOW)
    # The reply still carries policy version 2, and the kit has version 3 already.
    with pytest.raises(RemoteProtocolError, match="version 2 does not replace version 3"):
        accept(kit, old_reply)
    accept(kit, answer(made.authority, "dogwood", request, renew=True))
    install_policy(kit, made.sign(), now=NOW)
    assert load_kit(kit, now=NOW).policy.version == 4


def test_an_open_kit_is_not_completed(made: Consortium, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    reply = answer(made.authority, "juniper", request_of(kit, "juniper"))
    (kit / "signing.key").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        accept(kit, reply)
    kit.chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        accept(kit, reply)
    made.authority.remove("juniper")


@pytest.fixture
def elsewhere(tmp_path: Path) -> tuple[Authority, Ed25519PrivateKey]:
    """An authority whose X.509 key is not here."""
    key = Ed25519PrivateKey.generate()
    certificate = certificates.authority_certificate("House PKI", key, now=NOW, days=900)
    (tmp_path / "house.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    authority = import_authority(tmp_path / "external", "Trial", certificate=tmp_path / "house.pem", key=None, now=NOW)
    return authority, key


def issued_from_csr(authority: Authority, key: Ed25519PrivateKey, csr: bytes, *, days: int = 30) -> bytes:
    """What a company's PKI does with the CSR: it sees no key but the signing key."""
    request = x509.load_pem_x509_csr(csr)
    public = request.public_key()
    name = request.subject.rfc4514_string().removeprefix("CN=")
    assert isinstance(public, Ed25519PublicKey)
    house = authority.anchor.authority()
    return certificates.Issuer(house, Secret(key)).member(name, public, now=NOW, days=days).public_bytes(Encoding.PEM)


def test_certificates_issued_elsewhere_make_a_consortium(
    elsewhere: tuple[Authority, Ed25519PrivateKey], tmp_path: Path
) -> None:
    authority, key = elsewhere
    for name in NAMES:
        kit = tmp_path / name
        request = request_of(kit, name)
        pem = issued_from_csr(authority, key, (kit / "request.csr").read_bytes())
        accept(kit, answer(authority, name, request, pem=pem))
    authority.sign_next_policy(Rules(), now=NOW, days=9)
    signed = authority.policy_bytes()
    assert signed is not None
    for name in NAMES:
        install_policy(tmp_path / name, signed, now=NOW)
        assert load_kit(tmp_path / name, now=NOW).roster(NAMES, now=NOW).names() == NAMES


def test_a_certificate_from_elsewhere_is_checked(
    elsewhere: tuple[Authority, Ed25519PrivateKey], made: Consortium, tmp_path: Path
) -> None:
    authority, key = elsewhere
    request = request_of(tmp_path / "kit", "alder")
    csr = (tmp_path / "kit" / "request.csr").read_bytes()
    make_request(tmp_path / "other", "alder")
    other_key = issued_from_csr(authority, key, (tmp_path / "other" / "request.csr").read_bytes())
    make_request(tmp_path / "birch", "birch")
    issuer = certificates.Issuer(authority.anchor.authority(), Secret(key))
    own = _signing_key(tmp_path / "kit").public_key()
    expired = issuer.member("alder", own, now=NOW - 9 * DAY, days=8).public_bytes(Encoding.PEM)
    foreign = made.authority.issuer(now=NOW).member("alder", own, now=NOW, days=9).public_bytes(Encoding.PEM)
    for pem, reason in (
        (other_key, "is not for the key of the request"),
        (expired, "certificate of alder expired"),
        (foreign, "certificate of alder is foreign"),
        (b"x", "no certificate in PEM"),
    ):
        with pytest.raises(ConfigError, match=reason):
            answer(authority, "alder", request, pem=pem)
    assert not authority.is_enrolled("alder")
    answer(authority, "alder", request, pem=issued_from_csr(authority, key, csr))


def test_the_aggregators_certificate_may_come_from_elsewhere(
    elsewhere: tuple[Authority, Ed25519PrivateKey], made: Consortium, tmp_path: Path
) -> None:
    authority, key = elsewhere
    tls = Secret(ec.generate_private_key(ec.SECP256R1()))
    house = authority.anchor.authority()
    pem = (
        certificates.Issuer(house, Secret(key))
        .server("hub", tls.reveal().public_key(), ["localhost"], now=NOW, days=9)
        .public_bytes(Encoding.PEM)
    )
    foreign = made.authority.issuer(now=NOW).server("hub", tls.reveal().public_key(), ["localhost"], now=NOW, days=9)

    def enrol(certificate: bytes, hosts: list[str], days_later: int = 0) -> None:
        now = NOW + days_later * DAY
        enrol_aggregator(authority, "hub", hosts, tmp_path / "hub", certificate_pem=certificate, now=now, days=1)

    with pytest.raises(ConfigError, match="does not cover 127"):
        enrol(pem, ["localhost", "127.0.0.1"])
    with pytest.raises(ConfigError, match="foreign"):
        enrol(foreign.public_bytes(Encoding.PEM), ["localhost"])
    with pytest.raises(ConfigError, match="expired"):
        enrol(pem, ["localhost"], days_later=10)
    assert not (tmp_path / "hub").exists()
    enrol(pem, ["localhost"])
    with pytest.raises(ConfigError, match=r"no file .*server\.key"):
        load_aggregator_kit(tmp_path / "hub", now=NOW)
    write_secret(tmp_path / "hub" / "server.key", private_pem(tls))
    with pytest.raises(ConfigError, match="has no policy yet"):
        load_aggregator_kit(tmp_path / "hub", now=NOW)
