"""Guessing the anchor at toy sizes, where it works now and then: the measured rate against the paper's bound."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import comb
from typing import Any

from fheval.protocols import paper_malicious
from fheval_lab.attacks.chance import IMPLAUSIBLE, binomial_tails
from fheval_lab.attacks.consortium import Consortium, fresh_stream
from fheval_lab.attacks.on_slots import ScaleAllButAnchor
from fheval_lab.attacks.reused_keys import ReusedKeys
from fheval_lab.attacks.suite import HARMLESS, Tally, adversary, attempt
from fheval_lab.clear import ClearEngine

# Decision points and splits, and how many tries, for an expected ten successes or more.
TOY_SIZES = ((3, 1, 360), (2, 2, 720), (3, 2, 2250))

# Guesses are independent of each other and of the slots, so that a few may share the uploads of a round.
GUESSES_PER_ROUND = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessRate:
    """How often guessing the anchor's slots in both runs forged the AUC."""

    decision_points: int
    splits: int
    tries: int
    forged: int

    @property
    def bound(self) -> float:
        """C(SN, S)^-2, the paper's bound."""
        return 1 / comb(self.splits * self.decision_points, self.splits) ** 2

    @property
    def holds(self) -> bool:
        return min(binomial_tails(self.forged, self.tries, self.bound)) > IMPLAUSIBLE

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rate": self.forged / self.tries, "bound": self.bound, "holds": self.holds}


def guess_rate(decision_points: int, splits: int, tries: int) -> GuessRate:
    """Guess that many times against `paper-malicious`, on the plaintext twin of the engines.

    >>> guess_rate(2, 1, tries=20).bound
    0.25
    """
    consortium = Consortium(
        protocol=paper_malicious.NAME, parties=2, decision_points=decision_points, options={"splits": splits}
    )
    engine, rng = ReusedKeys(ClearEngine()), fresh_stream()
    guesser = adversary(paper_malicious.PROTOCOL, ScaleAllButAnchor)
    truth = float(consortium.true_auc())
    forged = 0
    for index in range(tries):
        if index % GUESSES_PER_ROUND == 0:
            round_ = consortium.attacked(engine, rng)
        tally = Tally(name=ScaleAllButAnchor.name, summary="", claimed=False)
        attempt(round_, guesser, truth, tally)
        forged += tally.worst_shift >= HARMLESS
    return GuessRate(decision_points=decision_points, splits=splits, tries=tries, forged=forged)
