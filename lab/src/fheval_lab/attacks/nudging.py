"""How blind a comparison to five decimals is: the nudge against `paper-malicious`, as a function of the shift.

The aggregator adds ε·Y to X in both runs, which moves their ratios by ε·r_2/r_0 each, with r_2/r_0 of the run. The
parties accept if the two agree to five decimals. r_2/r_0 is a product of four factors that are log-uniform over
[2^-2, 2^2) and independent from run to run, so that the rate can be had from these alone, a million rounds at a time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fheval.protocols.blinded_ratio import FloatVector
from fheval.protocols.paper_malicious import MULTIPLIER_EXPONENTS, TOLERANCE
from fheval.secrets import Randomness, SystemRandomness, symmetric_floats

SHIFTS = (1e-5, 2e-5, 5e-5, 1e-4, 1e-3, 1e-2, 1e-1)
ROUNDS = 1_000_000

# The aggregator does not know r_2/r_0; it picks the ε that serves it best for the shift it wants, out of these times
# the shift.
_CHOICES = tuple(2.0**exponent for exponent in range(-8, 9))


@dataclass(frozen=True, slots=True, kw_only=True)
class NudgeRate:
    """How often an AUC moved by at least `shift` was accepted, with the ε that is best for it."""

    shift: float
    epsilon: float
    rounds: int
    accepted: int

    @property
    def holds(self) -> bool:
        """Nothing is claimed here: the rate is what it is."""
        return True

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rate": self.accepted / self.rounds}


def nudge_rates(shifts: tuple[float, ...] = SHIFTS, rounds: int = ROUNDS) -> list[NudgeRate]:
    """The best rate for each shift.

    >>> small, large = nudge_rates((1e-5, 1e-2), rounds=10_000)
    >>> small.accepted > large.accepted
    True
    """
    rng = SystemRandomness()
    first, second = multiplier_ratios(rng, rounds), multiplier_ratios(rng, rounds)
    return [_best(shift, first, second) for shift in shifts]


def multiplier_ratios(rng: Randomness, rounds: int) -> FloatVector:
    """r_2/r_0 = r_7·r_8/(r_3·r_4) of one run each."""
    low, high = MULTIPLIER_EXPONENTS
    exponents = symmetric_floats(rng, (high - low) / 2, 4 * rounds).reshape(4, rounds)
    # Four factors, two of them inverted; the middle of the range cancels.
    ratios: FloatVector = 2.0 ** (exponents[0] + exponents[1] - exponents[2] - exponents[3])
    return ratios


def accepted_nudges(epsilon: float, shift: float, first: FloatVector, second: FloatVector) -> int:
    """In how many rounds the runs agree to five decimals although the AUC moved by at least `shift`."""
    agree = np.abs(epsilon * (first - second)) <= TOLERANCE
    moved = epsilon * (first + second) / 2 >= shift
    return int(np.count_nonzero(agree & moved))


def _best(shift: float, first: FloatVector, second: FloatVector) -> NudgeRate:
    tried = [(accepted_nudges(shift * choice, shift, first, second), shift * choice) for choice in _CHOICES]
    accepted, epsilon = max(tried)
    return NudgeRate(shift=shift, epsilon=epsilon, rounds=len(first), accepted=accepted)
