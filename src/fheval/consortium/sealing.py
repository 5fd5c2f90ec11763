"""HPKE with the hybrid of ML-KEM-768 and X25519: a secret for one recipient, bound to a context.

The suite is RFC 9180's base mode with that KEM, HKDF-SHA256 and AES-256-GCM, all of it `cryptography`'s
own. It holds as long as either half of the hybrid holds. Base mode does not say who sealed: a signature
beside it does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, MLKEM768X25519PublicKey, Suite

from fheval.errors import ConfigError
from fheval.secrets import Secret

_MLKEM_PUBLIC_BYTES = 1184

_PEM_BLOCK = re.compile(rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----\n?", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class OpeningKey:
    """A member's private key for what is sealed to it; it neither prints nor pickles."""

    _mlkem: Secret[MLKEM768PrivateKey]
    _x25519: Secret[X25519PrivateKey]

    @classmethod
    def generate(cls) -> OpeningKey:
        try:
            return cls(Secret(MLKEM768PrivateKey.generate()), Secret(X25519PrivateKey.generate()))
        except UnsupportedAlgorithm:
            raise _no_mlkem() from None

    @classmethod
    def from_pem(cls, pem: Secret[bytes], source: str) -> OpeningKey:
        """Read a key that `to_pem` wrote."""
        try:
            mlkem, x25519 = (
                serialization.load_pem_private_key(block, password=None) for block in _PEM_BLOCK.findall(pem.reveal())
            )
        except UnsupportedAlgorithm:
            raise _no_mlkem() from None
        except ValueError:
            raise _bad_file(source) from None
        if not isinstance(mlkem, MLKEM768PrivateKey) or not isinstance(x25519, X25519PrivateKey):
            raise _bad_file(source)
        return cls(Secret(mlkem), Secret(x25519))

    def to_pem(self) -> Secret[bytes]:
        """Both halves as PKCS #8, one after the other."""
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return Secret(self._mlkem.reveal().private_bytes(*form) + self._x25519.reveal().private_bytes(*form))

    def public_bytes(self) -> bytes:
        """The public key: that of ML-KEM-768, then that of X25519."""
        mlkem, x25519 = self._mlkem.reveal().public_key(), self._x25519.reveal().public_key()
        return mlkem.public_bytes_raw() + x25519.public_bytes_raw()

    def open(self, sealed: bytes, info: bytes) -> Secret[bytes]:
        """Open what was sealed to this key in this context, or raise `cryptography.exceptions.InvalidTag`."""
        key = MLKEM768X25519PrivateKey(self._mlkem.reveal(), self._x25519.reveal())
        return Secret(_suite().decrypt(sealed, key, info=info))

    def __repr__(self) -> str:
        return "OpeningKey(…)"


def seal(public_key: bytes, payload: Secret[bytes], info: bytes) -> bytes:
    """Seal a payload so that only the holder of the private key opens it, and only in the same context."""
    try:
        mlkem = MLKEM768PublicKey.from_public_bytes(public_key[:_MLKEM_PUBLIC_BYTES])
    except UnsupportedAlgorithm:
        raise _no_mlkem() from None
    x25519 = X25519PublicKey.from_public_bytes(public_key[_MLKEM_PUBLIC_BYTES:])
    return _suite().encrypt(payload.reveal(), MLKEM768X25519PublicKey(mlkem, x25519), info=info)


def check_public_key(public_key: bytes) -> None:
    """Refuse bytes that nothing can be sealed to, with a `ValueError`."""
    # A trial seal finds what parsing does not, such as an X25519 point of low order.
    seal(public_key, Secret(b""), b"")


def _suite() -> Suite:
    return Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def _no_mlkem() -> ConfigError:
    return ConfigError(
        "This build of the package cryptography has no ML-KEM. Install its wheel, version 47 or newer, "
        "instead of a build against the system's OpenSSL."
    )


def _bad_file(source: str) -> ConfigError:
    return ConfigError(f"{source} does not hold an ML-KEM-768 and an X25519 key. Restore it from your backup.")
