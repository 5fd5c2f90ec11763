"""How a member joins: with keys that the authority makes, or, better, with keys that never leave the member.

In the second way the member makes its keys and a request; the authority (or an X.509 authority elsewhere,
from the request's CSR) issues a certificate; the reply carries the certificate, the trust anchor and the
policy back.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fheval.consortium import certificates, kit
from fheval.consortium.authority import Authority
from fheval.consortium.files import check_private_directory, new_directory, read_public, write_public, write_secret
from fheval.consortium.member_keys import SIGNING_KEY, MemberKeys, new_server_key, private_pem, read_signing_key
from fheval.consortium.records import (
    MemberRecord,
    TrustAnchor,
    check_member_name,
    check_name,
    digest,
    domain,
    read_transport_key,
    spoken,
)
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.wire import Message, decode, encode

REQUEST = "request.fhev"
CSR = "request.csr"
TRANSPORT_CSR = "transport.csr"

_SIGNED = "enrolment request"


class RequestContent(Message, frozen=True, kw_only=True):
    """A member's name and public keys; the CSR carries the signing key and proves its possession."""

    name: str
    csr: bytes
    sealing_key: bytes
    supernode_key: str


class EnrolmentRequest(Message, frozen=True, kw_only=True):
    """Member to authority: public keys, signed with the signing key."""

    content: RequestContent
    signature: bytes


class EnrolmentReply(Message, frozen=True, kw_only=True):
    """Authority to member; `policy` is empty when none has been signed yet.

    `transport` is the certificate of the member's connections, empty where none was issued: Flower needs none.

    Where the member was enrolled before, `renewed`, its vault has a ledger already and must go on with it.
    """

    authority_pem: bytes
    policy_key: bytes
    certificate: bytes
    transport: bytes
    policy: bytes
    renewed: bool


def enrol_with_new_keys(authority: Authority, name: str, out: Path, *, renew: bool, now: datetime, days: int) -> None:
    """Authority: make a member's keys, certificate and kit."""
    _check_free(authority, name, renew=renew)
    keys = MemberKeys.generate()
    issuer = authority.issuer(now=now)
    certificate = issuer.member(name, keys.signing.reveal().public_key(), now=now, days=days)
    transport = issuer.transport(name, keys.supernode.reveal().public_key(), now=now, days=days)
    with new_directory(out) as building:
        keys.write(building)
        kit.place_members_files(building, certificate, transport, authority.anchor, authority.policy_bytes())
        if renew:
            kit.expect_ledger(building)
        authority.register(keys.record(name, certificate), renew=renew)


def enrol_aggregator(
    authority: Authority,
    name: str,
    hosts: list[str],
    out: Path,
    *,
    certificate_pem: bytes | None,
    now: datetime,
    days: int,
) -> None:
    """Authority: make the aggregator's kit, or build it around a certificate that was issued elsewhere."""
    check_name(name)
    if authority.is_enrolled(name):
        raise ConfigError(f"{name!r} is a member. Call the aggregator by another name.")
    key = None
    if certificate_pem is None:
        key = new_server_key()
        certificate = authority.issuer(now=now).server(name, key.reveal().public_key(), hosts, now=now, days=days)
    else:
        certificate = _issued_elsewhere(authority, certificate_pem, now)
        certificates.check_server_use(certificate, hosts)
    with new_directory(out) as building:
        if key is not None:
            write_secret(building / kit.SERVER_KEY, private_pem(key))
        kit.place_aggregators_files(building, certificate, authority.anchor, authority.policy_bytes())
        authority.register_aggregator(name, certificate)


def make_request(directory: Path, name: str) -> str:
    """Member: make keys and a request in a new kit; return the request's fingerprint."""
    check_member_name(name)
    keys = MemberKeys.generate()
    csr = certificates.signing_request(name, keys.signing)
    content = RequestContent(
        name=name,
        csr=csr.public_bytes(serialization.Encoding.DER),
        sealing_key=keys.opening.public_bytes(),
        supernode_key=keys.supernode_public(),
    )
    signature = keys.signing.reveal().sign(domain(_SIGNED) + encode(content))
    request = encode(EnrolmentRequest(content=content, signature=signature))
    with new_directory(directory) as building:
        keys.write(building)
        write_public(building / REQUEST, request)
        write_public(building / CSR, csr.public_bytes(serialization.Encoding.PEM))
        transport = certificates.transport_request(name, keys.supernode)
        write_public(building / TRANSPORT_CSR, transport.public_bytes(serialization.Encoding.PEM))
    return request_fingerprint(request)


