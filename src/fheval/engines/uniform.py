"""Keys and ciphertexts whose uniform part is derived: for keys from public data, for ciphertexts from a seed.

Both are pairs (b, a) under a secret s: a is uniform, and b = e − a·s for a key, b = m + e − a·s for a message m, with e
small. The libraries draw a themselves. From a pair (b', a') that one has made, the pair for another a has
b = b' + (a' − a)·s: the same message and the same noise under the same secret. All polynomials are rows of residues,
one for each prime, in the libraries' evaluation form, in which a product is one residue at a time.

**Keys.** Whoever makes a key and picks its a can pick one that hides nothing, zero for instance, or one with a
trapdoor. What others add to a ciphertext by encrypting under the key then no longer hides what the ciphertext was
multiplied by. Where a is the hash of public data the key consists of b alone, and the reader derives a itself.

**Ciphertexts.** A ciphertext from the holder of s is half as long with a seed in place of a, and its reader needs
neither the library's own, slower expansion nor a transform: residues of evaluation form that are uniform belong to a
polynomial that is uniform. The seed is 32 fresh bytes of the operating system for every ciphertext; two ciphertexts
with one a would show the difference of their messages, so that no seed is derived from anything or kept. It is public,
and expanded with AES-256 in counter mode under a key out of HMAC-SHA256, with every residue exactly uniform by
rejection. What is assumed of it is what FrodoKEM assumes of AES in the place of its uniform matrix: that a public key
of the cipher, chosen at random, gives numbers that are no easier for an attacker than uniform ones. A sender that
chooses its seed chooses a no more freely than by trying seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_256

import numpy as np
import numpy.typing as npt

from fheval import field
from fheval.engines.parameters import Parameters
from fheval.errors import EngineError
from fheval.secrets import SEED_BYTES, Secret, Stream, SystemRandomness, expand, new_seed, residues

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
            field.add(body, field.multiply_large(field.subtract(drawn, wanted, prime), key, prime), prime)
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
    return seed + table.astype("<u8").tobytes()


def is_seeded(payload: memoryview, parameters: Parameters, primes: Sequence[int]) -> bool:
    """Whether a ciphertext has a seed: those that have are half as long as those that have both polynomials."""
    return parameters.scheme == "bfv" and len(payload) == SEED_BYTES + 8 * parameters.ring * len(primes)


def unseeded(payload: memoryview, parameters: Parameters, primes: Sequence[int]) -> tuple[memoryview, memoryview]:
    """Both polynomials of a ciphertext that has a seed; whether b's residues are below their primes is not checked."""
    expanded = _expanded(bytes(payload[:SEED_BYTES]), parameters, primes)
    return payload[SEED_BYTES:], expanded.astype("<u8", copy=False).data.cast("B")


def _expanded(seed: bytes, parameters: Parameters, primes: Sequence[int]) -> ResidueTable:
    """A row of residues for each prime; what is not below its prime is drawn again, once in 10^8 tables."""
    stream = Stream(expand(Secret(seed), "engines/uniform part", parameters.fingerprint))
    limits = np.array(primes, dtype=np.uint64)[:, np.newaxis]
    masks = np.array([(1 << prime.bit_length()) - 1 for prime in primes], dtype=np.uint64)[:, np.newaxis]
    table = np.frombuffer(stream.draw(8 * len(primes) * parameters.ring), dtype="<u8").reshape(len(primes), -1) & masks
    while (above := table >= limits).any():
        rows, _ = np.nonzero(above)
        table[above] = np.frombuffer(stream.draw(8 * len(rows)), dtype="<u8") & masks[rows, 0]
    return table
