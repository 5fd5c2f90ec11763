"""The consortium's authority: a directory with its keys, the register of members, every policy and study it signed.

Two keys: the X.509 key issues certificates (it may be brought along, or stay outside altogether with
certificates issued elsewhere), and an Ed25519 key, always made here, signs policies and studies. Members get both
public halves in their kits and believe nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fheval.consortium import certificates, files, kit
from fheval.consortium.certificates import CLOCK_SKEW, AuthorityKey, Issuer
from fheval.consortium.member_keys import private_pem, read_private_key, read_signing_key
from fheval.consortium.policy import Policy, Rules, open_policy, sign_policy
from fheval.consortium.records import HubRecord, MemberRecord, TrustAnchor, check_name
from fheval.consortium.signed_study import fit_to, sign_study
from fheval.errors import ConfigError
from fheval.secrets import Secret
from fheval.study import Study
from fheval.wire import decode, encode

AUTHORITY_YEARS = 10

_FACTS = "consortium.json"
_CERTIFICATE = "ca.pem"
_KEY = "ca.key"
_POLICY_KEY = "policy.key"
_POLICY = "policy.fhev"
_TRANSPORTS = "transports"

_README = """\
The authority of a consortium. Keep this directory on a machine of its own, and a backup of it under lock.

ca.pem        the authority's certificate (public)
ca.key        its private key, which issues certificates (SECRET; absent if certificates are issued elsewhere)
policy.key    the key that signs policies (SECRET)
policy.fhev   the current policy (public): every member and the aggregator need it
policies/     every version ever signed (public)
studies/      every study ever signed (public): every member accepts its own copy, and the aggregator needs one
members/      the public record of each enrolled member
removed/      records of members that were removed or replaced
aggregators/  TLS certificates of aggregators, and where they are found (public)
transports/   certificates of members' connections (public)
kits/         kits that were made here and not moved yet (SECRET): hand them over safely, then delete them
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Authority:
    """An opened authority: its register, its certificates and its policies.

    `key` is absent when certificates are issued elsewhere.
    """

    directory: Path
    consortium: str
    anchor: TrustAnchor
    key: Secret[AuthorityKey] | None
    policy_key: Secret[Ed25519PrivateKey]

    def members(self) -> list[MemberRecord]:
        paths = sorted((self.directory / "members").glob("*.member"))
        return [decode(files.read_public(path), MemberRecord, sender="authority") for path in paths]

    def register(self, record: MemberRecord, *, renew: bool) -> None:
        """Enter a member; with `renew`, put its new record in place of the old one."""
        self.anchor.check_issued(record)
        if renew:
            self.remove(record.name)
        files.write_public(self._member_path(record.name), encode(record))

    def remove(self, name: str) -> None:
        """Strike a member off the register; it stays a member until the next policy is signed."""
        self._require_enrolled(name)
        path = self._member_path(name)
        record = decode(files.read_public(path), MemberRecord, sender="authority")
        path.replace(self.directory / "removed" / f"{name}-{record.fingerprint().hex()[:16]}.member")

    def is_enrolled(self, name: str) -> bool:
        return self._member_path(name).exists()

    def aggregators(self) -> dict[str, x509.Certificate]:
        paths = sorted((self.directory / "aggregators").glob("*.pem"))
        return {path.stem: certificates.read_certificate(path) for path in paths}

    def hubs(self) -> list[HubRecord]:
        """Where aggregators that asked for their certificates are found."""
        paths = sorted((self.directory / "aggregators").glob("*.hub"))
        return [decode(files.read_public(path), HubRecord, sender="authority") for path in paths]

    def register_hub(self, record: HubRecord) -> None:
        """Enter an aggregator that keeps its own key, in place of an older one of the same name."""
        self.register_aggregator(record.name, certificates.certificate_from_der(record.certificate))
        files.replace_public(self.directory / "aggregators" / f"{record.name}.hub", encode(record))

    def transports(self) -> dict[str, bytes]:
        """The newest certificate of each member's connections that was issued to be published."""
        return {path.stem: files.read_public(path) for path in (self.directory / _TRANSPORTS).glob("*.der")}

    def register_transport(self, name: str, certificate: bytes) -> None:
        folder = files.private_subdirectory(self.directory / _TRANSPORTS)
        files.replace_public(folder / f"{name}.der", certificate)

    def had_other_keys(self, name: str) -> bool:
        """Whether a member of this name was enrolled with other keys before, so that its vault has a ledger."""
        return any((self.directory / "removed").glob(f"{name}-{'[0-9a-f]' * 16}.member"))

    def studies(self) -> list[bytes]:
        """Every study ever signed, by name."""
        return [files.read_public(path) for path in sorted((self.directory / "studies").glob("*.fhev"))]

    def register_aggregator(self, name: str, certificate: x509.Certificate) -> None:
        """Keep an aggregator's TLS certificate, in place of an older one of the same name."""
        check_name(name)
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        files.replace_public(self.directory / "aggregators" / f"{name}.pem", pem)

    def policy_bytes(self) -> bytes | None:
        """The current signed policy, if one was signed."""
        path = self.directory / _POLICY
        return files.read_public(path) if path.exists() else None

    def policy(self) -> Policy | None:
        data = self.policy_bytes()
        return None if data is None else open_policy(data, self.anchor)

    def sign_next_policy(self, rules: Rules, *, now: datetime, days: int, remove: Sequence[str] = ()) -> Policy:
        """Sign the next version, with every enrolled member but those to remove, and make it current."""
        # The number after the last one written, even if a crash kept that one from becoming current.
        signed_before = [int(path.stem) for path in (self.directory / "policies").glob("*.fhev")]
        for name in remove:
            self._require_enrolled(name)
        policy = Policy(
            consortium=self.consortium,
            version=max(signed_before, default=0) + 1,
            not_before=int((now - CLOCK_SKEW).timestamp()),
            not_after=int((now + timedelta(days=days)).timestamp()),
            members=tuple(record for record in self.members() if record.name not in remove),
            rules=rules,
        )
        for record in policy.members:
            certificates.check_dates(record.x509(), now=now)
        signed = sign_policy(policy, self.policy_key, self.anchor)
        for name in remove:
            self.remove(name)
        # Written anew, never over: two versions with one number must not exist.
        files.write_public(self.directory / "policies" / f"{policy.version:06d}.fhev", signed)
        files.replace_public(self.directory / _POLICY, signed)
        return policy

    def sign_study(self, study: Study) -> tuple[Study, bytes]:
        """Sign a study for the members of the current policy; one that bears the name of another is refused."""
        policy = self.policy()
        if policy is None:
            raise ConfigError(f"No policy has been signed yet. First: fheval consortium policy {self.directory}")
        study = fit_to(study, policy)
        signed = sign_study(study, policy, self.policy_key)
        # Signatures are deterministic, so that the same study gives the same file.
        path = files.private_subdirectory(self.directory / "studies") / f"{study.name}.fhev"
        if not path.exists():
            files.write_public(path, signed)
        elif files.read_public(path) != signed:
            raise ConfigError(f"Another study was signed as {study.name}. Give this one a name of its own.")
        return study, signed

    def update_local_kits(self, *, now: datetime) -> list[Path]:
        """Put the current policy into the kits that still lie here; return their directories."""
        data = self.policy_bytes()
        if data is None:
            return []
        kits = sorted(path.parent for path in self.kits_directory().glob(f"*/{kit.POLICY_KEY}"))
        for directory in kits:
            kit.install_policy(directory, data, now=now)
        return kits

    def kits_directory(self) -> Path:
        return self.directory / "kits"

    def _member_path(self, name: str) -> Path:
        check_name(name)
        return self.directory / "members" / f"{name}.member"

    def _require_enrolled(self, name: str) -> None:
        if not self.is_enrolled(name):
            raise ConfigError(f"{name!r} is not enrolled. See fheval consortium list {self.directory}")

    def issuer(self, *, now: datetime) -> Issuer:
        """What issues certificates, if the key is here and the authority is valid now."""
        if self.key is None:
            raise ConfigError(
                "This authority has no private key here: certificates are issued elsewhere. "
                "Give the issued one with --certificate."
            )
        authority = self.anchor.authority()
        certificates.check_dates(authority, now=now)
        return Issuer(authority, self.key)


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    format: Literal[1]
    name: str


