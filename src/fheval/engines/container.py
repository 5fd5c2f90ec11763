"""The envelope around an engine's bytes: who made them, under which parameters and key, and whether they are whole.

The checksum finds accidents, not adversaries: an adversary is held off by signatures around the message and by
what each engine checks when it reads. It adds up 64-bit words, which takes a tenth of the time of a CRC; a CRC of
every ciphertext was a seventh of the aggregator's work in the paper's protocols.
"""

from __future__ import annotations

import os
import struct
import tempfile
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
import numpy as np

from fheval.engines.parameters import Parameters
from fheval.errors import EngineError
from fheval.secrets import Secret

P = TypeVar("P", bound=msgspec.Struct)

MAGIC = b"FHEC"
KEY_ID_BYTES = 8
# magic, kind, engine and parameters (hash), key id, number of primes; then a checksum of these and the payload
_FIELDS = struct.Struct(f"<4sB8s{KEY_ID_BYTES}sB")
_CHECKSUM = struct.Struct("<Q")
HEAD_BYTES = _FIELDS.size + _CHECKSUM.size

CIPHERTEXT, SECRET_KEY, PUBLIC_KEYS = 1, 2, 3
_NAMES = {CIPHERTEXT: "ciphertext", SECRET_KEY: "secret key", PUBLIC_KEYS: "public keys"}


class PublicKeys(msgspec.Struct, frozen=True, array_like=True):
    """What a library writes for an evaluator; empty where the parameters ask for no such keys."""

    encryption: bytes
    relinearisation: bytes
    rotation: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What key generation gives: `secret` for the parties, `public` (evaluation keys included) for everyone."""

    parameters: Parameters
    secret: Secret[bytes]
    public: bytes = field(repr=False)


@dataclass(slots=True)
class Ciphertext:
    """A loaded ciphertext: the library's object, and how many primes its modulus has left."""

    handle: Any = field(repr=False)
    limbs: int


@lru_cache(maxsize=64)
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


def pack_keys(engine: str, parameters: Parameters, secret: bytes, public: msgspec.Struct) -> Keys:
    """A key set under a key id of its own."""
    key_id = os.urandom(KEY_ID_BYTES)
    return Keys(
        parameters=parameters,
        secret=Secret(pack(SECRET_KEY, engine, parameters, key_id, 0, secret)),
        public=pack(PUBLIC_KEYS, engine, parameters, key_id, 0, msgspec.msgpack.encode(public)),
    )


def unpack_secret(engine: str, parameters: Parameters, secret: Secret[bytes]) -> tuple[bytes, memoryview]:
    """Key id and secret key of a key holder."""
    key_id, _, key = unpack(SECRET_KEY, engine, parameters, None, secret.reveal())
    return key_id, key


def unpack_public(engine: str, parameters: Parameters, public: bytes, kind: type[P]) -> tuple[bytes, P]:
    """Key id and public keys of an evaluator."""
    key_id, _, keys = unpack(PUBLIC_KEYS, engine, parameters, None, public)
    try:
        return key_id, msgspec.msgpack.decode(keys, type=kind)
    except msgspec.DecodeError as error:
        raise EngineError("The public keys are malformed. Ask the leader to send them again.") from error


class MemoryFile:
    """An anonymous file in memory, addressed through /proc/self/fd; a 0600 temporary file where there is none."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create("fheval", os.MFD_CLOEXEC)
            self.path = f"/proc/self/fd/{self._descriptor}"
        else:
            self._descriptor, self.path = tempfile.mkstemp(prefix="fheval-")
            weakref.finalize(self, os.unlink, self.path)
        weakref.finalize(self, os.close, self._descriptor)

    def written_by(self, save: Callable[[str], object]) -> bytes:
        """Let `save` write to the path, anew, and take the bytes out again."""
        save(self.path)
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        os.ftruncate(self._descriptor, 0)
        return data

    def holding(self, *parts: bytes | bytearray | memoryview) -> str:
        """Fill the file with what the parts hold, one behind the other, and return the path to load it from."""
        size = sum(map(len, parts))
        if os.fstat(self._descriptor).st_size != size:
            os.ftruncate(self._descriptor, size)
        place = 0
        for part in parts:
            written = 0
            while written < len(part):
                written += os.pwrite(self._descriptor, memoryview(part)[written:], place + written)
            place += written
        return self.path

    def wipe(self) -> None:
        os.ftruncate(self._descriptor, 0)
