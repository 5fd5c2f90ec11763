"""Deviations on the answer itself: constants, an answer given twice, garbage, nothing."""

from __future__ import annotations

import numpy as np

from fheval.secrets import integer_below
from fheval_lab.attacks.strategy import Knowledge, Strategy


class ReturnConstants(Strategy):
    """Compute nothing and encrypt two numbers whose quotient looks like an AUC."""

    name = "constants"
    summary = "return constants"

    def constants(self) -> tuple[int, int]:
        return 987, 1000


class FirstRunTwice(Strategy):
    """Give the first run's answer for every run."""

    name = "first-run-twice"
    summary = "return the first run's answer for all"
    least_runs = 2

    def sources(self) -> list[int]:
        return [0] * self.known.runs


class ReturnGarbage(Strategy):
    """Fill the answer with random bytes, or with its own words, neighbours swapped: residues all the same."""

    name = "garbage"
    summary = "return garbage bytes"
    garbles = True

    def __init__(self, known: Knowledge) -> None:
        super().__init__(known)
        self.random = bool(integer_below(known.rng, 2))

    def garble(self, payload: bytes) -> bytes:
        if self.random:
            return self.known.rng.draw(len(payload))
        whole = len(payload) // 16 * 16
        pairs = np.frombuffer(payload[:whole], dtype="<u8").reshape(-1, 2)
        return pairs[:, ::-1].tobytes() + payload[whole:]


class ReturnNothing(Strategy):
    """Send an answer without ciphertexts."""

    name = "nothing"
    summary = "return nothing"
    answers = False
