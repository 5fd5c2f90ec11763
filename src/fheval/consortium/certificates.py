"""X.509 certificates: issuing them, reading them, and refusing by name those that a consortium must not accept.

A certificate is accepted when the authority's key signed it, both are valid now, and it says what it is
used for. There are no chains and no revocation lists: the authority's certificate is the direct issuer, and
a member is removed by a policy that no longer lists it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fheval.consortium.files import read_public
from fheval.errors import ConfigError
from fheval.secrets import Secret

AuthorityKey = ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
SubjectKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey
E = TypeVar("E", bound=x509.ExtensionType)

# What reading a damaged certificate, request or public key may raise.
MALFORMED = (
    *(ValueError, TypeError, NotImplementedError, UnsupportedAlgorithm),
    *(x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType),
)

# A certificate is valid from a little before it was made: the clocks of members differ.
CLOCK_SKEW = timedelta(minutes=10)

_DNS_NAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Issuer:
    """An authority's certificate, and the key that issues others."""

    certificate: x509.Certificate
    key: Secret[AuthorityKey]

    def member(self, name: str, key: ed25519.Ed25519PublicKey, *, now: datetime, days: int) -> x509.Certificate:
        """Issue a member's certificate: it signs messages, and cannot pass for the aggregator's server."""
        uri = x509.UniformResourceIdentifier(f"urn:fheval:member:{name}")
        return self._issue(name, key, [uri], ExtendedKeyUsageOID.CLIENT_AUTH, now, days)

    def transport(self, name: str, key: ec.EllipticCurvePublicKey, *, now: datetime, days: int) -> x509.Certificate:
        """Issue the certificate with which a member's relay connects; it signs no message of the member's."""
        return self._issue(name, key, [_transport_name(name)], ExtendedKeyUsageOID.CLIENT_AUTH, now, days)

    def server(
        self, name: str, key: ec.EllipticCurvePublicKey, hosts: Sequence[str], *, now: datetime, days: int
    ) -> x509.Certificate:
        """Issue the TLS certificate of an aggregator for host names and IP addresses."""
        return self._issue(name, key, [*map(host_name, hosts)], ExtendedKeyUsageOID.SERVER_AUTH, now, days)

    def _issue(
        self,
        name: str,
        key: SubjectKey,
        names: Sequence[x509.GeneralName],
        purpose: x509.ObjectIdentifier,
        now: datetime,
        days: int,
    ) -> x509.Certificate:
        # A certificate that outlives its authority would only look valid.
        end = min(now + timedelta(days=days), self.certificate.not_valid_after_utc)
        private = self.key.reveal()
        builder = (
            _builder(_name(name), self.certificate.subject, key, now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(_authority_key_identifier(self.certificate, private), critical=False)
        )
        edwards = isinstance(private, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
        return builder.sign(private, None if edwards else hashes.SHA256())


def authority_certificate(name: str, key: ed25519.Ed25519PrivateKey, *, now: datetime, days: int) -> x509.Certificate:
    """Make the self-signed certificate of a new authority; it issues directly, never to sub-authorities."""
    builder = (
        _builder(_name(name), _name(name), key.public_key(), now, now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, None)


def signing_request(name: str, key: Secret[ed25519.Ed25519PrivateKey]) -> x509.CertificateSigningRequest:
    """Ask for a member's certificate: the request proves that its maker holds the signing key."""
    return x509.CertificateSigningRequestBuilder().subject_name(_name(name)).sign(key.reveal(), None)


def transport_request(name: str, key: Secret[ec.EllipticCurvePrivateKey]) -> x509.CertificateSigningRequest:
    """Ask for the certificate of a member's connections, where certificates are issued elsewhere."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(name))
    builder = builder.add_extension(x509.SubjectAlternativeName([_transport_name(name)]), critical=False)
    return builder.sign(key.reveal(), hashes.SHA384())


def server_request(
    name: str, key: Secret[ec.EllipticCurvePrivateKey], hosts: Sequence[str]
) -> x509.CertificateSigningRequest:
    """Ask for the TLS certificate of an aggregator, for host names and IP addresses."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(name))
    builder = builder.add_extension(x509.SubjectAlternativeName([*map(host_name, hosts)]), critical=False)
    return builder.sign(key.reveal(), hashes.SHA256())


def host_name(host: str) -> x509.DNSName | x509.IPAddress:
    """Read an IP address or a DNS name as it stands in a certificate."""
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    if len(host) > 253 or not _DNS_NAME.fullmatch(host):
        raise ConfigError(f"{host!r} is neither an IP address nor a host name. Write 127.0.0.1 or hub.example.org.")
    return x509.DNSName(host.lower())


def read_certificates(pem: bytes, source: str) -> list[x509.Certificate]:
    """Read the certificates of a PEM file, the authority's own first."""
    try:
        return [_whole(each) for each in x509.load_pem_x509_certificates(pem)]
    except MALFORMED as error:
        raise ConfigError(f"{source} holds no certificate in PEM format ({error}). Check the file.") from None


@lru_cache(maxsize=2048)
def certificate_from_der(data: bytes) -> x509.Certificate:
    """Read a certificate out of a message or a record, or raise one of `MALFORMED`; many are read again and again."""
    return _whole(x509.load_der_x509_certificate(data))


def _whole(certificate: x509.Certificate) -> x509.Certificate:
    """Read the parts of a certificate that are otherwise read, and found to be damaged, when they are first used."""
    _ = certificate.subject, certificate.issuer, certificate.extensions, certificate.public_key()
    return certificate


def read_certificate(path: Path) -> x509.Certificate:
    """Read a PEM file's certificate, the first one where there are several."""
    return read_certificates(read_public(path), str(path))[0]


def check_authority(certificates: Sequence[x509.Certificate], *, now: datetime) -> None:
    """Refuse a certificate that is not a valid authority's; its parents may follow it, in order."""
    authority = certificates[0]
    name = common_name(authority)
    check_dates(authority, now=now)
    constraints = extension(authority, x509.BasicConstraints)
    if constraints is None or not constraints.ca:
        raise ConfigError(f"The certificate of {name} is not an authority's. Give the one that issues to members.")
    usage = extension(authority, x509.KeyUsage)
    if usage is not None and not usage.key_cert_sign:
        raise ConfigError(f"The authority {name} may not sign certificates. Use one whose key usage allows it.")
    for issued, issuer in pairwise(certificates):
        check_issuer(issued, issuer)


def check_issuer(certificate: x509.Certificate, authority: x509.Certificate) -> None:
    """Refuse a certificate that the authority did not issue."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        raise ConfigError(
            f"The certificate of {common_name(certificate)} is foreign: {common_name(authority)} did not issue it. "
            "Get one from the consortium's authority."
        ) from None


def check_dates(certificate: x509.Certificate, *, now: datetime) -> None:
    """Refuse a certificate that has expired or is not valid yet."""
    whose = f"The certificate of {common_name(certificate)}"
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        raise ConfigError(f"{whose} expired on {to_the_minute(end)}. Ask the consortium's authority for a new one.")
    if now < start:
        raise ConfigError(f"{whose} is not valid before {to_the_minute(start)}. Check this machine's clock.")


def valid_together(*certificates: x509.Certificate) -> tuple[datetime, datetime]:
    """From when to when all of these are valid."""
    return (
        max(each.not_valid_before_utc for each in certificates),
        min(each.not_valid_after_utc for each in certificates),
    )


def check_member_use(certificate: x509.Certificate, name: str) -> None:
    """Refuse a certificate that is not this member's, or not one for signing messages with Ed25519."""
    found = common_name(certificate)
    if found != name:
        raise ConfigError(f"The certificate is for {found}, not for {name}. Use the member's own certificate.")
    if not isinstance(certificate.public_key(), ed25519.Ed25519PublicKey):
        raise ConfigError(f"The certificate of {name} has no Ed25519 key. Issue one from the member's request.")
    constraints = extension(certificate, x509.BasicConstraints)
    if constraints is not None and constraints.ca:
        raise ConfigError(f"The certificate of {name} is an authority's. A member needs one that cannot issue.")
    usage = extension(certificate, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise ConfigError(f"The certificate of {name} may not sign messages. Issue one for digital signatures.")


def check_transport_use(certificate: x509.Certificate, name: str, key: ec.EllipticCurvePublicKey) -> None:
    """Refuse a certificate that is not for this member's connections, or not for this key."""
    names = extension(certificate, x509.SubjectAlternativeName) or ()
    if common_name(certificate) != name or _transport_name(name) not in list(names) or not is_for(certificate, key):
        raise ConfigError(
            f"The certificate of {common_name(certificate)} is not for connections of {name} with this key. "
            "Issue one from the member's request."
        )


def check_server_use(certificate: x509.Certificate, hosts: Sequence[str]) -> None:
    """Refuse a TLS certificate that does not cover every host."""
    names = extension(certificate, x509.SubjectAlternativeName) or ()
    missing = [host for host in hosts if host_name(host) not in list(names)]
    if missing:
        raise ConfigError(
            f"The certificate of {common_name(certificate)} does not cover {', '.join(missing)}. "
            "Issue one with these subject alternative names."
        )


def to_the_minute(moment: datetime | int) -> str:
    """A moment, or seconds since 1970, as people are told it."""
    if isinstance(moment, int):
        moment = datetime.fromtimestamp(moment, timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def common_name(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The name in the certificate's subject."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else "(unnamed)"


def is_for(certificate: x509.Certificate, key: PublicKeyTypes) -> bool:
    """Whether the certificate is for this public key, of whatever kind."""
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return certificate.public_key().public_bytes(*form) == key.public_bytes(*form)


def extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    """The certificate's extension of this kind, if it has one."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: SubjectKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _transport_name(name: str) -> x509.UniformResourceIdentifier:
    return x509.UniformResourceIdentifier(f"urn:fheval:transport:{name}")


def _key_usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_key_identifier(authority: x509.Certificate, key: AuthorityKey) -> x509.AuthorityKeyIdentifier:
    identifier = extension(authority, x509.SubjectKeyIdentifier)
    if identifier is not None:
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
