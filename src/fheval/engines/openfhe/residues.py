"""Vectors of residues inside what OpenFHE writes: where they lie, what is around them, and setting others in.

OpenFHE's reader trusts the structure of what it reads: one wrong byte outside the residues can end the process. So
nothing of a sender reaches it but residues below their primes, in a structure that this process wrote itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fheval.engines.container import MemoryFile, ResidueTable
from fheval.errors import EngineError

WORD = 8

# So many residues of each row of a ciphertext's second polynomial are looked at; all zero by chance they never are.
_LOOKED_AT = 64


@dataclass(frozen=True, slots=True)
class Span:
    """One vector of residues: where it starts and the prime that all of them are below."""

    start: int
    prime: int


def _candidates(data: bytes, ring: int, start: int) -> Iterator[Span]:
    """Every place that looks like a vector: its length before it, a prime that suits the ring after it."""
    length = ring.to_bytes(WORD, "little")
    position = data.find(length, start)
    while position >= 0:
        begin = position + WORD
        prime = int.from_bytes(data[begin + WORD * ring : begin + WORD * (ring + 1)], "little")
        if prime >> 40 and prime % (2 * ring) == 1:
            yield Span(begin, prime)
        position = data.find(length, position + 1)


def repeated_primes(data: bytes, ring: int) -> frozenset[int]:
    """The primes of a writing that holds at least two polynomials.

    Every true prime stands there twice. Among the words that only look like one, which are residues or parts of
    them and as good as random, no two are equal.
    """
    found = Counter(span.prime for span in _candidates(data, ring, 0))
    return frozenset(prime for prime, count in found.items() if count > 1)


def find_spans(data: bytes, ring: int, primes: frozenset[int]) -> list[Span]:
    """All vectors of residues, in order."""
    spans: list[Span] = []
    position = 0
    while True:
        span = next((span for span in _candidates(data, ring, position) if span.prime in primes), None)
        if span is None:
            return spans
        spans.append(span)
        position = span.start + WORD * ring


class Frame:
    """A writing of this process, in a file in memory, whose residues are replaced by those of a sender."""

    def __init__(self, data: bytes, spans: list[Span], ring: int) -> None:
        self._file = MemoryFile()
        self._data = self._file.mapped(data)
        self._spans = spans
        self._size = WORD * ring
        self.shape = (len(spans), ring)
        self.primes = np.array([[span.prime] for span in spans], dtype=np.uint64)
        # So many residues add up to less than 2^64, whichever prime they belong to.
        self.room = (2**64 - 1) // (max(span.prime for span in spans) - 1)

    def checked(self, payload: memoryview) -> ResidueTable:
        """View bare residues as a table, a row for each vector; refuse any that is not below its prime."""
        if len(payload) != self._size * len(self._spans):
            raise EngineError("A ciphertext has the wrong size. Ask the sender to send it again.")
        table = np.frombuffer(payload, dtype="<u8").reshape(self.shape)
        self._check(table)
        if not np.all(table[len(table) // 2 :, :_LOOKED_AT].any(axis=1)):
            raise EngineError("A ciphertext is transparent: anyone can read it. Ask the sender to send it again.")
        return table

    def completed(self, both: ResidueTable) -> ResidueTable:
        """The table of a ciphertext whose first polynomial is a sender's, and the second one was expanded here."""
        self._check(both[0])
        return both.reshape(self.shape)

    def _check(self, table: ResidueTable) -> None:
        if np.any(table.max(axis=1, keepdims=True) >= self.primes[: len(table)]):
            raise EngineError("A ciphertext holds impossible residues. Ask the sender to send it again.")

    def filled(self, table: ResidueTable) -> str:
        """Set checked residues into the frame, and give the path to read it from; the next call fills the same file."""
        for span, row in zip(self._spans, table, strict=True):
            self._data[span.start : span.start + self._size] = row.data
        return self._file.path

    @property
    def content(self) -> bytes:
        """The frame as it was filled last."""
        return self._data[:]


def bare(data: bytes | memoryview, spans: list[Span], ring: int) -> bytes:
    """The residues without what is around them."""
    return b"".join(data[span.start : span.start + WORD * ring] for span in spans)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a key looks like apart from its residues; `tag` is OpenFHE's name for the key that it was taken from."""

    ring: int
    spans: list[Span] = field(repr=False)
    skeleton: bytes = field(repr=False)
    tag: bytes = field(repr=False)

    @classmethod
    def of(cls, data: bytes, ring: int, primes: frozenset[int], tag: str) -> Shape:
        """Take the shape of a key that this process made."""
        spans = find_spans(data, ring, primes)
        return cls(ring, spans, _skeleton(data, spans, ring), tag.encode())

    @property
    def primes(self) -> list[int]:
        """The prime of each vector."""
        return [span.prime for span in self.spans]

    def table(self, data: bytes | memoryview) -> ResidueTable:
        """The residues of a key of this shape, a row for each vector."""
        return np.frombuffer(bare(data, self.spans, self.ring), dtype="<u8").reshape(len(self.spans), self.ring)

    def check(self, data: bytes | memoryview) -> None:
        """Refuse a key that differs from this shape in anything but its residues and its tag."""
        skeleton = _skeleton(data, self.spans, self.ring)
        position = self.skeleton.index(self.tag)
        tag = skeleton[position : position + len(self.tag)]
        if not tag.isalnum() or skeleton != self.skeleton.replace(self.tag, tag):
            raise EngineError("A key is not of the form that OpenFHE writes here. Use the same version everywhere.")
        for span in self.spans:
            if int(np.frombuffer(data, dtype="<u8", count=self.ring, offset=span.start).max()) >= span.prime:
                raise EngineError("A key holds impossible residues. Ask the sender to send it again.")


def _skeleton(data: bytes | memoryview, spans: list[Span], ring: int) -> bytes:
    parts, last = [], 0
    for span in spans:
        parts.append(data[last : span.start])
        last = span.start + WORD * ring
    return b"".join([*parts, data[last:]])