def create_authority(directory: Path, consortium: str, *, now: datetime) -> Authority:
    """Make a new Ed25519 authority in a new directory."""
    _check_consortium_name(consortium)
    key = Ed25519PrivateKey.generate()
    certificate = certificates.authority_certificate(consortium, key, now=now, days=365 * AUTHORITY_YEARS)
    return _write(directory, consortium, certificate.public_bytes(serialization.Encoding.PEM), Secret(key))


def import_authority(
    directory: Path, consortium: str, *, certificate: Path, key: Path | None, now: datetime
) -> Authority:
    """Take an existing X.509 authority; without its private key, certificates are issued elsewhere."""
    _check_consortium_name(consortium)
    pem = files.read_public(certificate)
    chain = certificates.read_certificates(pem, str(certificate))
    certificates.check_authority(chain, now=now)
    secret = None if key is None else _read_authority_key(key)
    if secret is not None and not certificates.is_for(chain[0], secret.reveal().public_key()):
        name = certificates.common_name(chain[0])
        raise ConfigError(f"The private key does not belong to the certificate of {name}. Give the matching pair.")
    return _write(directory, consortium, pem, secret)


def load_authority(directory: Path) -> Authority:
    """Open an authority's directory, or refuse it when others could read its keys."""
    files.check_private_directory(directory)
    policy_key = read_signing_key(directory / _POLICY_KEY)
    pem, public = files.read_public(directory / _CERTIFICATE), policy_key.reveal().public_key()
    return Authority(
        directory=directory,
        consortium=_read_name(directory / _FACTS),
        anchor=TrustAnchor(authority_pem=pem, policy_key=public),
        key=_read_authority_key(directory / _KEY) if (directory / _KEY).exists() else None,
        policy_key=policy_key,
    )


