"""Who is who: a member's public record, and the trust anchor against which a record is checked.

A record binds a member's name, its certificate (and in it the Ed25519 signing key), the key that secrets
are sealed to, and the key of its Flower SuperNode. Records are believed because the authority signs the
policy that lists them; the certificate adds dates and an issuer. The certificate alone does not name the
sealing key, so that certificates of any X.509 authority will do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Annotated

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

from fheval.consortium import certificates, sealing
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.wire import Message

# Names become file names, subjects of certificates (64 characters at most) and words on a screen.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

# These words mean roles in messages and errors; a member of that name would confuse them.
_ROLES = frozenset({"aggregator", "authority", "leader", "party"})

# Seconds since 1970, up to the last that a calendar date can show.
Timestamp = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]


class MemberRecord(Message, frozen=True, kw_only=True):
    """What all members know of one member; nothing in it is secret."""

    name: str
    certificate: bytes
    sealing_key: bytes
    supernode_key: str

    def x509(self) -> x509.Certificate:
        try:
            return certificates.certificate_from_der(self.certificate)
        except certificates.MALFORMED:
            raise _malformed(self) from None

    def signing_key(self) -> ed25519.Ed25519PublicKey:
        key = self.x509().public_key()
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise ConfigError(f"The certificate of {self.name} has no Ed25519 key. Issue one from its request.")
        return key

    def transport_key(self) -> ec.EllipticCurvePublicKey:
        """The key with which the member's SuperNode or relay connects."""
        return read_transport_key(self.supernode_key)

    def fingerprint(self) -> bytes:
        return sha256(self.certificate).digest()


class HubRecord(Message, frozen=True, kw_only=True):
    """Where members find the aggregator, and the certificate that it shows there; nothing in it is secret."""

    name: str
    address: str
    certificate: bytes


_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")


def read_address(text: str) -> tuple[str, int]:
    """The host, without the brackets of an IPv6 address, and the port."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise ConfigError(f"{text!r} is no address. Give host and port, such as hub.example.org:9092.")
    return found["host"].strip("[]"), int(found["port"])


def _malformed(record: MemberRecord) -> ConfigError:
    return ConfigError(f"The record of {record.name} has a malformed certificate or key. Enrol the member again.")


@lru_cache(maxsize=4)
def _first_certificate(pem: bytes) -> x509.Certificate:
    return certificates.read_certificates(pem, "The authority's certificate")[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrustAnchor:
    """What a member believes without proof: the authority's certificate and the key that signs policies."""

    authority_pem: bytes
    policy_key: ed25519.Ed25519PublicKey
    # Records that were checked once and cannot change; only the dates between which they hold are looked at again.
    _issued: dict[MemberRecord, tuple[datetime, datetime]] = field(default_factory=dict, init=False, repr=False)

    def authority(self) -> x509.Certificate:
        return _first_certificate(self.authority_pem)

    def fingerprint(self) -> str:
        """One short text for both, to be compared over the telephone."""
        both = self.authority().fingerprint(SHA256()) + self.policy_key.public_bytes_raw()
        return spoken(digest("anchor", both))

    def check_issued(self, record: MemberRecord) -> None:
        """Refuse a record whose certificate is malformed, foreign, another's, or not made for signing."""
        if record in self._issued:
            return
        check_member_name(record.name)
        try:
            certificate = record.x509()
            sealing.check_public_key(record.sealing_key)
            record.transport_key()
        except certificates.MALFORMED:
            raise _malformed(record) from None
        certificates.check_issuer(certificate, self.authority())
        certificates.check_member_use(certificate, record.name)
        self._issued[record] = certificates.valid_together(self.authority(), certificate)

    def check_certificate(self, certificate: x509.Certificate, *, now: datetime) -> None:
        """Refuse a certificate that is foreign or, like the authority's own, not valid now."""
        certificates.check_issuer(certificate, self.authority())
        certificates.check_dates(self.authority(), now=now)
        certificates.check_dates(certificate, now=now)

    def check_member(self, record: MemberRecord, *, now: datetime) -> None:
        """Refuse, in the name of the member, a record that cannot be trusted at this moment."""
        try:
            self.check_issued(record)
            start, end = self._issued[record]
            if not start <= now <= end:
                certificates.check_dates(self.authority(), now=now)
                certificates.check_dates(record.x509(), now=now)
        except ConfigError as error:
            raise RemoteProtocolError(str(error), step="certificate", culprit=record.name) from error


def check_name(name: str) -> None:
    """Refuse a name that cannot be a file name, a certificate's subject and a word on a screen."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be used as a name. "
            "Take 1 to 64 of the characters a-z, 0-9, '.', '_' and '-', a letter or digit first."
        )


def check_member_name(name: str) -> None:
    """Refuse what `check_name` refuses, and the name of a role."""
    check_name(name)
    if name in _ROLES:
        raise ConfigError(f"{name!r} is the name of a role. Call the member by another name.")


def digest(usage: str, content: bytes) -> bytes:
    """SHA-256 of the content, another one for each usage."""
    return sha256(domain(usage) + content).digest()


def spoken(value: bytes) -> str:
    """The first 128 bits of a digest as groups that people can read to each other."""
    text = value.hex()[:32]
    return "-".join(text[at : at + 4] for at in range(0, len(text), 4))


def domain(usage: str) -> bytes:
    """The prefix that keeps what is signed or hashed for one usage apart from every other."""
    return b"fheval/1 " + usage.encode() + b"\0"


def read_transport_key(line: str) -> ec.EllipticCurvePublicKey:
    """Read a P-384 key from a line of OpenSSH's format, or raise a `ValueError`."""
    key = serialization.load_ssh_public_key(line.encode())
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise ValueError("Not a P-384 key.")
    return key
