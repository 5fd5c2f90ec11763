"""Ratios measured in one run: what the aggregator does per protocol, and how it grows.

Absolute times depend on the machine and on what else it does; the ratios of one run depend on neither much. Uploads
are made once by a few parties and sent again under other names where only the aggregator's time is measured: its work
does not depend on what is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import process_time
from types import ModuleType

import numpy as np

from fheval import wire
from fheval.engines import Engine
from fheval.field import Residues
from fheval.metrics.forms import Contribution, auc_form
from fheval.protocols import padded, padded_verified, padding, paper_malicious, paper_semi_honest
from fheval.protocols.round import (
    AGGREGATOR,
    DEFAULT_MAX_SAMPLES,
    PartySecrets,
    PublicSetup,
    Round,
    leader_set_up,
    new_round_id,
)
from fheval.secrets import SystemRandomness, residues
from fheval.wire import Message

DISTINCT_UPLOADS = 4

# Uploads that wait for the aggregator, as in a socket's buffer: few enough to stay in the cache where they are small.
UPLOADS_AHEAD = 64
MEMORY_AHEAD = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One quantity, measured several times in one run: the median, and the smallest and largest."""

    name: str
    engine: str
    parties: int
    decision_points: int
    seconds: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One measured quantity over another of the same run, with its spread, and the limit it is held to."""

    name: str
    engine: str
    value: float
    low: float
    high: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.value <= self.limit


def aggregator_work(engine: Engine, protocol: str, parties: int, decision_points: int) -> Callable[[], float]:
    """Prepare a round and give a function that plays the aggregator once and says how long it worked.

    Everything from the first upload to the written result is counted: reading messages, loading ciphertexts, adding,
    computing, writing. Loading the public keys is not: that is set-up, and serves many rounds.
    """
    rng = SystemRandomness()
    names = tuple(f"party-{number}" for number in range(parties))
    round_ = Round(
        id=new_round_id(rng),
        protocol=protocol,
        engine=engine.name,
        forms=(auc_form(decision_points, DEFAULT_MAX_SAMPLES),),
        parties=names,
        leader=names[0],
        precision=1e-4 if protocol == padded.NAME else None,
    )
    setup, uploads, begin = _PREPARATIONS[protocol](engine, round_, rng)
    ahead = min(UPLOADS_AHEAD, MEMORY_AHEAD // len(next(uploads())))

    def once() -> float:
        play = begin(wire.decode(setup, PublicSetup, sender=names[0]))
        watch = _Stopwatch()
        play(watch.outside(uploads(), ahead))
        return watch.stop()

    return once


class _Stopwatch:
    """Runs from its making to `stop`, except while an upload is being made for the aggregator."""

    def __init__(self) -> None:
        self._start = process_time()
        self._elsewhere = 0.0

    def outside(self, uploads: Iterator[bytes], ahead: int) -> Iterator[bytes]:
        """Make `ahead` uploads at a time, since reading the clock for each would take as long as adding it."""
        while True:
            left = process_time()
            made = list(islice(uploads, ahead))
            self._elsewhere += process_time() - left
            if not made:
                return
            yield from made

    def stop(self) -> float:
        return process_time() - self._start - self._elsewhere


def _contribution(decision_points: int, number: int) -> Contribution:
    steps = np.arange(decision_points, dtype=np.int64)
    tp, fp = steps * (number + 2), steps * (number + 1)
    return Contribution(np.append(tp[1:] + tp[:-1], tp[-1]), np.append(fp[1:] - fp[:-1], 2 * fp[-1]))


Play = Callable[[Iterator[bytes]], None]
Prepared = tuple[bytes, Callable[[], Iterator[bytes]], Callable[[PublicSetup], Play]]


def _prepare_semi_honest(engine: Engine, round_: Round, rng: SystemRandomness) -> Prepared:
    def submit(secrets: PartySecrets, own: Contribution) -> Message:
        return paper_semi_honest.party_submit(engine, round_, secrets, round_.leader, own)

    return _prepare_ciphertexts(engine, round_, rng, paper_semi_honest, paper_semi_honest.CountShare, submit)


def _prepare_malicious(engine: Engine, round_: Round, rng: SystemRandomness) -> Prepared:
    def submit(secrets: PartySecrets, own: Contribution) -> Message:
        return paper_malicious.party_submit(engine, round_, secrets, round_.leader, own, rng)

    return _prepare_ciphertexts(engine, round_, rng, paper_malicious, paper_malicious.CountShares, submit)


def _prepare_ciphertexts(
    engine: Engine,
    round_: Round,
    rng: SystemRandomness,
    protocol: ModuleType,
    upload: type[Message],
    submit: Callable[[PartySecrets, Contribution], Message],
) -> Prepared:
    secrets, setup = leader_set_up(engine, round_, [protocol.parameters(round_)], rng)
    points = round_.forms[0].terms
    made = [submit(secrets, _contribution(points, number)) for number in range(DISTINCT_UPLOADS)]

    def begin(keys: PublicSetup) -> Play:
        aggregator = protocol.Aggregator(engine, round_, keys, rng)

        def play(uploads: Iterator[bytes]) -> None:
            for data in uploads:
                aggregator.receive(wire.decode(data, upload, sender=AGGREGATOR))
            wire.encode(aggregator.result())

        return play

    return wire.encode(setup), _renamed(made, round_), begin


def _prepare_padded(engine: Engine, round_: Round, rng: SystemRandomness) -> Prepared:
    return _prepare_pads(engine, round_, rng, padded.Aggregator)


def _prepare_padded_verified(engine: Engine, round_: Round, rng: SystemRandomness) -> Prepared:
    return _prepare_pads(engine, round_, rng, padded_verified.Aggregator)


def _prepare_pads(
    engine: Engine, round_: Round, rng: SystemRandomness, aggregator_type: type[padded.Aggregator]
) -> Prepared:
    layout = aggregator_type.lay_out(round_)
    secrets, setup = leader_set_up(engine, round_, padding.parameter_sets(layout.primes), rng)
    # An upload is uniform to whoever lacks the seed, so a random one is as good as a real one.
    made = [
        padded.PaddedCounts(
            round=round_.id,
            sender=round_.parties[0],
            values=padding.pack([_uniform(prime, 2 * layout.terms, rng) for prime in layout.primes]),
        )
        for _ in range(DISTINCT_UPLOADS)
    ]
    sums = [_uniform(prime, 2 * layout.terms, rng) for prime in layout.primes]
    sealed = padding.leader_encrypt(engine, secrets, layout.primes, layout.plan, sums)
    pads = wire.encode(padded.PadSums(round=round_.id, sender=round_.leader, roster=round_.parties, ciphertexts=sealed))

    def begin(keys: PublicSetup) -> Play:
        aggregator = aggregator_type(engine, round_, keys, rng)

        def play(uploads: Iterator[bytes]) -> None:
            for data in uploads:
                aggregator.receive(wire.decode(data, padded.PaddedCounts, sender=AGGREGATOR))
            wire.encode(aggregator.close())
            wire.encode(aggregator.result(wire.decode(pads, padded.PadSums, sender=round_.leader)))

        return play

    return wire.encode(setup), _renamed(made, round_), begin


def _uniform(prime: int, count: int, rng: SystemRandomness) -> Residues:
    return residues(rng, prime, count)


def _renamed(messages: Sequence[Message], round_: Round) -> Callable[[], Iterator[bytes]]:
    """Give every party an upload, made when it is asked for."""
    fields = [{name: getattr(each, name) for name in each.__struct_fields__} for each in messages]

    def encoded() -> Iterator[bytes]:
        for number, name in enumerate(round_.parties):
            chosen = fields[number % len(fields)]
            yield wire.encode(type(messages[0])(**{**chosen, "sender": name}))

    return encoded


_PREPARATIONS: dict[str, Callable[[Engine, Round, SystemRandomness], Prepared]] = {
    paper_semi_honest.NAME: _prepare_semi_honest,
    paper_malicious.NAME: _prepare_malicious,
    padded.NAME: _prepare_padded,
    padded_verified.NAME: _prepare_padded_verified,
}
