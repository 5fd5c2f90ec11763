"""Kits: one directory with everything that a member's vault, or the aggregator, needs to act as such.

Loading a kit is where a wrong mode, a foreign, expired or mixed-up certificate and an unsigned policy are
refused. The aggregator's kit holds no secret of a party: whoever steals it can pose as the aggregator, whom
nobody trusts anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fheval.consortium import certificates, files, member_keys
from fheval.consortium.identity import Identity
from fheval.consortium.member_keys import OPENING_KEY, SIGNING_KEY
from fheval.consortium.policy import Policy, Roster, open_policy
from fheval.consortium.records import MemberRecord, TrustAnchor, check_name
from fheval.consortium.signed_study import open_study
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.study import Study
from fheval.wire import Message, decode, encode

CERTIFICATE = "certificate.pem"
AUTHORITY = "authority.pem"
POLICY_KEY = "policy-key.pem"
POLICY = "policy.fhev"
SERVER_KEY = "server.key"
SERVER_CERTIFICATE = "server.pem"
STUDIES = "studies"

_LEDGER = "ledger.fhev"
_HUB = "hub.address"
_SUPERNODES = "supernodes"
_README = "README.txt"

_MEMBERS_README = """\
The kit of the member {name}. Only the user who runs the vault may read this directory.

signing.key      signs this member's messages (SECRET)
opening.key      opens what is sealed to this member: FHE keys and pad seed (SECRET)
certificate.pem  says that the signing key is this member's
authority.pem    the certificate of the consortium's authority
policy-key.pem   the public key that signs the consortium's policy
policy.fhev      the signed policy: members and rules
ledger.fhev      where the vault's ledger is, once there is one
transport/       for the connection to the aggregator only: its key (SECRET), that key's certificate, the authority's

Move transport/ to the user who runs `fheval party up`. With Flower that process runs code that the aggregator
sends, so it must not be able to read anything else here. Back this directory up; a lost kit is replaced by a new one.
Compare the authority's fingerprint with the operator of the consortium, over the telephone:
{anchor}
"""

_AGGREGATORS_README = """\
The kit of the aggregator {name}. It holds no secret of any party.

server.pem      TLS certificate of the SuperLink     (--ssl-certfile)
server.key      its private key (SECRET, mode 0600)  (--ssl-keyfile)
authority.pem   the authority's certificate          (--ssl-ca-certfile)
policy-key.pem  the public key that signs the consortium's policy
policy.fhev     the signed policy: members and rules
studies/        the signed studies that rounds may be asked of
supernodes/     the public key of each member's SuperNode, for flwr supernode register
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kit:
    """A loaded and checked kit of a member."""

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AggregatorKit:
    """A loaded and checked kit of the aggregator, with the files that SuperLink and the gate are started with."""

    directory: Path
    certificate: Path
    key: Path
    policy: Policy
    anchor: TrustAnchor

    def study(self, name: str) -> Study:
        """The signed study of this name."""
        paths = self.studies()
        if name not in paths:
            raise ConfigError(
                f"The kit has no study {name!r}; it has: {', '.join(sorted(paths)) or 'none'}. "
                f"Get it from the authority, then: fheval consortium update {self.directory} STUDY.fhev"
            )
        return open_study(files.read_public(paths[name]), self.anchor)

    def studies(self) -> dict[str, Path]:
        """The file of each signed study, by the study's name."""
        return {path.stem: path for path in (self.directory / STUDIES).glob("*.fhev")}

    def supernode_keys(self) -> dict[str, Path]:
        """The public-key file of each member's SuperNode."""
        return {record.name: self.directory / _SUPERNODES / f"{record.name}.pub" for record in self.policy.members}


def place_members_files(
    directory: Path,
    certificate: x509.Certificate,
    transport: x509.Certificate | None,
    anchor: TrustAnchor,
    policy: bytes | None,
) -> None:
    """Write what the authority gives, beside the member's keys; the certificate completes the kit.

    `policy` is absent when none has been signed yet.
    """
    readme = _MEMBERS_README.format(name=certificates.common_name(certificate), anchor=anchor.fingerprint())
    supernode = files.private_subdirectory(directory / member_keys.TRANSPORT_DIRECTORY)
    files.replace_public(supernode / AUTHORITY, anchor.authority_pem)
    if transport is not None:
        files.replace_public(supernode / CERTIFICATE, transport.public_bytes(serialization.Encoding.PEM))
    _place(directory, anchor, policy, readme)
    files.replace_public(directory / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))


