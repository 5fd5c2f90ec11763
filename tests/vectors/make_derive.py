"""Writes derive.json: what `fheval.secrets.derive` and `expand` must give, computed without them.

HKDF-SHA256 (RFC 5869) is spelled out with `hmac`, and counter mode with single blocks of AES-256, so that the
vectors share no code with the package. Run: python tests/vectors/make_derive.py
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

STREAM_BYTES = 48

Label = str | int | bytes

CASES: list[tuple[bytes, str, list[Label]]] = [
    (bytes(32), "pad", []),
    (bytes(32), "pad", [1]),
    (bytes(32), "pad", ["1"]),
    (bytes(32), "pad", [b"1"]),
    (bytes(range(32)), "pad", ["round", 7, b"\x00\xff"]),
    (bytes(range(32)), "pad", [-1, 2**127 - 1, -(2**127)]),
    (bytes(range(32)), "π and ρ", ["", b""]),
    (b"\xff" * 32, "", []),
    (b"\xff" * 32, "a", ["bc"]),
    (b"\xff" * 32, "ab", ["c"]),
]


def hkdf(seed: bytes, info: bytes) -> bytes:
    """Extract with a salt of zeros, then one block of expand: 32 bytes."""
    return expanded(hmac.digest(bytes(32), seed, hashlib.sha256), info)


def expanded(seed: bytes, info: bytes) -> bytes:
    """One block of expand."""
    return hmac.digest(seed, info + b"\x01", hashlib.sha256)


def key_stream(key: bytes, count: int, first: int = 0) -> bytes:
    """AES-256 of the numbers 0, 1, 2, … as 16-byte words, or of those from another on."""
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 (single blocks build counter mode)
    blocks = b"".join(block.update(number.to_bytes(16, "big")) for number in range(first, first - (-count // 16)))
    return blocks[:count]


def encoded(label: Label) -> bytes:
    """One letter for the type, four bytes of length, the value."""
    if isinstance(label, str):
        letter, raw = b"s", label.encode()
    elif isinstance(label, bytes):
        letter, raw = b"b", label
    else:
        letter, raw = b"i", (label % 2**128).to_bytes(16, "big")
    return letter + len(raw).to_bytes(4, "big") + raw


def labelled(usage: str, *labels: Label) -> bytes:
    """What a usage and its labels are to HKDF."""
    return b"fheval/1" + b"".join(encoded(label) for label in (usage, *labels))


def written(label: Label) -> dict[str, str]:
    """A label in JSON."""
    if isinstance(label, bytes):
        return {"bytes": label.hex()}
    return {"str": label} if isinstance(label, str) else {"int": str(label)}


def vectors() -> list[dict[str, object]]:
    """All cases with their streams."""
    found: list[dict[str, object]] = []
    for seed, usage, labels in CASES:
        info = labelled(usage, *labels)
        found.append(
            {
                "seed": seed.hex(),
                "usage": usage,
                "labels": [written(label) for label in labels],
                "stream": key_stream(hkdf(seed, info), STREAM_BYTES).hex(),
                "expanded": expanded(seed, info).hex(),
            }
        )
    return found


if __name__ == "__main__":
    Path(__file__).with_name("derive.json").write_text(json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n")
