"""Ratios measured in one run: what the aggregator does per protocol, and how it grows.

Absolute times depend on the machine and on what else it does; the ratios of one run depend on neither much. Uploads
are made once by a few parties and sent again under other names where only the aggregator's time is measured: its work
does not depend on what is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from time import process_time
from typing import NamedTuple

import msgspec
import numpy as np

from fheval import wire
from fheval.engines import Engine
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Ask, Stage
from fheval.protocols.play import Members
from fheval.protocols.round import Contribution, PublicSetup
from fheval.secrets import SystemRandomness
from fheval.study import Study

DISTINCT_UPLOADS = 4

# Uploads that wait for the aggregator, as in a socket's buffer: few enough to stay in the cache where they are small.
UPLOADS_AHEAD = 64
MEMORY_AHEAD = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One quantity, measured several times in one run: the median, and the smallest and largest.

    `online` is the median of what came after the last upload.
    """

    name: str
    engine: str
    parties: int
    decision_points: int
    seconds: float
    low: float
    high: float
    online: float


class Played(NamedTuple):
    """Processor seconds of an aggregator in one round: in all, and after it got the last upload."""

    seconds: float
    online: float


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
        return self.value <= self.limit


def aggregator_work(engine: Engine, protocol: str, parties: int, decision_points: int) -> Callable[[], Played]:
    """Prepare a round and give a function that plays the aggregator once and says how long it worked.

    Everything up to the written result is counted: what is made ahead, reading messages, loading ciphertexts, adding,
    computing, writing. Loading the public keys is not: that is set-up, and serves many rounds.
    """
    rng = SystemRandomness()
    names = [f"party-{number}" for number in range(parties)]
    study = Study.of(protocol=protocol, decision_points=decision_points)
    round_ = study.round(study.call(rng, engine=engine.name, parties=names, leader=names[0]))
    own = {name: _contribution(decision_points, number) for number, name in enumerate(names[:DISTINCT_UPLOADS])}
    members = Members(PROTOCOLS[protocol], engine, round_, own, rng)
    uploads = _Uploads(members, names)
    # What the leader sends is made once, in the first play.
    kept: dict[Stage, list[tuple[str, bytes]]] = {}

    def once() -> Played:
        setup = wire.decode(members.setup, PublicSetup, sender=names[0])
        playing = members.protocol.aggregator(engine, round_, setup, rng).play()
        watch = _Stopwatch()
        ask = next(playing)
        while ask.stage is not members.protocol.opening:
            if ask.stage is Stage.SUBMIT:
                ask = playing.send(watch.outside(iter(uploads), uploads.ahead))
            else:
                ask = playing.send(watch.elsewhere(partial(_kept, kept, members, ask)))
        return watch.stop()

    return once


def _kept(kept: dict[Stage, list[tuple[str, bytes]]], members: Members, ask: Ask) -> list[tuple[str, bytes]]:
    if ask.stage not in kept:
        kept[ask.stage] = list(members.replies(ask))
    return kept[ask.stage]


class _Uploads:
    """An upload of every party, made when it is asked for: those of a few, sent again under other names."""

    def __init__(self, members: Members, names: list[str]) -> None:
        kind = members.protocol.aggregator.upload
        sent = [members.answer(name, Stage.SUBMIT, b"") for name in names[:DISTINCT_UPLOADS]]
        self._messages = [wire.decode(data, kind, sender="a party") for data in sent]
        self._names = names
        self.ahead = min(UPLOADS_AHEAD, MEMORY_AHEAD // len(sent[0]))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for number, name in enumerate(self._names):
            message = self._messages[number % DISTINCT_UPLOADS]
            yield name, wire.encode(msgspec.structs.replace(message, sender=name))


class _Stopwatch:
    """Runs from its making to `stop`, except while an upload is being made for the aggregator.

    What is online begins with the last upload.
    """

    def __init__(self) -> None:
        self._start = process_time()
        self._elsewhere = 0.0
        self._before = 0.0

    def outside(self, uploads: Iterator[tuple[str, bytes]], ahead: int) -> Iterator[tuple[str, bytes]]:
        """Make `ahead` uploads at a time, since reading the clock for each would take as long as adding it."""
        return chain.from_iterable(self._batches(uploads, ahead))

    def _batches(self, uploads: Iterator[tuple[str, bytes]], ahead: int) -> Iterator[list[tuple[str, bytes]]]:
        while made := self.elsewhere(lambda: list(islice(uploads, ahead))):
            yield made[:-1]
            self._before = self._worked()
            yield made[-1:]

    def elsewhere(self, make: Callable[[], list[tuple[str, bytes]]]) -> list[tuple[str, bytes]]:
        left = process_time()
        made = make()
        self._elsewhere += process_time() - left
        return made

    def stop(self) -> Played:
        seconds = self._worked()
        return Played(seconds, seconds - self._before)

    def _worked(self) -> float:
        return process_time() - self._start - self._elsewhere


def _contribution(decision_points: int, number: int) -> Contribution:
    return Contribution(np.repeat([number + 2, number + 1], decision_points - 1)[np.newaxis])