def place_aggregators_files(
    directory: Path, certificate: x509.Certificate, anchor: TrustAnchor, policy: bytes | None
) -> None:
    """Write what the authority gives to the aggregator, beside its key."""
    _place(directory, anchor, policy, _AGGREGATORS_README.format(name=certificates.common_name(certificate)))
    files.replace_public(directory / SERVER_CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))
    _write_supernode_keys(directory, () if policy is None else open_policy(policy, anchor).members)


def load_kit(directory: Path, *, now: datetime) -> Kit:
    """Read a member's kit and check everything in it, or raise a `ConfigError` that says what to do."""
    files.check_private_directory(directory)
    if not (directory / CERTIFICATE).exists():
        raise ConfigError(
            f"The kit {directory} has no certificate yet. Send its request to the authority, then run "
            "fheval consortium accept with the reply."
        )
    anchor = read_anchor(directory)
    certificate = certificates.read_certificate(directory / CERTIFICATE)
    name = certificates.common_name(certificate)
    anchor.check_certificate(certificate, now=now)
    certificates.check_member_use(certificate, name)
    policy = _read_policy(directory, anchor, now=now)
    identity = Identity(
        record=_own_record(policy, name),
        anchor=anchor,
        signing_key=member_keys.read_signing_key(directory / SIGNING_KEY),
        opening_key=member_keys.read_opening_key(directory / OPENING_KEY),
    )
    _check_own_keys(identity, certificate, policy)
    return Kit(directory=directory, identity=identity, policy=policy)


def load_aggregator_kit(directory: Path, *, now: datetime) -> AggregatorKit:
    """Read the aggregator's kit and check everything in it, or raise a `ConfigError` that says what to do."""
    files.check_private_directory(directory)
    anchor = read_anchor(directory)
    path, key = directory / SERVER_CERTIFICATE, directory / SERVER_KEY
    certificate = certificates.read_certificate(path)
    anchor.check_certificate(certificate, now=now)
    if not certificates.is_for(certificate, member_keys.read_private_key(key).reveal().public_key()):
        raise ConfigError(f"{key} does not belong to {SERVER_CERTIFICATE}. Use the whole kit.")
    policy = _read_policy(directory, anchor, now=now)
    return AggregatorKit(directory=directory, certificate=path, key=key, policy=policy, anchor=anchor)


def install_policy(directory: Path, data: bytes, *, now: datetime) -> Policy:
    """Put a newer signed policy into a kit; older, foreign, altered and expired ones are refused."""
    files.check_private_directory(directory)
    policy = check_new_policy(directory, data, read_anchor(directory), now=now)
    if (directory / SERVER_CERTIFICATE).exists():
        _write_supernode_keys(directory, policy.members)
    files.replace_public(directory / POLICY, data)
    return policy


def install_study(directory: Path, data: bytes) -> Study:
    """Put a signed study into an aggregator's kit; foreign and altered ones are refused."""
    files.check_private_directory(directory)
    study = open_study(data, read_anchor(directory))
    check_name(study.name)
    if not (directory / SERVER_CERTIFICATE).exists():
        raise ConfigError(
            f"{directory} is a member's kit, and a member decides about a study: "
            f"fheval vault accept --kit {directory} {study.name}.fhev …"
        )
    files.replace_public(files.private_subdirectory(directory / STUDIES) / f"{study.name}.fhev", data)
    return study


def check_new_policy(directory: Path, data: bytes, anchor: TrustAnchor, *, now: datetime) -> Policy:
    """Refuse a policy that must not replace the kit's own; the same one again is fine."""
    policy = open_policy(data, anchor)
    policy.check_dates(now=now)
    path = directory / POLICY
    if path.exists() and files.read_public(path) != data:
        policy.check_succeeds(open_policy(files.read_public(path), anchor))
    return policy


def place_studies(directory: Path, studies: Mapping[str, bytes]) -> None:
    """Keep signed studies in a kit, by name: those that a hub may ask, or a member's operator may accept."""
    folder = files.private_subdirectory(directory / STUDIES)
    for name, signed in studies.items():
        check_name(name)
        files.replace_public(folder / f"{name}.fhev", signed)