def request_fingerprint(request: bytes) -> str:
    """A short text by which member and authority compare a request over the telephone."""
    return spoken(digest("request fingerprint", request))


def request_name(request: bytes) -> str:
    """The name of the member that a request says it is from."""
    return decode(request, EnrolmentRequest, sender="member").content.name


def answer_request(
    authority: Authority,
    name: str,
    data: bytes,
    *,
    fingerprint: str,
    certificate_pem: bytes | None,
    transport_pem: bytes | None = None,
    renew: bool,
    now: datetime,
    days: int,
) -> bytes:
    """Authority: enter the member that made the request, and return the reply for it.

    `fingerprint` was heard from the member by telephone: whoever could exchange the request on its way would otherwise
    be enrolled in the member's place.
    """
    content, key, transport_key = check_request(authority, name, data, fingerprint=fingerprint, renew=renew)
    if certificate_pem is None:
        certificate = authority.issuer(now=now).member(name, key, now=now, days=days)
    else:
        certificate = _issued_elsewhere(authority, certificate_pem, now)
        _check_certifies(certificate, key)
    transport = None
    if transport_pem is not None:
        transport = _issued_elsewhere(authority, transport_pem, now)
        certificates.check_transport_use(transport, name, transport_key)
    elif authority.key is not None:
        transport = authority.issuer(now=now).transport(name, transport_key, now=now, days=days)
    record = MemberRecord(
        name=name,
        certificate=certificate.public_bytes(serialization.Encoding.DER),
        sealing_key=content.sealing_key,
        supernode_key=content.supernode_key,
    )
    authority.register(record, renew=renew)
    reply = EnrolmentReply(
        authority_pem=authority.anchor.authority_pem,
        policy_key=authority.anchor.policy_key.public_bytes_raw(),
        certificate=record.certificate,
        transport=b"" if transport is None else transport.public_bytes(serialization.Encoding.DER),
        policy=authority.policy_bytes() or b"",
        renewed=renew,
    )
    return encode(reply)


def check_request(
    authority: Authority, name: str, data: bytes, *, fingerprint: str, renew: bool
) -> tuple[RequestContent, Ed25519PublicKey, ec.EllipticCurvePublicKey]:
    """Authority: refuse a request that cannot be enrolled; give its content, the signing key and the transport key."""
    _check_free(authority, name, renew=renew)
    content, key = _opened_request(data, name)
    check_fingerprint(name, data, fingerprint)
    return content, key, _transport_key(content)


def is_enrolled_with(authority: Authority, name: str, data: bytes) -> bool:
    """Whether the register has this member with the keys of this request."""
    content, key = _opened_request(data, name)
    own = (key.public_bytes_raw(), content.sealing_key, content.supernode_key)
    return any(
        (record.signing_key().public_bytes_raw(), record.sealing_key, record.supernode_key) == own
        for record in authority.members()
        if record.name == name
    )


def check_fingerprint(name: str, request: bytes, heard: str) -> None:
    """Refuse a request whose maker has read another fingerprint over the telephone."""
    found = request_fingerprint(request)
    if not same_fingerprint(heard, found):
        raise ConfigError(
            f"The request has the fingerprint {found}, not {heard}. Do not enrol it; ask {name} which one it has sent."
        )


