"""What all kinds of round share: who takes part on which terms, and what the round cost them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fheval.errors import ConfigError
from fheval.evaluation.result import Result, Row
from fheval.metrics.curves import Curve
from fheval.metrics.question import Question
from fheval.protocols.round import Outcome, Round, new_round_id
from fheval.protocols.watch import InProcess
from fheval.secrets import Randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonTerms:
    """The part of a round that does not depend on what is asked."""

    protocol: str
    parties: tuple[str, ...]
    leader: str
    minimum_cohort: int
    max_samples: int
    splits: int
    runs: int
    packing: str

    def round(self, rng: Randomness, **asked: Any) -> Round:
        """A new round on these terms."""
        return Round(id=new_round_id(rng), **asdict(self), **asked)


def require_samples(samples: int, max_samples: int) -> None:
    """Refuse more samples than the numbers of the round were sized for."""
    if samples > max_samples:
        raise ConfigError(
            f"The parties hold {samples} samples and the round's public bound is {max_samples}. Raise max_samples."
        )


def round_result(
    question: Question,
    round_: Round,
    outcome: Outcome,
    post: InProcess,
    rows: Sequence[Row],
    curves: Sequence[Curve] = (),
) -> Result:
    """Put together what came out and what it cost."""
    seconds, sizes = post.seconds, post.sizes
    parties = len(outcome.roster)
    uploads = sizes["party_upload"]
    return Result(
        protocol=round_.protocol,
        engine=round_.engine,
        parties=parties,
        decision_points=len(question.grid),
        results=tuple(rows),
        precision="exact" if round_.precision is None else round_.precision,
        confidence=question.confidence,
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
        curves=tuple(curves),
    )
