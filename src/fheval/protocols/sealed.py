"""One box for everything that passes through an aggregator that must not read it.

ChaCha20-Poly1305 under a key derived from a secret that the readers share, for one usage and its labels: whoever says
other labels cannot open the box. What is inside may be filled up to a fixed size, so that its length says nothing.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fheval.errors import CapacityError
from fheval.secrets import Randomness, Secret, derive

_NONCE_BYTES = 12
_LENGTH_BYTES = 4


class SealBroken(Exception):  # noqa: N818 (the seal, not this program, is broken)
    """The box was altered, or sealed under another secret or for another purpose."""


def seal(
    secret: Secret[bytes], usage: str, *labels: str | bytes | int, plain: bytes, rng: Randomness, room: int = 0
) -> bytes:
    """Close a box, filled up to `room` bytes; content that is longer than a given room is refused.

    >>> from fheval.secrets import SystemRandomness
    >>> box = seal(Secret(bytes(32)), "example", 1, plain=b"hello", rng=SystemRandomness(), room=100)
    >>> len(box), unseal(Secret(bytes(32)), "example", 1, box=box)
    (132, b'hello')
    """
    if room and len(plain) > room:
        raise CapacityError(f"{len(plain)} bytes do not fit a box of {room}. Ask for less in one round.")
    filled = len(plain).to_bytes(_LENGTH_BYTES, "big") + plain.ljust(room, b"\0")
    nonce = rng.draw(_NONCE_BYTES)
    return nonce + _cipher(secret, usage, labels).encrypt(nonce, filled, None)


def unseal(secret: Secret[bytes], usage: str, *labels: str | bytes | int, box: bytes) -> bytes:
    """Open a box, or raise `SealBroken`."""
    nonce, sealed = bytes(box[:_NONCE_BYTES]), bytes(box[_NONCE_BYTES:])
    try:
        filled = _cipher(secret, usage, labels).decrypt(nonce, sealed, None)
    except (InvalidTag, ValueError):
        raise SealBroken from None
    length = int.from_bytes(filled[:_LENGTH_BYTES], "big")
    return filled[_LENGTH_BYTES : _LENGTH_BYTES + length]


def _cipher(secret: Secret[bytes], usage: str, labels: tuple[str | bytes | int, ...]) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(secret, usage, *labels).draw(32))
