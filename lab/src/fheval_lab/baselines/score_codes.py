"""Scores as integers in the same order, with the same ties, in as few bits as their format allows.

IEEE 754 numbers that are not negative are ordered like their bit patterns. A comparison on secret-shared integers
costs in proportion to their bits, so the narrowest format that keeps every score apart is taken. The format is
public; each party can test its own scores for it without showing them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScoreFormat:
    """A way to write scores as integers; `fits` says whether a party's scores are all of this format."""

    name: str
    value_bits: int
    unit_bits: int
    fits: Callable[[Scores], bool]
    encode: Callable[[Scores], Codes]

    def difference_bits(self, *, unit: bool) -> int:
        """The bits, sign included, of the difference of two codes; `unit` when all scores lie in [0, 1]."""
        return self.unit_bits + 1 if unit else self.value_bits + 1


def _single(scores: Scores) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is then found not to fit
        return scores.astype(np.float32)


def _codes_of_single(scores: Scores) -> Codes:
    magnitude = np.abs(_single(scores)).view(np.int32).astype(np.int64)
    return np.where(scores < 0, -magnitude, magnitude)


def _codes_of_double(scores: Scores) -> Codes:
    magnitude = np.abs(scores).view(np.int64)
    return np.where(scores < 0, -magnitude, magnitude)


def _is_single(scores: Scores) -> bool:
    return bool(np.all(_single(scores) == scores))


def _is_printed_single(scores: Scores) -> bool:
    """Whether every score is the double nearest to the shortest decimal of a single: text written by float32 code.

    Two different such doubles come from two different singles, so rounding to single loses neither order nor ties.
    """
    single = _single(scores)
    return bool(np.all(np.isfinite(single))) and bool(np.all(single.astype(str).astype(np.float64) == scores))


# 0x3F800000 is the single 1.0 (30 bits), 0x3FF0000000000000 the double 1.0 (62 bits).
FORMATS = (
    ScoreFormat("float32", 32, 30, _is_single, _codes_of_single),
    ScoreFormat("float32 as decimal text", 32, 30, _is_printed_single, _codes_of_single),
    ScoreFormat("float64", 64, 62, lambda _: True, _codes_of_double),
)


def common_format(parties: Sequence[Scores]) -> ScoreFormat:
    """The first format that fits the scores of every party.

    >>> common_format([np.array([0.5]), np.array([1 / 3])]).name
    'float64'
    >>> common_format([np.array([0.3]), np.array([0.1])]).name
    'float32 as decimal text'
    """
    return next(form for form in FORMATS if all(form.fits(scores) for scores in parties))
