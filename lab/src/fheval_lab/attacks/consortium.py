"""The consortium that is attacked: parties with synthetic data, and rounds over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import msgspec
import numpy as np

from fheval.counting import Counts, Grid
from fheval.engines import Engine
from fheval.metrics.registry import auc_contribution
from fheval.protocols import PROTOCOLS
from fheval.protocols.play import Contributions
from fheval.protocols.round import DEFAULT_MAX_SAMPLES, Contribution, Round, leader_set_up
from fheval.secrets import SEED_BYTES, Randomness, Secret, Stream, SystemRandomness, derive, new_seed, symmetric_floats
from fheval.study import Study
from fheval_lab.attacks.attacked import AttackedRound

SAMPLES_PER_PARTY = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Consortium:
    """Parties with synthetic data, and the shape of their rounds; `options` are the protocol's own."""

    protocol: str
    parties: int = 4
    decision_points: int = 20
    max_samples: int = DEFAULT_MAX_SAMPLES
    options: Mapping[str, Any] = field(default_factory=dict)

    def round(self, engine: Engine, rng: Randomness) -> Round:
        study = Study.of(
            protocol=self.protocol,
            decision_points=Grid.even(self.decision_points),
            minimum_cohort=2,
            max_samples=self.max_samples,
            **(self._exact() | dict(self.options)),
        )
        names = [f"party-{number}" for number in range(1, self.parties + 1)]
        round_ = study.round(study.call(rng, engine=engine.name, parties=names, leader=names[0]))
        # The AUC alone, without its binning error: one ratio to be forged.
        batch = round_.batch and msgspec.structs.replace(round_.batch, readings=round_.batch.readings[:1])
        return replace(round_, batch=batch)

    def _exact(self) -> dict[str, Any]:
        """Whoever claims to catch every forgery is held to the fraction itself, whatever it is rounded to."""
        chosen = PROTOCOLS[self.protocol]
        return {"precision": "exact"} if chosen.resists and chosen.default_precision is not None else {}

    def attacked(
        self, engine: Engine, rng: Randomness, like: AttackedRound | None = None, *, data: str = "now", size: int = 1
    ) -> AttackedRound:
        """A round over one of the data sets, which may be so many times as large.

        A consortium keeps its secrets from round to round: `like` is an earlier one.
        """
        protocol, round_ = PROTOCOLS[self.protocol], self.round(engine, rng)
        if len(protocol.keepers(round_)) > 1:
            return AttackedRound(protocol, engine, round_, self.contributions(data, size), rng)
        secrets, setup = leader_set_up(engine, round_, protocol.parameter_sets(round_), rng)
        if like is not None:
            secrets = replace(like.secrets, keys=secrets.keys)
        return AttackedRound(protocol, engine, round_, self.contributions(data, size), rng, keys=(secrets, setup))

    def contributions(self, data: str = "now", size: int = 1) -> Contributions:
        """The parties' integers; another name stands for another data set."""
        own = [auc_contribution(_counts(data, party, self.decision_points)) for party in range(self.parties)]
        return {f"party-{number}": Contribution(each.table * size) for number, each in enumerate(own, start=1)}

    def true_auc(self, data: str = "now") -> Fraction:
        counts = reduce(add, [_counts(data, party, self.decision_points) for party in range(self.parties)])
        return Fraction(counts.numerator(), counts.denominator())


def fresh_stream() -> Stream:
    """Randomness for many rounds: a stream under a new seed, many times faster than the operating system."""
    return derive(new_seed(SystemRandomness()), "attack/rounds")


def _counts(data: str, party: int, decision_points: int) -> Counts:
    """Parties differ in prevalence and in how well the model does, so that leaving one out shows."""
    stream = derive(Secret(bytes(SEED_BYTES)), "attack/data", data, party)
    uniform, noise = symmetric_floats(stream, 1.0, 2 * SAMPLES_PER_PARTY).reshape(2, -1)
    labels = uniform < 0.4 - 0.2 * (party % 4)
    quality = 0.05 + 0.1 * (party % 3)
    scores = np.clip(0.5 + np.where(labels, quality, -quality) + 0.4 * noise, 0.0, 1.0)
    return Counts.from_scores(labels, scores, Grid.even(decision_points))
