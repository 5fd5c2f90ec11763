"""Encryption keys whose uniform part comes from a hash, so that nobody has chosen it.

An encryption key is a pair (b, a) with b = e − a·s: a is uniform, s the secret, e small. Whoever makes a key and picks
its a can pick one that hides nothing, zero for instance, or one with a trapdoor. What others add to a ciphertext by
encrypting under the key then no longer hides what the ciphertext was multiplied by. Where a is the hash of public data
the key consists of b alone, and the reader derives a itself.

The libraries draw a themselves. From a pair (b', a') that one has made, the key for another a is b = b' + (a' − a)·s:
the same noise under the same secret. All polynomials are rows of residues, one for each prime, in the libraries'
evaluation form, in which a product is one residue at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_256

import numpy as np
import numpy.typing as npt

from fheval.engines.parameters import Parameters
from fheval.errors import EngineError
from fheval.secrets import residues

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
    """The b that belongs to another uniform part, from a pair (b', a') under the same secret."""
    rows = []
    for body, drawn, key, wanted, prime in zip(*made, secret, uniform, primes, strict=True):
        # Products of 120 bits, which numpy has no type for.
        moved = (drawn.astype(object) - wanted.astype(object)) * key.astype(object) + body.astype(object)
        rows.append((moved % prime).astype(np.uint64))
    table = np.stack(rows)
    require_unlike(table)
    return table.astype("<u8").tobytes()


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
