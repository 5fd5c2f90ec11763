"""Deviations on the slots of the encrypted sums: weights, order, additions, and one side mixed into the other."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from fheval.secrets import integer_below, integer_between, permutation
from fheval_lab.attacks.strategy import HONEST, Knowledge, Strategy, Tampering

HALF = Fraction(1, 2)

# A nudge moves the AUC by a few units of its fifth decimal, where a comparison to five decimals can be blind.
NUDGE = Fraction(2, 100_000)


class _OnOneSlot(Strategy):
    """Scales one slot, picked at random and anew in every run: it does not know what a slot holds."""

    factor: ClassVar[Fraction]

    def tamper(self) -> Tampering:
        factors = [Fraction(1)] * self.known.slots
        factors[integer_below(self.known.rng, self.known.slots)] = self.factor
        return Tampering(factors=factors)


class ZeroSlot(_OnOneSlot):
    """Leave one product out."""

    name = "zero-slot"
    summary = "zero one slot"
    factor = Fraction(0)


class ScaleSlot(_OnOneSlot):
    """Weigh one product differently."""

    name = "scale-slot"
    summary = "scale one slot"
    factor = HALF


class AddToSlot(Strategy):
    """Add samples that nobody has."""

    name = "add-to-slot"
    summary = "add to a slot"
    amount = 50

    def tamper(self) -> Tampering:
        return Tampering(additions={integer_below(self.known.rng, self.known.slots): self.amount})


class ScaleAll(Strategy):
    """Scale the numerator and not the denominator."""

    name = "scale-all"
    summary = "scale all slots"
    factor = Fraction(9, 10)

    def tamper(self) -> Tampering:
        return Tampering(factors=[self.factor] * self.known.slots)


class ScaleAllButAnchor(Strategy):
    """Scale every slot but those guessed to be the anchor's: a right guess in every run forges any AUC."""

    name = "scale-all-but-anchor"
    summary = "scale all but a guessed anchor"

    def tamper(self) -> Tampering:
        anchor = self.guess()
        return Tampering(factors=[Fraction(1) if slot in anchor else HALF for slot in range(self.known.slots)])

    def guess(self) -> frozenset[int]:
        """The slots of the anchor, out of all sets of that size."""
        order = permutation(self.known.rng, self.known.slots)
        return frozenset(order[: self.known.anchor_slots].tolist())


class ReorderSlots(Strategy):
    """Let every T meet its neighbour's F."""

    name = "reorder-slots"
    summary = "reorder slots"

    def tamper(self) -> Tampering:
        return Tampering(rotated=True)


class MixSides(Strategy):
    """Add a part of the denominator to the numerator."""

    name = "mix-sides"
    summary = "mix numerator and denominator"
    part = Fraction(1, 10)

    def tamper(self) -> Tampering:
        return Tampering(borrowed=self.part)


class Nudge(MixSides):
    """Add so little of the denominator that a comparison to five decimals may not see it.

    `paper-malicious` does not claim to catch it; `nudging` measures how often it does not.
    """

    name = "nudge"
    summary = "mix in a hair of the denominator"
    shift = float(NUDGE)
    part = NUDGE


class OneRunOnly(ScaleAll):
    """Tamper in one run and follow the protocol in the others."""

    name = "one-run-only"
    summary = "tamper in one run only"
    least_runs = 2

    def __init__(self, known: Knowledge) -> None:
        super().__init__(known)
        self.chosen = integer_below(known.rng, known.runs)

    def tamper_with_runs(self) -> list[Tampering]:
        return [self.tamper() if run == self.chosen else HONEST for run in range(self.known.runs)]


class SpareRuns(ScaleAll):
    """Follow the protocol in half of the runs: over different primes, few honest ones leave the fraction open."""

    name = "spare-runs"
    summary = "follow the protocol in half of the runs"
    least_runs = 2

    def tamper_with_runs(self) -> list[Tampering]:
        honest = self.known.runs // 2
        return [HONEST if run < honest else self.tamper() for run in range(self.known.runs)]


class BothRunsAlike(Strategy):
    """Tamper with every run in one and the same way: random weights and an addition, the same in each."""

    name = "both-runs-alike"
    summary = "tamper in all runs alike"
    least_runs = 2

    def __init__(self, known: Knowledge) -> None:
        super().__init__(known)
        self.chosen = Tampering(
            factors=[Fraction(integer_between(known.rng, 90, 100), 100) for _ in range(known.slots)],
            additions={integer_below(known.rng, known.slots): 1},
        )

    def tamper(self) -> Tampering:
        return self.chosen
