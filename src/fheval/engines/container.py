"""How keys and ciphertexts travel: the envelope around an engine's bytes, and uniform parts that are derived, not sent.

**The envelope** says who made the bytes, under which parameters and key, and whether they are whole. Its checksum finds
accidents, not adversaries: an adversary is held off by signatures around the message and by what each engine checks
when it reads. It adds up 64-bit words, which takes a tenth of the time of a CRC; a CRC of every ciphertext was a
seventh of the aggregator's work in the paper's protocols.

**Uniform parts.** Keys and ciphertexts are pairs (b, a) under a secret s: a is uniform, and b = e − a·s for a key,
b = m + e − a·s for a message m, with e small. The libraries draw a themselves. From a pair (b', a') that one has made,
the pair for another a has b = b' + (a' − a)·s: the same message and the same noise under the same secret. All
polynomials are rows of residues, one for each prime, in the libraries' evaluation form, in which a product is one
residue at a time. For keys, a is a hash of public data; for ciphertexts it is expanded from a seed.

*Keys.* Whoever makes a key and picks its a can pick one that hides nothing, zero for instance, or one with a
trapdoor. What others add to a ciphertext by encrypting under the key then no longer hides what the ciphertext was
multiplied by. Where a is the hash of public data the key consists of b alone, and the reader derives a itself.

*Ciphertexts.* A ciphertext from the holder of s is half as long with a seed in place of a, and its reader needs
neither the library's own, slower expansion nor a transform: residues of evaluation form that are uniform belong to a
polynomial that is uniform. The seed is 32 fresh bytes of the operating system for every ciphertext; two ciphertexts
with one a would show the difference of their messages, so that no seed is derived from anything or kept. It is public,
and expanded with AES-256 in counter mode under a key out of HMAC-SHA256, with every residue exactly uniform by
rejection. What is assumed of it is what FrodoKEM assumes of AES in the place of its uniform matrix: that a public key
of the cipher, chosen at random, gives numbers that are no easier for an attacker than uniform ones. A sender that
chooses its seed chooses a no more freely than by trying seeds. The residues of b take the bits of their primes, 60
or 56, and not the 64 of a word: the lower 32 bits of a row, the next 16, the next 8, and the upper 4 two by two.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256, shake_256
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from fheval.engines.parameters import Parameters
from fheval.errors import EngineError
from fheval.field import add, multiply_large, subtract
from fheval.secrets import SEED_BYTES, Secret, Stream, SystemRandomness, expand, new_seed, residues

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


@dataclass(slots=True)
class Factor:
    """A vector that fresh ciphertexts are multiplied by, as far as it can be prepared before there is one."""

    handle: Any = field(repr=False)


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


# Whether there are files in memory here. Elsewhere they are on a disk, where nothing goes that must not stay there.
IN_MEMORY = hasattr(os, "memfd_create")


class MemoryFile:
    """An anonymous file in memory, addressed through /proc/self/fd; a 0600 temporary file where there is none."""

    def __init__(self) -> None:
        if IN_MEMORY:
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

    def mapped(self, data: bytes) -> mmap.mmap:
        """Fill the file with these bytes, and give the memory that it is in: what is written there is in the file."""
        self.holding(data)
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        return mmap.mmap(self._descriptor, len(data), flags)

    def wipe(self) -> None:
        os.ftruncate(self._descriptor, 0)


ResidueTable = npt.NDArray[np.uint64]


class _Hash:
    """A stream of bytes out of public data: SHAKE-256 of the data, the row, and how often it was asked."""

    def __init__(self, data: bytes, row: int) -> None:
        self._data = b"fheval/1 uniform part\0" + row.to_bytes(4, "big") + data
        self._calls = 0

    def draw(self, count: int) -> bytes:
        self._calls += 1
        return shake_256(self._calls.to_bytes(4, "big") + self._data).digest(count)


def uniform_part(data: bytes, parameters: Parameters, primes: Sequence[int]) -> ResidueTable:
    """What everyone derives from public data for a parameter set: a row of uniform residues for each prime."""
    hashed = parameters.fingerprint.encode() + b"\0" + data
    return np.stack([residues(_Hash(hashed, row), prime, parameters.ring) for row, prime in enumerate(primes)])


def body_for(
    made: tuple[ResidueTable, ResidueTable], secret: ResidueTable, uniform: ResidueTable, primes: Sequence[int]
) -> bytes:
    """The b of a key that belongs to another uniform part, from a pair (b', a') under the same secret."""
    table = _moved(made, secret, uniform, primes)
    require_unlike(table)
    return table.astype("<u8").tobytes()


def _moved(
    made: tuple[ResidueTable, ResidueTable], secret: ResidueTable, uniform: ResidueTable, primes: Sequence[int]
) -> ResidueTable:
    rows = zip(*made, secret, uniform, primes, strict=True)
    return np.stack(
        [
            add(body, multiply_large(subtract(drawn, wanted, prime), key, prime), prime)
            for body, drawn, key, wanted, prime in rows
        ]
    )


def read_body(payload: bytes, primes: Sequence[int], ring: int) -> ResidueTable:
    """The b of a sender: residues below their primes that do not look like nothing."""
    if len(payload) != 8 * ring * len(primes):
        raise EngineError("A public key has the wrong size. Ask the sender to send it again.")
    table = np.frombuffer(payload, dtype="<u8").reshape(len(primes), ring)
    if any(int(row.max()) >= prime for row, prime in zip(table, primes, strict=True)):
        raise EngineError("A public key holds impossible residues. Ask the sender to send it again.")
    require_unlike(table)
    return table


def require_unlike(table: ResidueTable) -> None:
    """Refuse a polynomial that is nothing like a random one: of an honest key, no row has many equal residues."""
    if any(len(np.unique(row[:_LOOKED_AT])) < _LOOKED_AT // 2 for row in table):
        raise EngineError("A public key or ciphertext is degenerate: it would hide nothing. Leave its sender out.")


# Residues of a row that are compared with each other; by chance, two in a hundred thousand keys have two alike.
_LOOKED_AT = 1024


def seeded(made: ResidueTable, secret: ResidueTable, parameters: Parameters, primes: Sequence[int]) -> bytes:
    """A ciphertext for a fresh seed, seed first, from the two polynomials (b', a') of one that a library has made."""
    seed = new_seed(SystemRandomness()).reveal()
    body, drawn = made
    table = _moved((body, drawn), secret, _expanded(seed, parameters, primes), primes)
    return seed + b"".join(_packed(row, prime) for row, prime in zip(table, primes, strict=True))


def is_seeded(payload: memoryview, parameters: Parameters, primes: Sequence[int]) -> bool:
    """Whether a ciphertext has a seed: those that have are half as long as those that have both polynomials."""
    return parameters.scheme == "bfv" and len(payload) == SEED_BYTES + sum(_sizes(parameters, primes))


def unseeded(payload: memoryview, parameters: Parameters, primes: Sequence[int]) -> ResidueTable:
    """The polynomials b and a of a ciphertext that has a seed; whether b's residues are below their primes is open."""
    both = np.empty((2, len(primes), parameters.ring), dtype="<u8")
    unseed(payload, both, parameters, primes)
    return both


