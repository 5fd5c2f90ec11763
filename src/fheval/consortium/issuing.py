"""Issuing X.509 certificates: of the authority itself, of members, and of the aggregator's TLS server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fheval.consortium.certificates import AuthorityKey, extension, host_name
from fheval.secrets import Secret

SubjectKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey

# A certificate is valid from a little before it was made: the clocks of members differ.
CLOCK_SKEW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, eq=False)
class Issuer:
    """An authority's certificate, and the key that issues others."""

    certificate: x509.Certificate
    key: Secret[AuthorityKey]

    def member(self, name: str, key: ed25519.Ed25519PublicKey, *, now: datetime, days: int) -> x509.Certificate:
        """Issue a member's certificate: it signs messages, and cannot pass for the aggregator's server."""
        uri = x509.UniformResourceIdentifier(f"urn:fheval:member:{name}")
        return self._issue(name, key, [uri], ExtendedKeyUsageOID.CLIENT_AUTH, now, days)

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


def _builder(
    subject: x509.Name, issuer: x509.Name, key: SubjectKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


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
