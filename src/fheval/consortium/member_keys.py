"""Private keys: made at the member or by the authority, and kept in files of mode 0600.

A member has three keys for three uses: Ed25519 signs messages, the ML-KEM/X25519 hybrid opens what is sealed to the
member, and a P-384 key in OpenSSH's format, as Flower wants it, authenticates the SuperNode.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from fheval.consortium.certificates import AuthorityKey
from fheval.consortium.files import private_subdirectory, read_secret, write_public, write_secret
from fheval.consortium.records import MemberRecord
from fheval.consortium.sealing import OpeningKey
from fheval.errors import ConfigError
from fheval.secrets import Secret

K = TypeVar("K", bound=AuthorityKey)

SIGNING_KEY = "signing.key"
OPENING_KEY = "opening.key"
TRANSPORT_DIRECTORY = "transport"
TRANSPORT_KEY = "transport.key"
TRANSPORT_PUBLIC = "transport.pub"


@dataclass(frozen=True, slots=True, eq=False)
class MemberKeys:
    """The private keys of one member, made anew with `generate`."""

    signing: Secret[Ed25519PrivateKey]
    opening: OpeningKey
    supernode: Secret[ec.EllipticCurvePrivateKey]

    @classmethod
    def generate(cls) -> MemberKeys:
        return cls(
            Secret(Ed25519PrivateKey.generate()), OpeningKey.generate(), Secret(ec.generate_private_key(ec.SECP384R1()))
        )

    def record(self, name: str, certificate: x509.Certificate) -> MemberRecord:
        return MemberRecord(
            name=name,
            certificate=certificate.public_bytes(serialization.Encoding.DER),
            sealing_key=self.opening.public_bytes(),
            supernode_key=self.supernode_public(),
        )

    def supernode_public(self) -> str:
        """The SuperNode's public key, as one line of OpenSSH's format."""
        public = self.supernode.reveal().public_key()
        return public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()

    def write(self, directory: Path) -> None:
        """Write the keys; the SuperNode's has a directory of its own, as that process must see no other."""
        write_secret(directory / SIGNING_KEY, private_pem(self.signing))
        write_secret(directory / OPENING_KEY, self.opening.to_pem())
        supernode = private_subdirectory(directory / TRANSPORT_DIRECTORY)
        openssh = self.supernode.reveal().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        write_secret(supernode / TRANSPORT_KEY, Secret(openssh))
        write_public(supernode / TRANSPORT_PUBLIC, f"{self.supernode_public()}\n".encode())


def new_server_key() -> Secret[ec.EllipticCurvePrivateKey]:
    """Make a TLS key: P-256, because gRPC's TLS refuses Ed25519 in a server's own certificate."""
    return Secret(ec.generate_private_key(ec.SECP256R1()))


def read_private_key(path: Path) -> Secret[PrivateKeyTypes]:
    """Read a key of whatever kind from a file that only its owner can read."""
    pem = read_secret(path)
    try:
        return Secret(serialization.load_pem_private_key(pem.reveal(), password=None))
    except TypeError:
        raise ConfigError(
            f"The key in {path} is encrypted. Give a decrypted copy (openssl pkey -in OLD -out NEW), "
            "and delete the copy afterwards."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"{path} holds no private key in PEM format. Check the file and your backup.") from None


def read_signing_key(path: Path) -> Secret[Ed25519PrivateKey]:
    """Read an Ed25519 key from a file that only its owner can read."""
    key = read_private_key(path).reveal()
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} does not hold an Ed25519 key. Restore it from your backup.")
    return Secret(key)


def read_transport_key_pem(path: Path) -> Secret[bytes]:
    """Read the key of a member's connections, and give it in the form that TLS libraries take."""
    openssh = read_secret(path)
    try:
        key = serialization.load_ssh_private_key(openssh.reveal(), password=None)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path} holds no key for connections in OpenSSH's format. Use the whole kit.")
    return private_pem(Secret(key))


def read_opening_key(path: Path) -> OpeningKey:
    """Read the key that opens what is sealed to the member."""
    return OpeningKey.from_pem(read_secret(path), str(path))


def private_pem(key: Secret[K]) -> Secret[bytes]:
    """A private key as PKCS #8 in PEM, not encrypted."""
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return Secret(key.reveal().private_bytes(*form))