def unseed(payload: memoryview, both: ResidueTable, parameters: Parameters, primes: Sequence[int]) -> None:
    """The same, written to where they are wanted."""
    place = SEED_BYTES
    for row, prime, size in zip(both[0], primes, _sizes(parameters, primes), strict=True):
        _unpack(payload[place : place + size], row, prime)
        place += size
    _expand_into(both[1], bytes(payload[:SEED_BYTES]), parameters, primes)


def _sizes(parameters: Parameters, primes: Sequence[int]) -> list[int]:
    return [_width(prime) * parameters.ring // 8 for prime in primes]


def _width(prime: int) -> int:
    """How many bits a residue takes: those of its prime, in whole half bytes."""
    return -(-prime.bit_length() // 4) * 4


# The planes that a row of residues is cut into, from the lowest bits on: their bits, and their numbers.
_PLANES = ((32, "<u4"), (16, "<u2"), (8, "<u1"))


def _packed(row: ResidueTable, prime: int) -> bytes:
    planes, done = [], 0
    for bits, kind in _PLANES:
        if _width(prime) & bits:
            planes.append((row >> np.uint64(done)).astype(kind))
            done += bits
    if _width(prime) & 4:
        upper = (row >> np.uint64(done)).astype(np.uint8)
        planes.append(upper[0::2] | upper[1::2] << 4)
    return b"".join(plane.tobytes() for plane in planes)


def _unpack(packed: memoryview, row: ResidueTable, prime: int) -> None:
    """Fill a row: each plane goes to its place in all words at once."""
    row[:] = 0
    count, start, done = len(row), 0, 0
    for bits, kind in _PLANES:
        if _width(prime) & bits:
            row.view(kind).reshape(count, -1)[:, done // bits] = np.frombuffer(packed, kind, count, start)
            start += count * bits // 8
            done += bits
    if _width(prime) & 4:
        upper = np.frombuffer(packed, np.uint8, count // 2, start)
        last = row.view(np.uint8).reshape(count, -1)[:, done // 8]
        last[0::2], last[1::2] = upper & 15, upper >> 4


def _expanded(seed: bytes, parameters: Parameters, primes: Sequence[int]) -> ResidueTable:
    table = np.empty((len(primes), parameters.ring), dtype="<u8")
    _expand_into(table, seed, parameters, primes)
    return table


def _expand_into(table: ResidueTable, seed: bytes, parameters: Parameters, primes: Sequence[int]) -> None:
    """A row of residues for each prime; what is not below its prime is drawn again, once in 10^8 tables."""
    stream = Stream(expand(Secret(seed), "engines/uniform part", parameters.fingerprint))
    limits = np.array(primes, dtype=np.uint64)[:, np.newaxis]
    masks = np.array([(1 << prime.bit_length()) - 1 for prime in primes], dtype=np.uint64)[:, np.newaxis]
    stream.fill(table)
    table &= masks
    while (table.max(axis=1, keepdims=True) >= limits).any():
        above = table >= limits
        rows, _ = np.nonzero(above)
        table[above] = np.frombuffer(stream.draw(8 * len(rows)), dtype="<u8") & masks[rows, 0]
