"""What the curious see: do the numbers before them depend on the data?

The aggregator of a padded protocol sees padded counts; a key holder sees every slot of the aggregator's answer. Both
look at two data sets of very different size, and compare the distributions of what they see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from fheval.engines import Engine
from fheval.field import Residues
from fheval.protocols.base import Stage
from fheval.protocols.padded import PadSums
from fheval.protocols.round import AGGREGATOR
from fheval.wire import decode
from fheval_lab.attacks.attacked import AttackedRound
from fheval_lab.attacks.chance import IMPLAUSIBLE, same_distribution
from fheval_lab.attacks.consortium import Consortium, fresh_stream
from fheval_lab.attacks.released_pair import LeakRate
from fheval_lab.attacks.reused_keys import ReusedKeys
from fheval_lab.attacks.suite import adversary_of

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
        return self.chance > IMPLAUSIBLE

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


def compare_uploads(consortium: Consortium, engine: Engine, rounds: int = ROUNDS) -> Likeness:
    """The aggregator compares the padded counts of two data sets."""
    small, large = (
        [values / prime for round_ in attacked for prime, values in padded_counts(round_)]
        for attacked in _rounds(consortium, engine, rounds)
    )
    return _likeness("compare-uploads", small, large)


def subtract_uploads(consortium: Consortium, engine: Engine, rounds: int = ROUNDS) -> LeakRate:
    """The aggregator subtracts uploads of all rounds and parties from each other, and those for different primes.

    Had two of them the same pad, their difference would be that of the counts, and small.
    """
    attacked, _ = _rounds(consortium, engine, rounds)
    uploads = [upload for round_ in attacked for upload in padded_counts(round_)]
    close = compared = 0
    for (prime, one), (_, other) in combinations(uploads, 2):
        distance = (one.astype(np.int64) - other.astype(np.int64)) % prime
        close += int(np.count_nonzero(np.minimum(distance, prime - distance) < _CLOSE))
        compared += len(one)
    smallest = min(prime for prime, _ in uploads)
    return LeakRate(name="subtract-uploads", tries=compared, right=close, conceded=2 * _CLOSE / smallest)


def compare_slots(consortium: Consortium, engine: Engine, rounds: int = ROUNDS) -> list[Likeness]:
    """A key holder compares the slots of the answers to two data sets: those that sums pass through, and the others.

    The released numbers themselves are left out.
    """
    small, large = ([_slots(round_) for round_ in attacked] for attacked in _rounds(consortium, engine, rounds))
    return [
        _likeness(f"compare-{part}-slots", [slots[index] for slots in small], [slots[index] for slots in large])
        for index, part in enumerate(("used", "unused"))
    ]


def divide_slots(consortium: Consortium, engine: Engine, rounds: int = ROUNDS) -> LeakRate:
    """The leader divides the slots of X by what it had put into them, which gives w·Y_R and w, and takes its pads off.

    Without the random vector that hides them, counts would come out.
    """
    attacked, _ = _rounds(consortium, engine, rounds)
    close, primes = [], []
    for round_ in attacked:
        answered = _decrypted(round_)
        (sent,) = round_.answers_at(Stage.PADS)
        sheets = decode(sent, PadSums, sender=round_.round.leader).ciphertexts
        pads = _opened(round_, [only for (only,) in sheets])
        plan = adversary_of(round_.protocol).lay_out(round_.round).plan
        for (prime, slots), (_, put) in zip(answered, pads, strict=True):
            quotients = [
                int(top) * pow(int(bottom), -1, prime) for top, bottom in zip(slots, put, strict=True) if bottom
            ]
            weight = pow(quotients[len(plan.source)], -1, prime)
            minus_right = put[plan.used - len(plan.source) :]
            for product in range(plan.stretches[0]):
                count = (quotients[product] * weight + int(minus_right[product])) % prime
                close.append(min(count, prime - count) < _CLOSE)
            primes.append(prime)
    return LeakRate(name="divide-slots", tries=len(close), right=sum(close), conceded=2 * _CLOSE / min(primes))


def padded_counts(round_: AttackedRound) -> list[tuple[int, Residues]]:
    """What each party sent, as the aggregator reads it: for each prime, or the lowest and the highest of the bits.

    With each comes what it is a residue of.
    """
    layout = adversary_of(round_.protocol).lay_out(round_.round)
    found: list[tuple[int, Residues]] = []
    for upload in round_.uploads():
        if layout.bits:
            limbs = np.frombuffer(upload.values, dtype="<u4").astype(np.uint64).reshape(-1, layout.bits // 32)
            low, high = (limbs[:, first] | limbs[:, first + 1] << np.uint64(32) for first in (0, -2))
            found += [(1 << 62, low & np.uint64((1 << 62) - 1)), (1 << 62, high >> np.uint64(2))]
        else:
            reader = layout.upload_sum()
            reader.add(upload.values, "a party")
            found += list(zip(layout.primes, reader.totals(layout.primes), strict=True))
    return found


def _slots(round_: AttackedRound) -> tuple[Sample, Sample]:
    """All numbers in the slots of an answer but the released ones: those that sums pass through, and the others."""
    used = adversary_of(round_.protocol).used_slots(round_.round)
    decrypted = _decrypted(round_)
    if decrypted[0][0]:
        parts = [slots / prime for prime, slots in decrypted]
        return np.concatenate([part[:used] for part in parts]), np.concatenate([part[used:] for part in parts])
    parts = [part for _, slots in decrypted for part in (slots.real, slots.imag)]
    # The first slot holds a released number, in its real part.
    return np.concatenate([part[1:used] for part in parts]), np.concatenate([part[used:] for part in parts])


def _decrypted(round_: AttackedRound) -> list[tuple[int, Any]]:
    """What a key holder decrypts of an honest answer: the plain modulus, 0 for CKKS, and the slots."""
    family = adversary_of(round_.protocol)
    result = decode(round_.answer_of(round_.protocol.aggregator), family.answer, sender=AGGREGATOR)
    return _opened(round_, family.ciphertexts(result))


def _opened(round_: AttackedRound, ciphertexts: Sequence[Sequence[bytes]]) -> list[tuple[int, Any]]:
    sets, keys = round_.protocol.parameter_sets(round_.round), round_.secrets.keys
    return [
        (chosen.plain_modulus, round_.engine.key_holder(chosen, key).decrypt(data))
        for chosen, key, of_set in zip(sets, keys, ciphertexts, strict=True)
        for data in of_set
    ]


def _likeness(name: str, small: Sequence[Sample], large: Sequence[Sample]) -> Likeness:
    one, other = np.concatenate(small), np.concatenate(large)
    return Likeness(name=name, numbers=len(one), chance=same_distribution(one, other))


def _rounds(consortium: Consortium, engine: Engine, rounds: int) -> tuple[list[AttackedRound], list[AttackedRound]]:
    """Rounds over a data set, and over one that is many times as large."""
    reused, rng = ReusedKeys(engine), fresh_stream()
    first = consortium.attacked(reused, rng)
    small, large = ([consortium.attacked(reused, rng, first, size=size) for _ in range(rounds)] for size in (1, SIZE))
    return small, large
