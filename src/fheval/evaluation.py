"""One evaluation, all roles in this process: from labels and scores to the AUC of the pooled data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from fheval.counting import Counts, Grid, as_grid
from fheval.engines import Engine, load_engine
from fheval.errors import CohortTooSmall, ConfigError
from fheval.metrics.forms import auc_contribution, auc_form
from fheval.protocols import DEFAULT_PROTOCOL, default_precision, run_round
from fheval.protocols.round import (
    DEFAULT_MAX_SAMPLES,
    DEFAULT_MINIMUM_COHORT,
    Outcome,
    Round,
    new_round_id,
)
from fheval.secrets import SystemRandomness, integer_below
from fheval.transports.in_process import InProcess
from fheval.version import __version__

PartyData = tuple[npt.ArrayLike, npt.ArrayLike] | Counts

DEFAULT_DECISION_POINTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an evaluation gives; `to_dict` is the JSON of the command line.

    `precision` is the width of the rounding that was released, or "exact". `seconds` has the mean over the parties
    under "party", and the work of the leader (set-up included), the aggregator and one decryption. `bytes` has one
    party's upload (mean), the leader's, and the aggregator's answer.
    """

    protocol: str
    engine: str
    parties: int
    decision_points: int
    auc: float
    precision: float | Literal["exact"]
    verified: bool | None
    soundness_bits: float | None
    hiding_bits: int | None
    seconds: dict[str, float]
    bytes: dict[str, int]
    fheval: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """The fields of the JSON contract, plain values only; `hiding_bits` only where the release has any."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        if self.hiding_bits is None:
            del fields["hiding_bits"]
        return fields


def evaluate(
    parties: Sequence[PartyData],
    *,
    protocol: str = DEFAULT_PROTOCOL,
    decision_points: int | Grid = DEFAULT_DECISION_POINTS,
    precision: float | Literal["exact"] | None = None,
    engine: str | Engine | None = None,
    splits: int = 4,
    runs: int = 3,
    packing: str = "paper",
    minimum_cohort: int = DEFAULT_MINIMUM_COHORT,
    max_samples: int = DEFAULT_MAX_SAMPLES,
    on_work: Callable[[str], None] | None = None,
) -> Result:
    """Compute the AUC over all parties' data with an aggregator that sees ciphertexts only.

    `parties` has a pair (labels, scores) or `Counts` for each party. `precision` None takes the protocol's default.
    `on_work` is called with the role's name each time a role has done a piece of work, for a progress bar.

    >>> import fheval
    >>> hospitals = [([1, 0, 1], [0.9, 0.2, 0.6]), ([0, 0], [0.1, 0.7]), ([1], [0.8])]
    >>> result = fheval.evaluate(hospitals, protocol="paper-semi-honest", decision_points=11)
    >>> round(result.auc, 5)
    0.88889
    """
    grid = as_grid(decision_points)
    chosen = engine if isinstance(engine, Engine) else load_engine(engine)
    released = default_precision(protocol) if precision is None else _width(precision)
    if len(parties) < minimum_cohort:
        raise CohortTooSmall(
            f"There are {len(parties)} parties and the minimum cohort is {minimum_cohort}: a result would say too "
            "much about each. Add parties, or lower the minimum cohort if all of them agree."
        )
    post = InProcess(on_work)
    rng = SystemRandomness()
    names = tuple(f"party-{number}" for number in range(1, len(parties) + 1))
    with post.working("counting"):
        counts = [_counted(data, grid, name) for data, name in zip(parties, names, strict=True)]
    _require_samples(counts, max_samples)
    round_ = Round(
        id=new_round_id(rng),
        protocol=protocol,
        engine=chosen.name,
        forms=(auc_form(len(grid), max_samples),),
        parties=names,
        leader=names[integer_below(rng, len(names))],
        precision=released,
        minimum_cohort=minimum_cohort,
        max_samples=max_samples,
        splits=splits,
        runs=runs,
        packing=packing,
        question=grid.to_bytes(),
    )
    contributions = {name: [auc_contribution(each)] for name, each in zip(names, counts, strict=True)}
    outcome = run_round(chosen, round_, contributions, rng, post)
    return _result(round_, outcome, post, len(grid))


def _width(precision: float | Literal["exact"]) -> float | None:
    return None if precision == "exact" else float(precision)


def _counted(data: PartyData, grid: Grid, name: str) -> Counts:
    if not isinstance(data, Counts):
        labels, scores = data
        return Counts.from_scores(labels, scores, grid, source=name)
    if data.grid != grid:
        raise ConfigError(f"The counts of {name} are on another grid than the round's. Count again on one grid.")
    return data


def _require_samples(counts: Sequence[Counts], max_samples: int) -> None:
    total = sum(each.samples for each in counts)
    if total > max_samples:
        raise ConfigError(
            f"The parties hold {total} samples and the round's public bound is {max_samples}. Raise max_samples."
        )


def _result(round_: Round, outcome: Outcome, post: InProcess, decision_points: int) -> Result:
    seconds, sizes = post.seconds, post.sizes
    parties = len(outcome.roster)
    uploads = sizes["party_upload"]
    return Result(
        protocol=round_.protocol,
        engine=round_.engine,
        parties=parties,
        decision_points=decision_points,
        auc=float(outcome.ratio()),
        precision="exact" if round_.precision is None else round_.precision,
        verified=outcome.verified,
        soundness_bits=outcome.soundness_bits,
        hiding_bits=outcome.hiding_bits,
        seconds={
            "party": (seconds["counting"] + seconds["party"]) / parties,
            "leader": seconds["leader"],
            "aggregator": seconds["aggregator"],
            "decrypt": seconds["decrypt"],
        },
        bytes={
            "party_upload": round(sum(uploads) / len(uploads)),
            "leader_upload": sum(sizes["leader_upload"]),
            "result": sum(sizes["result"]),
        },
    )
