"""Whether somebody's row was there: an attack on noisy curves, and what its success says about ε.

The adversary knows every other row, the shares of noise of all who work with it, and the noisy counts. What it does not
know is the sum of the honest shares and whether one row is in one cell, so that it sees that sum, or that sum plus one.
It looks for the outcomes that speak most for the row: on half of the runs it orders all outcomes by how much likelier
they were with the row, and collects the first of them as long as that lowers its doubt; on the other half it counts how
often they come with and without the row. If counts are (ε, δ)-differentially private, P(with) ≤ e^ε·P(without) + δ for
every set of outcomes, the worst one among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from fheval.privacy.sampling import Noise
from fheval.protocols.curve import noised
from fheval.protocols.round import Round
from fheval.secrets import Randomness

# So many deviations on each side: a claim that holds is refuted once in ten thousand times.
_DEVIATIONS = 3.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinguished:
    """What an adversary found: `epsilon` is the least with which its success agrees, chance allowed for.

    `with_row` and `without_row` are how often its outcomes came.
    """

    runs: int
    with_row: int
    without_row: int
    epsilon: float


def distinguish(round_: Round, honest: int, delta: float, rng: Randomness, *, runs: int = 10_000) -> Distinguished:
    """Attack a round of which so many shares of noise are unknown, over so many runs with the row and without."""
    shown, hidden = (_views(round_, honest, row, runs, rng) for row in (1, 0))
    half = runs // 2
    outcomes = _telling(shown[:half], hidden[:half])
    with_row, without_row = (int(np.isin(each[half:], outcomes).sum()) for each in (shown, hidden))
    least, most = _least(with_row, runs - half), _most(without_row, runs - half)
    epsilon = log((least - delta) / most) if least > delta else -inf
    return Distinguished(runs=runs, with_row=with_row, without_row=without_row, epsilon=epsilon)


def _views(round_: Round, honest: int, row: int, runs: int, rng: Randomness) -> NDArray[np.int64]:
    """One cell of so many runs, as it is left when all other counts and shares are taken off.

    Each count of a round has noise of its own, so that a round of many counts stands for as many runs of one.
    """
    counts = np.zeros(runs, dtype=np.int64)
    for _ in range(honest):
        counts = noised(round_, counts, rng)
    return counts + row


def _telling(shown: NDArray[np.int64], hidden: NDArray[np.int64]) -> NDArray[np.int64]:
    """The outcomes that speak most for the row, as many as make the strongest case."""
    values = np.unique(np.concatenate([shown, hidden]))
    with_row, without_row = ((values[:, np.newaxis] == each).sum(axis=1) for each in (shown, hidden))
    # One more of each keeps outcomes that came once from looking certain.
    order = np.argsort(-(with_row + 1) / (without_row + 1), kind="stable")
    runs = len(shown)
    best, chosen = -inf, 1
    for count in range(1, len(order) + 1):
        inside = order[:count]
        claim = _least(int(with_row[inside].sum()), runs) / _most(int(without_row[inside].sum()), runs)
        if claim > best:
            best, chosen = claim, count
    return values[order[:chosen]]


def _least(successes: int, tries: int) -> float:
    """A lower bound on a rate (Wilson)."""
    return _wilson(successes, tries, -1)


def _most(successes: int, tries: int) -> float:
    return _wilson(successes, tries, 1)


def _wilson(successes: int, tries: int, sign: int) -> float:
    rate, weight = successes / tries, _DEVIATIONS**2 / tries
    middle = rate + weight / 2
    half = _DEVIATIONS * sqrt(rate * (1 - rate) / tries + weight / (4 * tries))
    return max((middle + sign * half) / (1 + weight), 0.0)


def round_with(noise: Noise, parties: int) -> Round:
    """A round of so many parties whose counts have this noise."""
    names = tuple(f"party-{number}" for number in range(1, parties + 1))
    return Round(id="0" * 32, protocol="", engine="", parties=names, leader=names[0], sums=1, noise=noise)
