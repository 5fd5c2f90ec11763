"""The parties' labels and scores, checked as a round would check them, for baselines that look at them directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fheval.counting.chunks import chunk_of_arrays, first_bad_label, first_bad_score
from fheval.errors import InputError

Parties = Sequence[tuple[ArrayLike, ArrayLike]]

_LARGEST = float(np.finfo(np.float64).max)
UNIT_INTERVAL = (0.0, 1.0)
ANY_FINITE = (-_LARGEST, _LARGEST)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Samples:
    """One party's samples: labels 0 or 1 and finite scores, of one length. It does not print them."""

    labels: NDArray[np.int64]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)


def check_parties(parties: Parties, score_range: tuple[float, float] = UNIT_INTERVAL) -> list[Samples]:
    """Check every party's labels and scores; an `InputError` names the party, row and column."""
    if not parties:
        raise InputError("There are no parties. Give labels and scores of at least one.")
    named = ((f"party {number}", *arrays) for number, arrays in enumerate(parties, start=1))
    return [_check_party(*each, score_range) for each in named]


def pool(samples: Sequence[Samples]) -> Samples:
    """Everybody's samples in one place, which is what the protocols avoid."""
    labels, scores = zip(*((part.labels, part.scores) for part in samples), strict=True)
    return Samples(np.concatenate(labels), np.concatenate(scores))


def _check_party(source: str, labels: ArrayLike, scores: ArrayLike, score_range: tuple[float, float]) -> Samples:
    chunk = chunk_of_arrays(labels, scores, source=source)
    if not len(chunk):
        raise InputError(f"{source}: there are no rows. Give at least one label and score.")
    values = chunk.scores.astype(np.float64)
    if (bad := first_bad_label(chunk.labels)) is not None:
        raise chunk.refuse_label(bad)
    if (bad := first_bad_score(values, score_range)) is not None:
        raise chunk.refuse_score(bad)
    return Samples(chunk.labels.astype(np.int64), values)