def accept_reply(directory: Path, data: bytes, *, expected_anchor: str, now: datetime) -> None:
    """Member: complete a kit with the authority's reply; `expected_anchor` was heard by telephone."""
    check_private_directory(directory)
    reply = decode(data, EnrolmentReply, sender="authority")
    try:
        policy_key = Ed25519PublicKey.from_public_bytes(reply.policy_key)
        certificate = certificates.certificate_from_der(reply.certificate)
        transport = certificates.certificate_from_der(reply.transport) if reply.transport else None
    except certificates.MALFORMED:
        raise ConfigError("The reply holds a malformed certificate or key. Ask the authority for it again.") from None
    anchor = TrustAnchor(authority_pem=reply.authority_pem, policy_key=policy_key)
    _check_anchor(directory, anchor, expected_anchor)
    content = decode(read_public(directory / REQUEST), EnrolmentRequest, sender="this kit").content
    name = content.name
    anchor.check_certificate(certificate, now=now)
    certificates.check_member_use(certificate, name)
    _check_certifies(certificate, read_signing_key(directory / SIGNING_KEY).reveal().public_key())
    if transport is not None:
        anchor.check_certificate(transport, now=now)
        certificates.check_transport_use(transport, name, _transport_key(content))
    if reply.policy:
        kit.check_new_policy(directory, reply.policy, anchor, now=now)
    if reply.renewed:
        kit.expect_ledger(directory)
    kit.place_members_files(directory, certificate, transport, anchor, reply.policy or None)


def _check_free(authority: Authority, name: str, *, renew: bool) -> None:
    check_member_name(name)
    if name in authority.aggregators():
        raise ConfigError(f"{name!r} is an aggregator. Call the member by another name.")
    if authority.is_enrolled(name) and not renew:
        raise ConfigError(f"{name!r} is enrolled already. Use --renew to replace its keys and certificate.")
    if renew and not authority.is_enrolled(name):
        raise ConfigError(f"{name!r} is not enrolled, so there is nothing to renew. Leave --renew out.")


def _opened_request(data: bytes, name: str) -> tuple[RequestContent, Ed25519PublicKey]:
    request = decode(data, EnrolmentRequest, sender=name)
    content = request.content
    if content.name != name:
        raise ConfigError(f"The request is from {content.name!r}, not from {name!r}. Check which file was sent.")
    try:
        csr = x509.load_der_x509_csr(content.csr)
        key = csr.public_key()
        if not isinstance(key, Ed25519PublicKey) or not csr.is_signature_valid:
            raise ValueError("No Ed25519 key, or a bad signature.")
        key.verify(request.signature, domain(_SIGNED) + encode(content))
    except (*certificates.MALFORMED, InvalidSignature):
        raise RemoteProtocolError(
            f"The request of {name} was altered, or its maker does not hold the key. Ask the member for it again.",
            step="enrolment",
            culprit=name,
        ) from None
    return content, key


def _transport_key(content: RequestContent) -> ec.EllipticCurvePublicKey:
    try:
        return read_transport_key(content.supernode_key)
    except certificates.MALFORMED:
        raise RemoteProtocolError(
            f"The request of {content.name} has a malformed key for its connections. Ask the member for it again.",
            step="enrolment",
            culprit=content.name,
        ) from None


def _issued_elsewhere(authority: Authority, pem: bytes, now: datetime) -> x509.Certificate:
    certificate = certificates.read_certificates(pem, "The file given as --certificate")[0]
    authority.anchor.check_certificate(certificate, now=now)
    return certificate


def _check_certifies(certificate: x509.Certificate, key: Ed25519PublicKey) -> None:
    if not certificates.is_for(certificate, key):
        name = certificates.common_name(certificate)
        raise ConfigError(f"The certificate of {name} is not for the key of the request. Issue it from its own CSR.")


def same_fingerprint(heard: str, found: str) -> bool:
    """Whether what was heard over the telephone, however it was typed, is the fingerprint."""
    return heard.strip().lower() == found


def _check_anchor(directory: Path, anchor: TrustAnchor, expected: str) -> None:
    found = anchor.fingerprint()
    if not same_fingerprint(expected, found):
        raise ConfigError(
            f"The reply comes from an authority with fingerprint {found}, not {expected}. Do not use it; "
            "ask the operator of the consortium."
        )
    if (directory / kit.CERTIFICATE).exists() and kit.read_anchor(directory).fingerprint() != found:
        raise ConfigError("The reply comes from another authority than this kit's. Make a new kit for it.")