def _write(directory: Path, consortium: str, pem: bytes, key: Secret[AuthorityKey] | None) -> Authority:
    with files.new_directory(directory) as building:
        for name in ("members", "removed", "aggregators", "policies", "studies", "kits"):
            files.private_subdirectory(building / name)
        files.write_public(building / _FACTS, msgspec.json.encode(_Facts(format=1, name=consortium)))
        files.write_public(building / _CERTIFICATE, pem)
        if key is not None:
            files.write_secret(building / _KEY, private_pem(key))
        files.write_secret(building / _POLICY_KEY, private_pem(Secret(Ed25519PrivateKey.generate())))
        files.write_public(building / "README.txt", _README.encode())
    return load_authority(directory)


def _read_authority_key(path: Path) -> Secret[AuthorityKey]:
    key = read_private_key(path).reveal()
    if not isinstance(key, AuthorityKey):
        raise ConfigError(f"The key in {path} cannot sign certificates. Use an Ed25519, ECDSA or RSA key.")
    return Secret(key)


def _read_name(path: Path) -> str:
    try:
        return msgspec.json.decode(files.read_public(path), type=_Facts).name
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError(
            f"{path} is not one that this version of fheval wrote. Restore it from your backup."
        ) from None


def _check_consortium_name(name: str) -> None:
    # The subject of a certificate holds at most 64 characters.
    if not 1 <= len(name) <= 64 or not name.isprintable() or name != name.strip():
        raise ConfigError(f"{name!r} cannot name a consortium. Take 1 to 64 printable characters.")
