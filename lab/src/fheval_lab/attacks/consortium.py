"""The consortium that is attacked: parties with synthetic data, and rounds over them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fheval.counting import Counts
from fheval.engines import Engine
from fheval.metrics.forms import Contribution, auc_contribution, auc_form
from fheval.protocols import default_precision
from fheval.protocols.round import DEFAULT_MAX_SAMPLES, DEFAULT_RUNS, Round, new_round_id
from fheval.secrets import (
    SEED_BYTES,
    Randomness,
    Secret,
    Stream,
    SystemRandomness,
    derive,
    new_seed,
    symmetric_floats,
)
from fheval_lab.attacks.stage import STAGES, Contributions, Stage

SAMPLES_PER_PARTY = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Consortium:
    """Parties with synthetic data, and the shape of their rounds."""

    protocol: str
    parties: int = 4
    decision_points: int = 20
    splits: int = 4
    runs: int = DEFAULT_RUNS
    max_samples: int = DEFAULT_MAX_SAMPLES

    def round(self, engine: Engine, rng: Randomness) -> Round:
        """A round of its own."""
        names = tuple(f"party-{number}" for number in range(1, self.parties + 1))
        return Round(
            id=new_round_id(rng),
            protocol=self.protocol,
            engine=engine.name,
            forms=(auc_form(self.decision_points, self.max_samples),),
            parties=names,
            leader=names[0],
            precision=default_precision(self.protocol),
            minimum_cohort=2,
            max_samples=self.max_samples,
            splits=self.splits,
            runs=self.runs,
        )

    def stage(
        self,
        engine: Engine,
        rng: Randomness,
        seed: Secret[bytes] | None = None,
        *,
        data: str = "now",
        size: int = 1,
    ) -> Stage:
        """A round over one of the data sets, with all uploads in; it may be so many times as large."""
        return STAGES[self.protocol](engine, self.round(engine, rng), self.contributions(data, size), rng, seed)

    def contributions(self, data: str = "now", size: int = 1) -> Contributions:
        """The parties' integers; another name stands for another data set."""
        own = [auc_contribution(_counts(data, party, self.decision_points)) for party in range(self.parties)]
        return {
            f"party-{number}": [Contribution(each.left * size, each.right * size)]
            for number, each in enumerate(own, start=1)
        }

    def true_auc(self, data: str = "now") -> Fraction:
        """The AUC of the pooled counts."""
        own = [contribution for (contribution,) in self.contributions(data).values()]
        left, right = sum(each.left for each in own), sum(each.right for each in own)
        products = (np.asarray(left) * np.asarray(right)).tolist()
        return Fraction(sum(products[:-1]), products[-1])


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
    return Counts.from_scores(labels, scores, decision_points)