def kept_study(directory: Path, name: str) -> bytes:
    """The signed study of this name that came with the authority's bulletin."""
    check_name(name)
    path = directory / STUDIES / f"{name}.fhev"
    if not path.exists():
        there = ", ".join(sorted(each.stem for each in (directory / STUDIES).glob("*.fhev"))) or "none"
        raise ConfigError(f"The kit {directory} has no study {name!r}; it has: {there}. Ask the authority for it.")
    return files.read_public(path)


def kept_policy(directory: Path) -> bytes:
    """The signed policy of a kit."""
    return files.read_public(directory / POLICY)


def place_hub(directory: Path, address: str) -> None:
    """Note in a member's kit, for its relay, where the hub is."""
    folder = files.private_subdirectory(directory / member_keys.TRANSPORT_DIRECTORY)
    files.replace_public(folder / _HUB, f"{address}\n".encode())


class LedgerPlace(Message, frozen=True, kw_only=True):
    """Where the ledger of a kit's vault is, and the id that is written in it.

    Both are None in a kit that replaces another one: there is a ledger already, and this kit has not seen it yet.
    """

    id: str | None
    directory: str | None


def ledger_place(directory: Path) -> LedgerPlace | None:
    """Where the ledger of this kit is; None while its vault has never had one."""
    path = directory / _LEDGER
    return decode(files.read_public(path), LedgerPlace, sender="this kit") if path.exists() else None


def place_ledger(directory: Path, place: LedgerPlace) -> None:
    """Remember in the kit where its ledger is."""
    files.replace_public(directory / _LEDGER, encode(place))


def expect_ledger(directory: Path) -> None:
    """Note that this kit replaces another one of the same member, so that it must not begin with an empty ledger."""
    if ledger_place(directory) is None:
        place_ledger(directory, LedgerPlace(id=None, directory=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportFiles:
    """What a member connects with: its key and that key's certificate, the authority's certificate, the hub's address.

    The address is absent where the kit did not come with the authority's bulletin.
    """

    key: Path
    certificate: Path
    authority: Path
    hub: str | None = None


def transport_files(directory: Path) -> TransportFiles:
    """Find them in the directory `transport/` of a kit; refused unless only its owner can read the key."""
    files.check_private_directory(directory)
    found = TransportFiles(
        key=directory / member_keys.TRANSPORT_KEY,
        certificate=directory / CERTIFICATE,
        authority=directory / AUTHORITY,
        hub=files.read_public(directory / _HUB).decode().strip() if (directory / _HUB).exists() else None,
    )
    files.read_secret(found.key)
    files.read_public(found.authority)
    return found


def read_anchor(directory: Path) -> TrustAnchor:
    """Read the authority's certificate and the key that signs policies."""
    path = directory / POLICY_KEY
    try:
        key = serialization.load_pem_public_key(files.read_public(path))
    except certificates.MALFORMED:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path} does not hold an Ed25519 public key. Restore it from your backup.")
    pem = files.read_public(directory / AUTHORITY)
    certificates.read_certificates(pem, str(directory / AUTHORITY))
    return TrustAnchor(authority_pem=pem, policy_key=key)


def _place(directory: Path, anchor: TrustAnchor, policy: bytes | None, readme: str) -> None:
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    files.replace_public(directory / AUTHORITY, anchor.authority_pem)
    files.replace_public(directory / POLICY_KEY, anchor.policy_key.public_bytes(*form))
    if policy is not None:
        files.replace_public(directory / POLICY, policy)
    files.replace_public(directory / _README, readme.encode())


def _write_supernode_keys(directory: Path, members: Sequence[MemberRecord]) -> None:
    """Write the public key of each member's SuperNode, and delete those of members that were removed."""
    folder = files.private_subdirectory(directory / _SUPERNODES)
    keys = {f"{record.name}.pub": record.supernode_key for record in members}
    for name, key in keys.items():
        files.replace_public(folder / name, f"{key}\n".encode())
    for path in folder.glob("*.pub"):
        if path.name not in keys:
            path.unlink()


def _read_policy(directory: Path, anchor: TrustAnchor, *, now: datetime) -> Policy:
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
    if not certificates.is_for(certificate, identity.signing_key.reveal().public_key()):
        raise ConfigError(f"{SIGNING_KEY} does not belong to the certificate of {record.name}. Use the whole kit.")
    if identity.opening_key.public_bytes() != record.sealing_key:
        raise ConfigError(f"{OPENING_KEY} is not the key that the policy lists for {record.name}. Use the whole kit.")
