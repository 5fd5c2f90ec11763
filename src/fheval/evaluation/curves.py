"""A round that releases counts: the parties learn them by consent, and draw their curves and metrics from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fheval.errors import CapacityError, UndefinedMetric
from fheval.evaluation.data import PartyData, tables_of
from fheval.evaluation.result import Result, Row
from fheval.evaluation.rows import group_name, suppressed_rows
from fheval.evaluation.terms import CommonTerms, require_samples, round_result
from fheval.metrics.curves import Curve, read_curves
from fheval.metrics.fixed_point import Integers
from fheval.metrics.party import tally_party
from fheval.metrics.question import Question
from fheval.metrics.statistics import PROBABILITY_BITS
from fheval.protocols import curve
from fheval.protocols.round import Outcome
from fheval.protocols.watch import InProcess
from fheval.secrets import Randomness, new_seed

# What is computed from a curve, beside the curve itself.
CURVE_METRICS: dict[str, Callable[[Curve], float]] = {
    "auc": Curve.auc,
    "average-precision": Curve.average_precision,
    "ks": Curve.kolmogorov_smirnov,
    "ece": Curve.expected_calibration_error,
}

# No FHE library takes part.
NO_ENGINE = "none"


def release_curves(
    question: Question,
    suppressed: Mapping[str, str],
    parties: Mapping[str, PartyData],
    terms: CommonTerms,
    rng: Randomness,
    post: InProcess,
    *,
    allowed: bool,
) -> Result:
    """Count, let the parties learn the sums, and compute what follows from them."""
    if terms.max_samples << PROBABILITY_BITS >= curve.PRIME // 2:
        raise CapacityError(f"Sums over {terms.max_samples} samples do not fit a curve's counts. Lower max_samples.")
    round_ = terms.round(
        rng, engine=NO_ENGINE, forms=(), sums=question.sums(), precision=None, question=question.to_bytes()
    )
    curve.require_consent(round_, allowed=allowed)
    own: dict[str, Integers] = {}
    samples = 0
    with post.working("counting"):
        for name, data in parties.items():
            tally = tally_party(question, tables_of(data, name), rng)
            samples += tally.rows
            own[name] = tally.sums()
    require_samples(samples, terms.max_samples)
    counts, roster = curve.run(round_, new_seed(rng), own, rng, post, allowed=allowed)
    curves = read_curves(question, counts)
    bits = curve.soundness_bits(round_)
    outcome = Outcome(ratios=(), roster=tuple(roster), verified=None if bits is None else True, soundness_bits=bits)
    rows = curve_rows(question, curves) + suppressed_rows(question, suppressed)
    return round_result(question, round_, outcome, post, rows, curves=curves)


def curve_rows(question: Question, curves: Sequence[Curve]) -> list[Row]:
    """One row for each metric of each curve."""
    wanted = [name for name in CURVE_METRICS if name != "ece" or question.grid.scores != "any"]
    return [_row(question, name, each) for name in wanted for each in curves]


def _row(question: Question, name: str, each: Curve) -> Row:
    model, label, group = each.where
    shown = None if group is None else group_name(question, group)
    row = Row(metric=name, model=model or None, label=label, group=shown)
    try:
        value = CURVE_METRICS[name](each)
    except UndefinedMetric as undefined:
        return replace(row, error=str(undefined))
    return replace(row, value=value, precision=2.0**-PROBABILITY_BITS if name == "ece" else "exact")
