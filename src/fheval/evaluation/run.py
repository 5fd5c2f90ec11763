"""Ask one round of all parties: count each one's rows, play all roles, finish what is released."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from fheval.counting import UNNAMED, Counts, Grid, as_grid
from fheval.engines import Engine, load_engine
from fheval.errors import CohortTooSmall, ConfigError, UndefinedMetric
from fheval.evaluation.curves import release_curves
from fheval.evaluation.data import PartyData, has_rows, tables_of
from fheval.evaluation.result import Result
from fheval.evaluation.rows import result_rows, suppressed_rows
from fheval.evaluation.terms import CommonTerms, require_samples, round_result
from fheval.metrics.forms import Contribution, auc_contribution
from fheval.metrics.groups import DEFAULT_MINIMUM_SIZE, Rule, group_sizes
from fheval.metrics.intervals import DEFAULT_REPLICATES
from fheval.metrics.party import tally_party
from fheval.metrics.question import Question
from fheval.protocols import BATCH_PROTOCOLS, DEFAULT_PROTOCOL, declaration, default_precision, run_round
from fheval.protocols.curve import require_allowed
from fheval.protocols.round import (
    DEFAULT_MAX_SAMPLES,
    DEFAULT_MINIMUM_COHORT,
    DEFAULT_RUNS,
    Outcome,
    new_round_id,
)
from fheval.protocols.watch import InProcess
from fheval.secrets import Randomness, SystemRandomness, derive, integer_below, new_seed

DEFAULT_DECISION_POINTS = 1000
# Two hundred resamples at 1,000 points would fill a hundred ciphertexts; binning at 100 adds little to an interval.
RESAMPLED_DECISION_POINTS = 100

Contributions = Mapping[str, Sequence[Contribution]]


def evaluate(
    parties: Sequence[PartyData],
    *,
    metrics: Sequence[str] = ("auc",),
    classes: Sequence[object] = (),
    group_column: str | None = None,
    minimum_group: int = DEFAULT_MINIMUM_SIZE,
    ci: float | None = None,
    replicates: int = DEFAULT_REPLICATES,
    by_cluster: bool = False,
    target_range: tuple[float, float] | None = None,
    release: Literal["ratio", "curve"] = "ratio",
    allow_curves: bool = False,
    protocol: str = DEFAULT_PROTOCOL,
    decision_points: int | Grid | None = None,
    precision: float | Literal["exact"] | None = None,
    engine: str | Engine | None = None,
    splits: int = 4,
    runs: int = DEFAULT_RUNS,
    packing: str = "paper",
    minimum_cohort: int = DEFAULT_MINIMUM_COHORT,
    max_samples: int = DEFAULT_MAX_SAMPLES,
    on_work: Callable[[str], None] | None = None,
) -> Result:
    """Compute metrics over all parties' data with an aggregator that sees nothing.

    `parties` has labels and scores, a `Table` or tables for each party, or `Counts` where the AUC alone is asked for.
    `metrics` names what is asked, such as "auc" or "f1@0.3"; models are the names of a table's scores; `classes` lists
    the labels of a multi-class task. `group_column` is what the tables' groups are called: every group is evaluated by
    itself as well, but for those of which fewer than `minimum_cohort` parties hold `minimum_group` samples each (or
    clusters, with `by_cluster`), and those that would give such a group away. `ci` asks for an interval of that level
    around every number, from `replicates` resamples of rows, or of clusters with `by_cluster`. `target_range` is the
    public range of a regression's values. `release="curve"` gives the parties, and never the aggregator, the global
    counts with which they draw ROC, precision-recall and calibration curves; it is refused unless `allow_curves` says
    that all of them agreed. `decision_points` None takes 1,000, or 100 with intervals; `precision` None takes the
    protocol's default. `on_work` is called with the role's name each time a role has done a piece of work, for a
    progress bar.

    >>> import fheval
    >>> hospitals = [([1, 0, 1], [0.9, 0.2, 0.6]), ([0, 0], [0.1, 0.7]), ([1], [0.8])]
    >>> result = fheval.evaluate(hospitals, protocol="paper-semi-honest", decision_points=11)
    >>> round(result.auc, 5)
    0.88889
    >>> result = fheval.evaluate(hospitals, metrics=["recall@0.5", "accuracy@0.5"])
    >>> [round(row.value, 2) for row in result.results]
    [1.0, 0.83]
    """
    if isinstance(parties, (str, bytes, Mapping)):
        raise ConfigError("The parties come as a list, one entry of labels and scores for each. Leave their names out.")
    if release == "curve":
        require_allowed(allowed=allow_curves)
    question = Question(
        grid=as_grid(default_points(ci) if decision_points is None else decision_points),
        metrics=tuple(metrics),
        models=_models(parties),
        classes=tuple(str(each) for each in classes),
        replicates=0 if ci is None else replicates,
        by_cluster=by_cluster,
        targets=target_range,
        group_column=group_column,
        curve=release == "curve",
        confidence=ci,
    )
    require_batch_protocol(question, protocol)
    if len(parties) < minimum_cohort:
        raise CohortTooSmall(
            f"There are {len(parties)} parties and the minimum cohort is {minimum_cohort}: a result would say too "
            "much about each. Add parties, or lower the minimum cohort if all of them agree."
        )
    post = InProcess(on_work)
    rng = SystemRandomness()
    names = tuple(f"party-{number}" for number in range(1, len(parties) + 1))
    sources = dict(zip(names, parties, strict=True))
    leader = names[integer_below(rng, len(names))]
    suppressed: Mapping[str, str] = {}
    if group_column is not None:
        rule = Rule(minimum_size=minimum_group, minimum_parties=minimum_cohort)
        question, suppressed = _with_groups(question, sources, leader, rule, rng, post)
    terms = CommonTerms(
        protocol=protocol,
        parties=names,
        leader=leader,
        minimum_cohort=minimum_cohort,
        max_samples=max_samples,
        splits=splits,
        runs=runs,
        packing=packing,
    )
    if question.curve:
        return release_curves(question, suppressed, sources, terms, rng, post, allowed=allow_curves)
    chosen = engine if isinstance(engine, Engine) else load_engine(engine)
    released = default_precision(protocol) if precision is None else _width(precision)
    with post.working("counting"):
        contributions = _counted(question, sources, max_samples, rng)
    round_ = terms.round(
        rng, engine=chosen.name, forms=question.forms(max_samples), precision=released, question=question.to_bytes()
    )
    outcome = _named(question, lambda: run_round(chosen, round_, contributions, rng, post))
    rows = result_rows(question, outcome.ratios, released) + suppressed_rows(question, suppressed)
    return round_result(question, round_, outcome, post, rows)


def default_points(ci: float | None) -> int:
    """How many decision points a round has unless told otherwise."""
    return DEFAULT_DECISION_POINTS if ci is None else RESAMPLED_DECISION_POINTS


def _models(parties: Sequence[PartyData]) -> tuple[str, ...]:
    """The models of the first party that names any; every party must have them all."""
    for data in parties:
        if has_rows(data):
            for table in tables_of(data, "The data"):
                return tuple(table.scores)
    return (UNNAMED,)


def _is_plain_auc(question: Question, parties: Sequence[PartyData]) -> bool:
    """Whether counts say everything that is asked for."""
    asked = question == Question(grid=question.grid)
    return asked and not any(map(has_rows, parties))


def require_batch_protocol(question: Question, protocol: str) -> None:
    """Refuse to ask a protocol that computes one AUC for more."""
    if protocol not in BATCH_PROTOCOLS and not question.is_one_auc:
        raise ConfigError(
            f"{protocol} computes one AUC a round. Use {' or '.join(BATCH_PROTOCOLS)} for other metrics, models, "
            "classes, groups and intervals."
        )


def _with_groups(
    question: Question, parties: Mapping[str, PartyData], leader: str, rule: Rule, rng: Randomness, post: InProcess
) -> tuple[Question, Mapping[str, str]]:
    """The question over the groups that may be published, and why others may not."""
    with post.working("counting"):
        sizes = {
            name: group_sizes(tables_of(data, name), by_cluster=question.by_cluster) for name, data in parties.items()
        }
    decision = declaration.run(new_round_id(rng), new_seed(rng), leader, sizes, rule, rng, post)
    return msgspec.structs.replace(question, groups=decision.published), decision.suppressed


def _width(precision: float | Literal["exact"]) -> float | None:
    return None if precision == "exact" else float(precision)


def _counted(question: Question, parties: Mapping[str, PartyData], max_samples: int, rng: Randomness) -> Contributions:
    """What each party brings to the round."""
    contributions: dict[str, Sequence[Contribution]] = {}
    samples = 0
    for name, data in parties.items():
        if isinstance(data, Counts) or _is_plain_auc(question, [data]):
            counts = _auc_counts(data, question, name)
            samples += counts.samples
            contributions[name] = [auc_contribution(counts)]
        else:
            tally = tally_party(question, tables_of(data, name), derive(new_seed(rng), "bootstrap", name))
            samples += tally.rows
            contributions[name] = tally.contributions()
    require_samples(samples, max_samples)
    return contributions


def _auc_counts(data: PartyData, question: Question, name: str) -> Counts:
    grid = question.grid
    if isinstance(data, tuple):
        labels, scores = data
        return Counts.from_scores(labels, scores, grid, source=name)
    if not isinstance(data, Counts) or question != Question(grid=grid):
        raise ConfigError(f"The counts of {name} carry an AUC and nothing else. Give its labels and scores.")
    if data.grid != grid:
        raise ConfigError(f"The counts of {name} are on another grid than the round's. Count again on one grid.")
    return data


def _named(question: Question, play: Callable[[], Outcome]) -> Outcome:
    """Say which metrics are undefined, where all of them are."""
    try:
        return play()
    except UndefinedMetric as error:
        if question.metrics == ("auc",):
            raise
        reasons = "; ".join(f"{spec} is undefined: {spec.metric.undefined}" for spec in question.specs)
        raise UndefinedMetric(f"{reasons}. Add data, or ask for other metrics.") from error
