"""The envelope around an engine's bytes: who made them, under which parameters and key, and whether they are whole.

The checksum finds accidents, not adversaries: an adversary is held off by signatures around the message and by
what each engine checks when it reads. It adds up 64-bit words, which takes a tenth of the time of a CRC; a CRC of
every ciphertext was a seventh of the aggregator's work in the paper's protocols.
"""

from __future__ import annotations

import struct
import zlib
from hashlib import sha256

import numpy as np

from fheval.engines.parameters import Parameters
from fheval.errors import EngineError

MAGIC = b"FHEC"
KEY_ID_BYTES = 8
# magic, kind, engine and parameters (hash), key id, number of primes; then a checksum of these and the payload
_FIELDS = struct.Struct(f"<4sB8s{KEY_ID_BYTES}sB")
_CHECKSUM = struct.Struct("<Q")
HEAD_BYTES = _FIELDS.size + _CHECKSUM.size

CIPHERTEXT, SECRET_KEY, PUBLIC_KEYS = 1, 2, 3
_NAMES = {CIPHERTEXT: "ciphertext", SECRET_KEY: "secret key", PUBLIC_KEYS: "public keys"}


def _setting(engine: str, parameters: Parameters) -> bytes:
    return sha256(f"{engine}|{parameters.fingerprint}".encode()).digest()[:8]


def _checksum(fields: bytes | memoryview, payload: bytes | memoryview) -> int:
    """The payload's words and what is left behind the last, plus a CRC of the fields and of the payload's length."""
    count, rest = divmod(len(payload), 8)
    words = int(np.add.reduce(np.frombuffer(payload, dtype="<u8", count=count)))
    tail = int.from_bytes(payload[len(payload) - rest :], "little")
    return (words + tail + zlib.crc32(len(payload).to_bytes(8, "little"), zlib.crc32(fields))) % 2**64


def pack(kind: int, engine: str, parameters: Parameters, key_id: bytes, limbs: int, payload: bytes) -> bytes:
    """Put the envelope around `payload`."""
    fields = _FIELDS.pack(MAGIC, kind, _setting(engine, parameters), key_id, limbs)
    return fields + _CHECKSUM.pack(_checksum(fields, payload)) + payload


def unpack(
    kind: int, engine: str, parameters: Parameters, key_id: bytes | None, data: bytes
) -> tuple[bytes, int, memoryview]:
    """Check the envelope and give key id, number of primes and payload; `EngineError` says what does not fit."""
    name = _NAMES[kind]
    if len(data) < HEAD_BYTES:
        raise EngineError(f"A {name} of {len(data)} bytes is truncated. Ask the sender to send it again.")
    magic, found, setting, owner, limbs = _FIELDS.unpack_from(data)
    if magic != MAGIC or found != kind:
        raise EngineError(f"These bytes are not a {name}. Check that all members run the same version of fheval.")
    if setting != _setting(engine, parameters):
        raise EngineError(
            f"This {name} was made by another engine or under other parameters than {engine}, {parameters.name}. "
            "All roles of a round must use the same engine."
        )
    if key_id is not None and owner != key_id:
        raise EngineError(f"This {name} belongs to another key. Check that it comes from this round.")
    payload = memoryview(data)[HEAD_BYTES:]
    (checksum,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    if _checksum(data[: _FIELDS.size], payload) != checksum:
        raise EngineError(f"A {name} arrived damaged or truncated. Ask the sender to send it again.")
    return owner, limbs, payload
