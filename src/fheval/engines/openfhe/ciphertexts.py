"""Ciphertexts as bytes: bare residues, set into frames of our own, and added before the library reads them."""

from __future__ import annotations

from typing import Any

import openfhe

from fheval.engines import base, container
from fheval.engines.base import Evaluator, RunningSum
from fheval.engines.container import Ciphertext, MemoryFile
from fheval.engines.openfhe.residues import Frame, ResidueTable, bare, find_spans
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
        data = self._memory.written_by(writer_of(ciphertext.handle))
        payload = bare(data, find_spans(data, self._parameters.ring, self._setting.primes), self._parameters.ring)
        return container.pack(container.CIPHERTEXT, NAME, self._parameters, self._key_id, ciphertext.limbs, payload)

    def unpack(self, data: bytes) -> tuple[int, memoryview]:
        """The number of primes and the residues, not yet checked."""
        _, limbs, payload = container.unpack(container.CIPHERTEXT, NAME, self._parameters, self._key_id, data)
        if not 1 <= limbs <= self._setting.limbs:
            raise EngineError("A ciphertext is not of the form it claims. Ask the sender to send it again.")
        return limbs, payload

    def read(self, data: bytes) -> Ciphertext:
        """Check the residues of an untrusted sender, and let the library read them."""
        limbs, payload = self.unpack(data)
        return self.load(limbs, self.frame(limbs).checked(payload))

    def load(self, limbs: int, table: ResidueTable) -> Ciphertext:
        """Let the library read residues that were checked."""
        frame = self.frame(limbs).filled(table)
        handle, done = openfhe.DeserializeCiphertext(self._memory.holding(frame), openfhe.BINARY)
        if not done:
            raise EngineError("OpenFHE cannot read this ciphertext. Ask the sender to send it again.")
        return Ciphertext(handle, limbs)

    def frame(self, limbs: int) -> Frame:
        if limbs not in self._by_limbs:
            self._by_limbs[limbs] = self._setting.frame(self._key, limbs)
        return self._by_limbs[limbs]


class PairedSum(RunningSum):
    """Adds the residues of two uploads before the library reads them, which takes five times as long as adding."""

    def __init__(self, evaluator: Evaluator, frames: Frames, limbs: int) -> None:
        self._evaluator = evaluator
        self._frames = frames
        self._limbs = limbs
        self._frame = frames.frame(limbs)
        self._waiting: ResidueTable | None = None
        self._total: Ciphertext | None = None

    def read(self, data: bytes) -> ResidueTable:
        limbs, payload = self._frames.unpack(data)
        base.require_fresh(limbs, self._limbs)
        return self._frame.checked(payload)

    def add(self, term: ResidueTable) -> None:
        if self._waiting is None:
            self._waiting = term
        else:
            self._load(self._frame.added(self._waiting, term))

    def total(self) -> Ciphertext:
        if self._waiting is not None:
            self._load(self._waiting)
        return base.require_summand(self._total)

    def _load(self, table: ResidueTable) -> None:
        self._waiting = None
        loaded = self._frames.load(self._limbs, table)
        if self._total is None:
            self._total = loaded
        else:
            self._evaluator.accumulate(self._total, loaded)
