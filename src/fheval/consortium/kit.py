"""A member's kit: one directory with everything a vault needs to act as that member.

Loading a kit is where a wrong mode, a foreign, expired or mixed-up certificate and an unsigned policy are
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fheval.consortium import certificates, files, member_keys
from fheval.consortium.identity import Identity
from fheval.consortium.policy import Policy, Roster, open_policy
from fheval.consortium.records import MemberRecord, TrustAnchor
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.study import Study

CERTIFICATE = "certificate.pem"
AUTHORITY = "authority.pem"
POLICY_KEY = "policy-key.pem"
POLICY = "policy.fhev"
README = "README.txt"

_README = """\
The kit of the member {name}. Only the user who runs the vault may read this directory.

signing.key      signs this member's messages (SECRET)
opening.key      opens what is sealed to this member: FHE keys and pad seed (SECRET)
certificate.pem  says that the signing key is this member's
authority.pem    the certificate of the consortium's authority
policy-key.pem   the public key that signs the consortium's policy
policy.fhev      the signed policy: members and rules
supernode/       for the Flower SuperNode only: its key (SECRET) and public key, the authority's certificate

Move supernode/ to the user who runs the SuperNode. That process runs code that the aggregator sends, so it
must not be able to read anything else here. Back this directory up; a lost kit is replaced by a new one.
Compare the authority's fingerprint with the operator of the consortium, over the telephone:
{anchor}
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kit:
    """A loaded and checked kit."""

    directory: Path
    identity: Identity
    policy: Policy

    def roster(self, names: Sequence[str], *, now: datetime) -> Roster:
        """The records of a round's members, each with a certificate that is valid now."""
        return self._checked(self.policy.roster(names), now)

    def check_round(self, study: Study, parties: Sequence[str], *, now: datetime) -> Roster:
        """Refuse a round that breaks the policy, leaves this member out or has a bad certificate in it."""
        return self._checked(self.policy.check_round(study, parties, now=now), now)

    def _checked(self, roster: Roster, now: datetime) -> Roster:
        roster.member(self.identity.name)
        for record in roster.members:
            self.identity.anchor.check_member(record, now=now)
        return roster


def place_public_files(
    directory: Path, certificate: x509.Certificate, anchor: TrustAnchor, policy: bytes | None
) -> None:
    """Write what the authority gives, beside the member's keys; the certificate completes the kit.

    `policy` is absent when none has been signed yet.
    """
    name = certificates.common_name(certificate)
    write_anchor(directory, anchor)
    files.replace_public(
        files.private_subdirectory(directory / member_keys.SUPERNODE_DIRECTORY) / AUTHORITY, anchor.authority_pem
    )
    if policy is not None:
        files.replace_public(directory / POLICY, policy)
    files.replace_public(directory / README, _README.format(name=name, anchor=anchor.fingerprint()).encode())
    files.replace_public(directory / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))


def load_kit(directory: Path, *, now: datetime) -> Kit:
    """Read a kit and check everything in it, or raise a `ConfigError` that says what to do."""
    files.check_private_directory(directory)
    if not (directory / CERTIFICATE).exists():
        raise ConfigError(
            f"The kit {directory} has no certificate yet. Send its request to the authority, then run "
            "fheval consortium accept with the reply."
        )
    anchor = read_anchor(directory)
    certificate = certificates.read_certificates(files.read_public(directory / CERTIFICATE), CERTIFICATE)[0]
    name = certificates.common_name(certificate)
    anchor.check_certificate(certificate, now=now)
    certificates.check_member_use(certificate, name)
    policy = read_policy(directory, anchor, now=now)
    identity = Identity(
        record=_own_record(policy, name),
        anchor=anchor,
        signing_key=member_keys.read_signing_key(directory / member_keys.SIGNING_KEY),
        opening_key=member_keys.read_opening_key(directory / member_keys.OPENING_KEY),
    )
    _check_own_keys(identity, certificate, policy)
    return Kit(directory=directory, identity=identity, policy=policy)


def check_new_policy(directory: Path, data: bytes, anchor: TrustAnchor, *, now: datetime) -> Policy:
    """Refuse a policy that must not replace the kit's own; the same one again is fine."""
    policy = open_policy(data, anchor)
    policy.check_dates(now=now)
    path = directory / POLICY
    if path.exists() and files.read_public(path) != data:
        policy.check_succeeds(open_policy(files.read_public(path), anchor))
    return policy


def read_policy(directory: Path, anchor: TrustAnchor, *, now: datetime) -> Policy:
    """Read the policy of a kit, which must be valid now."""
    path = directory / POLICY
    if not path.exists():
        raise ConfigError(
            f"The kit {directory} has no policy yet. Get policy.fhev from the authority, then: "
            f"fheval consortium update {directory} policy.fhev"
        )
    try:
        policy = open_policy(files.read_public(path), anchor)
        policy.check_dates(now=now)
    except RemoteProtocolError as error:
        raise ConfigError(f"{path} cannot be used. {error}") from error
    return policy


def supernode_files(directory: Path) -> tuple[Path, Path]:
    """The files of the SuperNode's private key and of the authority's certificate, if the key's mode is right."""
    files.check_private_directory(directory)
    key, authority = directory / member_keys.SUPERNODE_KEY, directory / AUTHORITY
    files.read_secret(key)
    files.read_public(authority)
    return key, authority


def write_anchor(directory: Path, anchor: TrustAnchor) -> None:
    """Write the authority's certificate and the key that signs policies."""
    files.replace_public(directory / AUTHORITY, anchor.authority_pem)
    pem = anchor.policy_key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    files.replace_public(directory / POLICY_KEY, pem)


def read_anchor(directory: Path) -> TrustAnchor:
    """Read the authority's certificate and the key that signs policies."""
    path = directory / POLICY_KEY
    try:
        key = serialization.load_pem_public_key(files.read_public(path))
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path} does not hold an Ed25519 public key. Restore it from your backup.")
    pem = files.read_public(directory / AUTHORITY)
    certificates.read_certificates(pem, str(directory / AUTHORITY))
    return TrustAnchor(authority_pem=pem, policy_key=key)


def _own_record(policy: Policy, name: str) -> MemberRecord:
    try:
        return policy.member(name)
    except RemoteProtocolError:
        raise ConfigError(
            f"Policy version {policy.version} of {policy.consortium} does not list {name}. "
            "Ask the authority whether you were removed, or for a newer policy."
        ) from None


def _check_own_keys(identity: Identity, certificate: x509.Certificate, policy: Policy) -> None:
    record = identity.record
    if record.certificate != certificate.public_bytes(serialization.Encoding.DER):
        raise ConfigError(
            f"Policy version {policy.version} lists another certificate of {record.name}. "
            "Use the newest kit, or ask the authority for a newer policy."
        )
    if identity.signing_key.reveal().public_key().public_bytes_raw() != record.signing_key().public_bytes_raw():
        raise ConfigError(
            f"{member_keys.SIGNING_KEY} does not belong to the certificate of {record.name}. Use the whole kit."
        )
    if identity.opening_key.public_bytes() != record.sealing_key:
        raise ConfigError(
            f"{member_keys.OPENING_KEY} is not the key that the policy lists for {record.name}. Use the whole kit."
        )
