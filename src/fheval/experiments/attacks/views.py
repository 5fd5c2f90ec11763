"""What the curious see: do the numbers before them depend on the data?

The aggregator of a padded protocol sees padded counts; a key holder sees every slot of the aggregator's answer. Both
look at two data sets of very different size, and compare the distributions of what they see.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from fheval.engines import Engine
from fheval.experiments.attacks.chance import IMPLAUSIBLE, same_distribution
from fheval.experiments.attacks.consortium import Consortium, fresh_stream
from fheval.experiments.attacks.released_pair import LeakRate
from fheval.experiments.attacks.reused_keys import ReusedKeys
from fheval.experiments.attacks.stage import Stage
from fheval.field import Residues
from fheval.protocols import padded, padded_verified, padding, paper_malicious, paper_semi_honest

Sample = npt.NDArray[np.float64]

# How many times as large the second data set is.
SIZE = 1000
ROUNDS = 3

# Counts of one party differ by less than this; under different pads, uploads do so once in 2^25.
_CLOSE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """How likely the numbers are to differ as much as they do although they do not depend on the data."""

    name: str
    numbers: int
    chance: float

    @property
    def holds(self) -> bool:
        """Whether nothing can be told from them."""
        return self.chance > IMPLAUSIBLE

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"name": self.name, "numbers": self.numbers, "chance": self.chance, "holds": self.holds}


def compare_uploads(consortium: Consortium, engine: Engine, rounds: int = ROUNDS) -> Likeness:
    """The aggregator compares the padded counts of two data sets."""
    small, large = (
        np.concatenate([_scaled(values, prime) for stage in stages for prime, values in padded_counts(stage)])
        for stages in _stages(consortium, engine, rounds)
    )
    return Likeness(name="compare-uploads", numbers=len(small), chance=same_distribution(small, large))


def subtract_uploads(consortium: Consortium, engine: Engine, rounds: int = ROUNDS) -> LeakRate:
    """The aggregator subtracts uploads of all rounds, parties and primes from each other.

    Had two of them the same pad, their difference would be that of the counts, and small.
    """
    stages, _ = _stages(consortium, engine, rounds)
    uploads = [upload for stage in stages for upload in padded_counts(stage)]
    close = compared = 0
    for (prime, one), (_, other) in combinations(uploads, 2):
        distance = (one.astype(np.int64) - other.astype(np.int64)) % prime
        close += int(np.count_nonzero(np.minimum(distance, prime - distance) < _CLOSE))
        compared += len(one)
    smallest = min(prime for prime, _ in uploads)
    return LeakRate(name="subtract-uploads", tries=compared, right=close, conceded=2 * _CLOSE / smallest)


def compare_slots(consortium: Consortium, engine: Engine, rounds: int = ROUNDS) -> Likeness:
    """A key holder compares all slots of the answers to two data sets, but for the released numbers."""
    small, large = (
        np.concatenate([_unreleased(stage, consortium.protocol) for stage in stages])
        for stages in _stages(consortium, engine, rounds)
    )
    return Likeness(name="compare-slots", numbers=len(small), chance=same_distribution(small, large))


def padded_counts(stage: Stage) -> list[tuple[int, Residues]]:
    """What each party sent for each prime, as the aggregator reads it."""
    layout = _LAYOUTS[stage.round.protocol](stage.round)
    found = []
    for upload in stage.uploads():
        reader = padding.UploadSum(2 * layout.terms * len(layout.primes))
        reader.add(upload, "a party")
        found += list(zip(layout.primes, reader.totals(layout.primes), strict=True))
    return found


_LAYOUTS = {padded.NAME: padded.Layout.of, padded_verified.NAME: padded_verified.lay_out}

_AGGREGATORS: dict[str, type[Any]] = {
    padded.NAME: padded.Aggregator,
    padded_verified.NAME: padded_verified.Aggregator,
    paper_semi_honest.NAME: paper_semi_honest.Aggregator,
    paper_malicious.NAME: paper_malicious.Aggregator,
}


def _unreleased(stage: Stage, protocol: str) -> Sample:
    """Every slot of the answer that a key holder can decrypt, without the real part of a paper protocol's first."""
    result: Any = stage.answer(_AGGREGATORS[protocol])
    if protocol in _LAYOUTS:
        primes = _LAYOUTS[protocol](stage.round).primes
        sets = padding.parameter_sets(primes)
        return np.concatenate(
            [
                _scaled(stage.engine.key_holder(chosen, key).decrypt(data), chosen.plain_modulus)
                for chosen, key, sheets in zip(sets, stage.secrets.keys, result.ciphertexts, strict=True)
                for data in sheets
            ]
        )
    if protocol == paper_malicious.NAME:
        chosen, ciphertexts = paper_malicious.parameters(stage.round), [data for run in result.runs for data in run]
    else:
        chosen, ciphertexts = paper_semi_honest.parameters(stage.round), result.ciphertexts
    holder = stage.engine.key_holder(chosen, stage.secrets.keys[0])
    slots = [holder.decrypt(data) for data in ciphertexts]
    return np.concatenate([part for each in slots for part in (each.real[1:], each.imag)])


def _scaled(values: Residues, prime: int) -> Sample:
    return values.astype(np.float64) / prime


def _stages(consortium: Consortium, engine: Engine, rounds: int) -> tuple[list[Stage], list[Stage]]:
    """Rounds over a data set, and over one that is many times as large."""
    reused, rng = ReusedKeys(engine), fresh_stream()
    small, large = ([consortium.stage(reused, rng, size=size) for _ in range(rounds)] for size in (1, SIZE))
    return small, large
