"""Ciphertexts as bytes: bare residues, set into frames of our own, and added before the library reads them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import openfhe

from fheval.engines import base, container
from fheval.engines.base import RunningSum
from fheval.engines.container import Ciphertext, MemoryFile, ResidueTable, is_seeded, seeded, unseeded
from fheval.engines.openfhe.residues import Frame, bare, find_spans
from fheval.engines.openfhe.setting import NAME, Setting, writer_of
from fheval.errors import EngineError


class Frames:
    """Reads and writes ciphertexts as bare residues, in frames that this process has written itself."""

    def __init__(self, setting: Setting, key_id: bytes, key: Any) -> None:
        self._setting = setting
        self._parameters = setting.parameters
        self._key_id = key_id
        self._key = key
        self._memory = MemoryFile()
        self._by_limbs: dict[int, Frame] = {}

    def write(self, ciphertext: Ciphertext) -> bytes:
        """Put the residues of a ciphertext into our envelope."""
        return self._pack(self._bare(ciphertext), ciphertext.limbs)

    def write_seeded(self, ciphertext: Ciphertext, secret: ResidueTable) -> bytes:
        """The same for a fresh ciphertext, with a seed in place of the second polynomial."""
        made = np.frombuffer(self._bare(ciphertext), dtype="<u8").reshape(2, ciphertext.limbs, -1)
        return self._pack(seeded(made, secret, self._parameters, self._primes), ciphertext.limbs)

    def _bare(self, ciphertext: Ciphertext) -> bytes:
        data = self._memory.written_by(writer_of(ciphertext.handle))
        return bare(data, find_spans(data, self._parameters.ring, self._setting.primes), self._parameters.ring)

    def _pack(self, payload: bytes, limbs: int) -> bytes:
        return container.pack(container.CIPHERTEXT, NAME, self._parameters, self._key_id, limbs, payload)

    @cached_property
    def _primes(self) -> list[int]:
        """Of a fresh ciphertext, in the order of its rows."""
        limbs = self._setting.limbs
        return [int(prime) for prime in self.frame(limbs).primes[:limbs, 0]]

    def unpack(self, data: bytes) -> tuple[int, memoryview]:
        """The number of primes and the residues, not yet checked."""
        _, limbs, payload = container.unpack(container.CIPHERTEXT, NAME, self._parameters, self._key_id, data)
        if not 1 <= limbs <= self._setting.limbs:
            raise EngineError("A ciphertext is not of the form it claims. Ask the sender to send it again.")
        return limbs, payload

    def read(self, data: bytes) -> Ciphertext:
        """Check the residues of an untrusted sender, and let the library read them."""
        limbs, payload = self.unpack(data)
        return self.load(limbs, self.table(limbs, payload))

    def table(self, limbs: int, payload: memoryview) -> ResidueTable:
        """The residues of both polynomials, checked, a row for each prime; the second may have come as a seed."""
        frame = self.frame(limbs)
        if limbs == self._setting.limbs and is_seeded(payload, self._parameters, self._primes):
            return frame.completed(unseeded(payload, self._parameters, self._primes))
        return frame.checked(payload)

    def load(self, limbs: int, table: ResidueTable) -> Ciphertext:
        """Let the library read residues that were checked."""
        handle, done = openfhe.DeserializeCiphertext(self.frame(limbs).filled(table), openfhe.BINARY)
        if not done:
            raise EngineError("OpenFHE cannot read this ciphertext. Ask the sender to send it again.")
        return Ciphertext(handle, limbs)

    def frame(self, limbs: int) -> Frame:
        if limbs not in self._by_limbs:
            self._by_limbs[limbs] = self._setting.frame(self._key, limbs)
        return self._by_limbs[limbs]


class ResidueSum(RunningSum):
    """Adds checked residues as they arrive; the library reads the sum alone, since reading takes it ten times as long.

    Sums stay below 2^64, and not below their primes: they are reduced when the next residue might not fit any more.
    """

    def __init__(self, frames: Frames, limbs: int) -> None:
        self._frames = frames
        self._limbs = limbs
        self._frame = frames.frame(limbs)
        self._sum: ResidueTable | None = None
        # The sum is at most that of so many residues; one that was reduced counts as one.
        self._summands = 0

    def read(self, data: bytes) -> ResidueTable:
        limbs, payload = self._frames.unpack(data)
        base.require_fresh(limbs, self._limbs)
        return self._frames.table(limbs, payload)

    def add(self, term: ResidueTable) -> None:
        if self._sum is None:
            self._sum = term.copy()
        else:
            if self._summands == self._frame.room:
                self._reduce(self._sum)
            np.add(self._sum, term, out=self._sum)
        self._summands += 1

    def total(self) -> Ciphertext:
        if self._sum is None:
            raise base.nothing_added()
        self._reduce(self._sum)
        return self._frames.load(self._limbs, self._sum)

    def _reduce(self, table: ResidueTable) -> None:
        np.remainder(table, self._frame.primes, out=table)
        self._summands = 1
