"""The aggregator's kit: TLS certificate and key, the policy, and the public keys of the members' SuperNodes.

Nothing in it is a secret of a party. Whoever steals it can pose as the aggregator, whom nobody trusts
anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fheval.consortium import certificates, files, kit
from fheval.consortium.member_keys import private_pem
from fheval.consortium.policy import Policy, open_policy
from fheval.consortium.records import TrustAnchor
from fheval.errors import ConfigError
from fheval.secrets import Secret

SERVER_CERTIFICATE = "server.pem"
SERVER_KEY = "server.key"
SUPERNODES = "supernodes"

_README = """\
The kit of the aggregator {name}. It holds no secret of any party.

server.pem      TLS certificate of the SuperLink     (--ssl-certfile)
server.key      its private key (SECRET, mode 0600)  (--ssl-keyfile)
authority.pem   the authority's certificate          (--ssl-ca-certfile)
policy-key.pem  the public key that signs the consortium's policy
policy.fhev     the signed policy: members and rules
supernodes/     the public key of each member's SuperNode, for flwr supernode register
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AggregatorKit:
    """A loaded and checked kit of the aggregator, with the files that SuperLink and the gate are started with."""

    directory: Path
    anchor: TrustAnchor
    policy: Policy

    @property
    def certificate(self) -> Path:
        return self.directory / SERVER_CERTIFICATE

    @property
    def key(self) -> Path:
        return self.directory / SERVER_KEY

    @property
    def authority(self) -> Path:
        return self.directory / kit.AUTHORITY

    def supernode_keys(self) -> dict[str, Path]:
        """The public-key file of each member's SuperNode."""
        return {record.name: self.directory / SUPERNODES / f"{record.name}.pub" for record in self.policy.members}


def new_server_key() -> Secret[ec.EllipticCurvePrivateKey]:
    """Make a TLS key: P-256, because gRPC's TLS refuses Ed25519 in a server's own certificate."""
    return Secret(ec.generate_private_key(ec.SECP256R1()))


def fill_aggregator_kit(
    directory: Path,
    certificate: x509.Certificate,
    key: Secret[ec.EllipticCurvePrivateKey] | None,
    anchor: TrustAnchor,
    policy: bytes | None,
) -> None:
    """Write all files into a new directory; a key that was made elsewhere is put there by its owner."""
    files.write_public(directory / SERVER_CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))
    if key is not None:
        files.write_secret(directory / SERVER_KEY, private_pem(key))
    kit.write_anchor(directory, anchor)
    name = certificates.common_name(certificate)
    files.write_public(directory / kit.README, _README.format(name=name).encode())
    files.private_subdirectory(directory / SUPERNODES)
    if policy is not None:
        files.write_public(directory / kit.POLICY, policy)
        write_supernode_keys(directory, open_policy(policy, anchor))


def write_supernode_keys(directory: Path, policy: Policy) -> None:
    """Write the public key of each member's SuperNode, and delete those of members that were removed."""
    folder = files.private_subdirectory(directory / SUPERNODES)
    keys = {f"{record.name}.pub": record.supernode_key for record in policy.members}
    for name, key in keys.items():
        files.replace_public(folder / name, f"{key}\n".encode())
    for path in folder.glob("*.pub"):
        if path.name not in keys:
            path.unlink()


def load_aggregator_kit(directory: Path, *, now: datetime) -> AggregatorKit:
    """Read the kit and check everything in it, or raise a `ConfigError` that says what to do."""
    files.check_private_directory(directory)
    anchor = kit.read_anchor(directory)
    path = directory / SERVER_CERTIFICATE
    certificate = certificates.read_certificates(files.read_public(path), str(path))[0]
    anchor.check_certificate(certificate, now=now)
    _check_key(directory / SERVER_KEY, certificate)
    policy = kit.read_policy(directory, anchor, now=now)
    return AggregatorKit(directory=directory, anchor=anchor, policy=policy)


def _check_key(path: Path, certificate: x509.Certificate) -> None:
    pem = files.read_secret(path)
    try:
        key = serialization.load_pem_private_key(pem.reveal(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"{path} does not hold an unencrypted private key in PEM format.") from None
    if not certificates.is_for(certificate, key.public_key()):
        raise ConfigError(f"{path} does not belong to {SERVER_CERTIFICATE}. Use the whole kit.")
