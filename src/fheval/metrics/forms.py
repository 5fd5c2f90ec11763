"""The ratio form: a metric as num/den, each a sum of products of global sums.

Every party contributes two vectors of integers, `left` and `right`. Summed over the parties they are L and R, and

    num = Σ_{i < numerator} L_i·R_i          den = Σ_{numerator ≤ i} L_i·R_i.

Protocols know ratio forms and nothing of metrics.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from fheval.counting import Counts
from fheval.errors import ConfigError

IntegerVector = npt.NDArray[np.int64]


# Far more than any release has primes for.
MOST_SCALE_BITS = 1024


class FormError(ConfigError, ValueError):
    """A form that cannot be; also a `ValueError`, so that msgspec refuses a message that carries one."""


class Form(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The public shape of one ratio: how many products each side has, and a bound on num and den.

    The bound is magnitude·2^scale_bits, since a message carries integers of 64 bits. Neither num nor den is negative,
    though single products may be. A ratio is `proper` when num ≤ den always holds.
    """

    numerator: int
    denominator: int
    magnitude: int
    proper: bool = True
    scale_bits: int = 0

    def __post_init__(self) -> None:
        if min(self.numerator, self.denominator, self.magnitude) < 1 or not 0 <= self.scale_bits <= MOST_SCALE_BITS:
            raise FormError("A ratio form has no products or no bound. Ask the sender for the round again.")

    @classmethod
    def bounded(cls, *, numerator: int, denominator: int, bound: int, proper: bool = True) -> Form:
        """A form with a bound of any size, which is at least 2; a large one is rounded up.

        >>> Form.bounded(numerator=1, denominator=1, bound=2**100 - 1).bound == 2**100
        True
        """
        scale = max(0, bound.bit_length() - 62)
        magnitude = max(2, -(-bound >> scale))
        return cls(numerator=numerator, denominator=denominator, magnitude=magnitude, proper=proper, scale_bits=scale)

    @property
    def bound(self) -> int:
        """What neither num nor den exceeds."""
        return self.magnitude << self.scale_bits

    @property
    def terms(self) -> int:
        """How many products there are in all."""
        return self.numerator + self.denominator


@dataclass(frozen=True, slots=True)
class Contribution:
    """One party's private integers for one form."""

    left: IntegerVector = field(repr=False)
    right: IntegerVector = field(repr=False)


def auc_form(decision_points: int, max_samples: int) -> Form:
    """AUC over N decision points: N − 1 trapezoids over 2PQ, which is at most max_samples²/2."""
    return Form.bounded(numerator=decision_points - 1, denominator=1, bound=max_samples * max_samples // 2)


def auc_contribution(counts: Counts) -> Contribution:
    """left = (T^1 … T^{N−1}, P), right = (F^1 … F^{N−1}, 2Q)."""
    return Contribution(
        left=np.append(counts.t, counts.positives).astype(np.int64),
        right=np.append(counts.f, 2 * counts.negatives).astype(np.int64),
    )
