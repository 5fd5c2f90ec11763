"""Rounds with known counts, played whole or role by role, for the tests of the protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import add
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
from fheval.protocols.watch import InProcess

from fheval.counting import Counts
from fheval.engines import Engine, Parameters
from fheval.metrics.forms import Contribution, Form, auc_contribution, auc_form
from fheval.protocols import PROTOCOLS, padded, padded_verified, padding, run_round
from fheval.protocols.round import (
    DEFAULT_MAX_SAMPLES,
    Outcome,
    PartySecrets,
    PublicSetup,
    Round,
    leader_set_up,
    new_round_id,
)
from fheval.secrets import Randomness, SystemRandomness
from fheval_lab.clear import ClearEngine

CLEAR = ClearEngine()
PADDED = ("padded", "padded-verified")
PAPER = ("paper-semi-honest", "paper-malicious")
ALL = PADDED + PAPER

Contributions = Mapping[str, Sequence[Contribution]]


def named(count: int) -> tuple[str, ...]:
    """The names of that many parties."""
    return tuple(f"hospital-{number}" for number in range(1, count + 1))


def a_round(
    protocol: str,
    parties: Sequence[str] | int = 3,
    *,
    decision_points: int = 6,
    forms: Sequence[Form] | None = None,
    engine: Engine = CLEAR,
    max_samples: int = DEFAULT_MAX_SAMPLES,
    **options: Any,
) -> Round:
    """A round with a fresh id; its first party leads unless the options say otherwise."""
    names = named(parties) if isinstance(parties, int) else tuple(parties)
    module = PROTOCOLS.get(protocol)
    defaults: dict[str, Any] = {
        "id": new_round_id(SystemRandomness()),
        "leader": names[0],
        "precision": module.DEFAULT_PRECISION if module else None,
        "forms": tuple(forms or [auc_form(decision_points, max_samples)]),
    }
    return Round(protocol=protocol, engine=engine.name, parties=names, max_samples=max_samples, **(defaults | options))


def again(round_: Round, **changes: Any) -> Round:
    """The same round under a new id, and whatever else changes."""
    return msgspec.structs.replace(round_, **({"id": new_round_id(SystemRandomness())} | changes))


def counts_of(samples: Sequence[tuple[int, float]], decision_points: int) -> Counts:
    """The counts of one party, which may have no samples at all."""
    if not samples:
        return Counts.zero(decision_points)
    labels, scores = zip(*samples, strict=True)
    return Counts.from_scores(labels, scores, decision_points)


def pooled(counts: Sequence[Counts]) -> Counts:
    """What one holder of all the data would have counted."""
    return reduce(add, counts)


def exact(counts: Counts) -> Fraction:
    """num/den of the pooled counts."""
    return Fraction(counts.numerator(), counts.denominator())


def curve(positives: int, negatives: int, decision_points: int = 6, bend: float = 0.5) -> Counts:
    """Counts of a smooth curve with that many samples of each class; a smaller `bend` is a better model."""
    steps = np.linspace(0, 1, decision_points)
    grid = Counts.zero(decision_points).grid
    return Counts(
        tp=np.rint(positives * steps**bend).astype(np.int64), fp=np.rint(negatives * steps).astype(np.int64), grid=grid
    )


def contributions_of(round_: Round, counts: Sequence[Counts]) -> dict[str, list[Contribution]]:
    """Each party's contribution, in the order of the round."""
    return {party: [auc_contribution(each)] for party, each in zip(round_.parties, counts, strict=True)}


def play(round_: Round, contributions: Contributions, engine: Engine = CLEAR, rng: Randomness | None = None) -> Outcome:
    """The whole round, all roles."""
    return run_round(engine, round_, contributions, rng or SystemRandomness(), InProcess())


def parameters_of(round_: Round) -> list[Parameters]:
    """The parameter sets that the round's protocol asks for."""
    if round_.protocol in PADDED:
        return padding.parameter_sets(layout_of(round_).primes)
    return [PROTOCOLS[round_.protocol].parameters(round_)]


def layout_of(round_: Round) -> padded.SlotLayout:
    """The slots of a padded round."""
    return padded_verified.lay_out(round_) if round_.protocol == "padded-verified" else padded.Layout.of(round_)


@dataclass
class Cast:
    """All roles of one round, played step by step; keys may be taken over from an earlier round."""

    round: Round
    engine: Engine = CLEAR
    rng: Randomness = field(default_factory=SystemRandomness)
    keys: tuple[PartySecrets, PublicSetup] | None = None

    def __post_init__(self) -> None:
        if self.keys is None:
            self.keys = leader_set_up(self.engine, self.round, parameters_of(self.round), self.rng)
        self.secrets, self.setup = self.keys

    @property
    def module(self) -> ModuleType:
        """The protocol."""
        return PROTOCOLS[self.round.protocol]

    def next(self, **changes: Any) -> Cast:
        """A further round with the same keys and seed."""
        return Cast(again(self.round, **changes), self.engine, self.rng, self.keys)

    def upload(self, party: str, contributions: Sequence[Contribution]) -> Any:
        """What a party sends."""
        if self.round.protocol in PADDED:
            return self.module.party_submit(self.round, self.secrets, party, contributions)
        extra = [self.rng] if self.round.protocol == "paper-malicious" else []
        return self.module.party_submit(self.engine, self.round, self.secrets, party, contributions[0], *extra)

    def aggregator(self) -> Any:
        """An honest aggregator that has received nothing yet."""
        return self.module.Aggregator(self.engine, self.round, self.setup, self.rng)

    def served(self, contributions: Contributions) -> Any:
        """An aggregator that has received these uploads."""
        aggregator = self.aggregator()
        for party, own in contributions.items():
            aggregator.receive(self.upload(party, own))
        return aggregator

    def pads(self, notice: padded.RosterNotice, leader: str | None = None) -> padded.PadSums:
        """The leader's answer to the roster, in a padded round."""
        me = leader or self.round.leader
        lay_out = padded_verified.lay_out if self.round.protocol == "padded-verified" else padded.Layout.of
        return padded.leader_answer(self.engine, self.round, self.secrets, me, notice, lay_out)

    def answer(self, aggregator: Any) -> Any:
        """The aggregator's result, after the leader gave its pads if the protocol has any."""
        if self.round.protocol in PADDED:
            return aggregator.result(self.pads(aggregator.close()))
        return aggregator.result()

    def open(self, result: Any) -> Outcome:
        """What the opening party makes of the result."""
        if self.round.protocol in PADDED:
            notice = padded.RosterNotice(round=result.round, roster=result.roster)
            outcome: Outcome = self.module.leader_open(self.engine, self.round, self.secrets, notice, result)
        else:
            outcome = self.module.party_open(self.engine, self.round, self.secrets, result)
        return outcome

    def slots(self, result: Any) -> list[Any]:
        """Everything that a key holder finds in the ciphertexts of a result."""
        if self.round.protocol == "paper-semi-honest":
            grouped = [result.ciphertexts]
        elif self.round.protocol == "paper-malicious":
            grouped = [tuple(data for run in result.runs for data in run)]
        else:
            grouped = list(result.ciphertexts)
        return [
            self.engine.key_holder(chosen, key).decrypt(data)
            for chosen, key, ciphertexts in zip(parameters_of(self.round), self.secrets.keys, grouped, strict=True)
            for data in ciphertexts
        ]
