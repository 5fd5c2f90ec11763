"""Evaluate in one process: count each party's rows, play all roles of a round, finish what is released."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from fheval.counting import UNNAMED, Counts, Grid, Table, TableColumns, TableSource
from fheval.engines import Engine, load_engine
from fheval.errors import CohortTooSmall, ConfigError, InputError, UndefinedMetric
from fheval.evaluation.parties import PartyData, named_parties
from fheval.evaluation.result import Result, round_result
from fheval.evaluation.tally import tally_party
from fheval.metrics.groups import DEFAULT_MINIMUM_SIZE, group_sizes, named_groups
from fheval.metrics.registry import auc_contribution
from fheval.protocols import DEFAULT_PROTOCOL, PROTOCOLS
from fheval.protocols.play import Watch, play
from fheval.protocols.round import (
    DEFAULT_MAX_SAMPLES,
    DEFAULT_MINIMUM_COHORT,
    Contribution,
    Round,
    Verdict,
)
from fheval.secrets import Randomness, SystemRandomness, derive, integer_below, new_seed
from fheval.study import DEFAULT_REPLICATES, Study


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A party's share of a study: how many rows it has, and its table of counts.

    `clipped` is how many of its true and predicted values were moved into the target range.
    """

    rows: int = field(repr=False)
    clipped: int = field(default=0, repr=False)
    contribution: Contribution = field(repr=False)


def evaluate(
    parties: Mapping[str, Any] | Sequence[Any],
    *,
    label: str | None = None,
    score: str | Sequence[str] | None = None,
    cluster: str | None = None,
    positive: object = None,
    percent: bool = False,
    study: Study | None = None,
    metrics: str | Sequence[str] = ("auc",),
    classes: Sequence[object] = (),
    group_column: str | None = None,
    minimum_group: int = DEFAULT_MINIMUM_SIZE,
    ci: float | None = None,
    replicates: int = DEFAULT_REPLICATES,
    by_cluster: bool = False,
    target_range: tuple[float, float] | None = None,
    release: Literal["ratio", "curve", "noisy-curve"] = "ratio",
    allow_curves: bool = False,
    protocol: str = DEFAULT_PROTOCOL,
    decision_points: int | Grid | None = None,
    precision: float | Literal["exact"] | None = None,
    minimum_cohort: int = DEFAULT_MINIMUM_COHORT,
    max_samples: int = DEFAULT_MAX_SAMPLES,
    engine: str | Engine | None = None,
    on_work: Callable[[str], None] | None = None,
    **options: Any,
) -> Result:
    """Compute metrics over all parties' data with an aggregator that sees nothing.

    Parameters
    ----------
    parties
        One entry for each party, in a list or by its name: the path of a file (`fheval.counting.readers` lists which),
        a frame of pandas, Polars, Arrow or DuckDB, a dictionary of arrays, labels and scores as a pair of arrays, a
        `Table`, tables that can be gone through more than once, or `Counts` where the AUC alone is asked for. Models
        are the names of a table's scores.
    label, score, cluster
        Columns of files and frames: the labels (or else "label" or "y"), the scores of one model or of several (or
        else "score" or "s"), and what rows belong together, such as a patient, for `by_cluster`.
    positive
        The label that counts as 1, where labels are not 0 and 1 but, say, "yes" and "no".
    percent
        That scores are percentages, and to be divided by 100.
    study
        A whole `Study`, instead of all that follows up to `max_samples`.
    metrics
        What is asked, such as "auc" or "f1@0.3"; one or several.
    classes
        The labels of a multi-class task; none for labels 0 and 1.
    group_column
        What the tables' groups are called. Every group is evaluated by itself as well, but for those of which fewer
        than `minimum_cohort` parties hold enough, and those that would give such a group away.
    minimum_group
        How many samples (or clusters, with `by_cluster`) of a group are enough at one party.
    ci
        The level of an interval around every number, such as 0.95.
    replicates
        How many resamples an interval is made of.
    by_cluster
        Resample whole clusters of rows, such as patients, and count them in groups.
    target_range
        The public range of a regression's true and predicted values.
    release
        "ratio" for the numbers asked for. "curve" gives the parties, and never the aggregator, the global counts with
        which they draw ROC, precision-recall and calibration curves. "noisy-curve" gives them counts under noise that
        makes them differentially private: `epsilon`, and `delta` and `colluding` if wanted, are among the options.
    allow_curves
        That all parties agreed to `release="curve"`, which is refused otherwise.
    protocol
        The name of a protocol: see `fheval.protocols.PROTOCOLS`.
    decision_points
        Their number, or a `Grid`; None takes 1,000. `grid="even"` places them evenly.
    precision
        The width of the rounding that is released, or "exact"; None takes the protocol's default.
    minimum_cohort
        With fewer parties nothing is released.
    max_samples
        A public bound on the samples of all parties together.
    engine
        "openfhe" or "seal", or an engine; None takes the first that loads.
    on_work
        Called with a role's name each time that role has done a piece of work, for a progress bar.
    options
        Options of the protocol itself, such as `runs=3`, and other fields of a `Study`, such as `epsilon=1.0`.

    Returns
    -------
    Result
        Its `results` have one row for each number; `auc` is the AUC where it is the only one.

    >>> import fheval
    >>> hospitals = [([1, 0, 1], [0.9, 0.2, 0.6]), ([0, 0], [0.1, 0.7]), ([1], [0.8])]
    >>> result = fheval.evaluate(hospitals, protocol="paper-semi-honest", decision_points=11, grid="even")
    >>> round(result.auc, 5)
    0.88889
    >>> named = dict(zip(["north", "south", "east"], hospitals))
    >>> result = fheval.evaluate(named, metrics=["recall@0.5", "accuracy@0.5"])
    >>> [round(row.value, 2) for row in result.results]
    [1.0, 0.83]
    """
    models = (score,) if isinstance(score, str) else tuple(score or ())
    if study is not None:
        classes, group_column = study.classes, study.group_column
        study = msgspec.structs.replace(study, models=models) if models else study
        models = models or tuple(model for model in study.models if model != UNNAMED)
    columns = TableColumns(
        label=label,
        models=models,
        classes=tuple(str(each) for each in classes),
        group=group_column,
        cluster=cluster,
        positive=None if positive is None else str(positive),
        percent=percent,
    )
    data = named_parties(parties, columns)
    if study is None:
        if release == "curve" and not allow_curves:
            raise ConfigError(
                "The round asks for the counts of a curve, and curves are not allowed. "
                "Ask for metrics, or let all parties allow curves."
            )
        study = Study.of(
            least_rows_per_party=0,  # all rows are here anyway
            metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
            models=models_of(data.values()),
            classes=columns.classes,
            group_column=group_column,
            minimum_group=minimum_group,
            interval=ci,
            replicates=replicates,
            by_cluster=by_cluster or cluster is not None,
            target_range=target_range,
            release="ratios" if release == "ratio" else release,
            protocol=protocol,
            decision_points=_grid_of(data.values()) if decision_points is None else decision_points,
            precision=precision,
            minimum_cohort=minimum_cohort,
            max_samples=max_samples,
            **options,
        )
    return evaluate_study(study, data, engine=engine, on_work=on_work)


def evaluate_study(
    study: Study,
    parties: Mapping[str, PartyData] | Sequence[PartyData],
    *,
    engine: str | Engine | None = None,
    on_work: Callable[[str], None] | None = None,
) -> Result:
    """One round of a study over these parties' data; those without names are numbered."""
    if not isinstance(parties, Mapping):
        parties = {f"party-{number}": data for number, data in enumerate(parties, start=1)}
    if len(parties) < study.minimum_cohort:
        raise CohortTooSmall(
            f"There are {len(parties)} parties and the minimum cohort is {study.minimum_cohort}: a result would say "
            "too much about each. Add parties, or lower the minimum cohort if all of them agree."
        )
    watch, rng = Watch(on_work), SystemRandomness()
    names = tuple(parties)
    leader = names[integer_below(rng, len(names))]
    chosen = engine if isinstance(engine, Engine) else load_engine(engine)
    protocol = PROTOCOLS[study.protocol]

    def fitting_round(asked: Study) -> Round:
        """The round, or an error for what does not fit, before anybody counts."""
        round_ = asked.round(asked.call(rng, engine=chosen.name, parties=names, leader=leader))
        protocol.of_round(round_).parameter_sets(round_)
        return round_

    unnamed = study.group_column is not None and not study.groups
    if not (unnamed and study.pairs):
        round_ = fitting_round(study)
    if unnamed:
        study = msgspec.structs.replace(study, groups=_all_groups(study, parties, watch))
        round_ = fitting_round(study)
    contributions, samples = _counted(study, parties, rng, watch)
    try:
        verdict = play(protocol, chosen, round_, contributions, rng, watch)
    except UndefinedMetric as error:
        raise _which_are_undefined(study, error) from error
    return _result(study, round_, verdict, watch, samples)


def count_share(study: Study, data: PartyData, name: str, rng: Randomness, *, clip: bool = False) -> Share:
    """Count a party's data; `name` stands for it in messages, `rng` draws the weights of its resamples.

    With `clip`, a regression's values outside the target range are moved to its ends instead of refused.
    """
    if study.is_one_auc:
        counts = _auc_counts(data, study, name)
        if counts is not None:
            return Share(rows=counts.samples, contribution=auc_contribution(counts))
    seed = derive(new_seed(rng), "bootstrap", name)
    tally = tally_party(study, tables_of(data, name), seed, clip=clip)
    return Share(rows=tally.rows, clipped=tally.clipped, contribution=tally.contribution())


def _auc_counts(data: PartyData, study: Study, name: str) -> Counts | None:
    """Counts at decision points, where they say everything that is asked for; None where rows must be looked at."""
    if isinstance(data, TableSource) and (data.columns.models or (UNNAMED,)) == study.models:
        return data.count(study.grid)
    if isinstance(data, Counts):
        if data.grid != study.grid:
            raise ConfigError(f"The counts of {name} are on another grid than the round's. Count again on one grid.")
        return data
    if isinstance(data, tuple) and not isinstance(scores := data[1], Mapping):
        return Counts.from_scores(data[0], scores, study.grid, source=name)
    return None


def _grid_of(parties: Iterable[PartyData]) -> Grid | None:
    """The decision points at which a party has counted already, if any has."""
    return next((data.grid for data in parties if isinstance(data, Counts)), None)


def models_of(parties: Iterable[PartyData]) -> tuple[str, ...]:
    """The models of the first party that names any; every party must have them all."""
    for data in parties:
        if isinstance(data, TableSource):
            return data.columns.models or (UNNAMED,)
        if not isinstance(data, Counts) and not (isinstance(data, tuple) and not isinstance(data[1], Mapping)):
            for table in tables_of(data, "The data"):
                return tuple(table.scores)
    return (UNNAMED,)


def tables_of(data: PartyData, name: str) -> Iterable[Table]:
    """A party's rows as tables, one at a time."""
    if isinstance(data, Counts):
        raise ConfigError(f"The counts of {name} carry an AUC and nothing else. Give its labels and scores.")
    if isinstance(data, Table):
        return (data,)
    if isinstance(data, tuple):
        table = Table.of(*data, source=name)
        if not len(table):
            raise InputError(f"{name}: there are no rows. Give at least one label and score.")
        return (table,)
    return data


def _all_groups(study: Study, parties: Mapping[str, PartyData], watch: Watch) -> tuple[str, ...]:
    """The groups of which some party holds enough. Between organisations the study names them."""
    with watch.working("counting"):
        sizes = [group_sizes(tables_of(data, name), by_cluster=study.by_cluster) for name, data in parties.items()]
    return named_groups(sizes, study.minimum_group)


def _counted(
    study: Study, parties: Mapping[str, PartyData], rng: Randomness, watch: Watch
) -> tuple[dict[str, Contribution], int]:
    """What each party brings to the round, and how many rows all of them have."""
    contributions, rows, cohort = {}, 0, 0
    for name, data in parties.items():
        with watch.working("counting"):
            share = count_share(study, data, name, rng)
        contributions[name] = share.contribution
        rows += share.rows
        cohort += share.rows >= study.least_rows_per_party
        study.require_rows(share.rows)
    if cohort < study.minimum_cohort:
        raise CohortTooSmall(
            f"Only {cohort} parties have {study.least_rows_per_party} rows or more, and the minimum cohort is "
            f"{study.minimum_cohort}. Add parties or rows."
        )
    if not (study.least_rows or 0) <= rows <= study.max_samples:
        raise ConfigError(
            f"The parties hold {rows} samples, and the study is for {study.least_rows or 0} to {study.max_samples}. "
            "Raise max_samples or lower least_rows, if all of them agree."
        )
    return contributions, rows


def _which_are_undefined(study: Study, error: UndefinedMetric) -> UndefinedMetric:
    """Say which metrics are undefined, where all of them are."""
    if study.metrics == ("auc",):
        return error
    reasons = "; ".join(f"{spec} is undefined: {spec.metric.undefined}" for spec in study.specs)
    return UndefinedMetric(f"{reasons}. Add data, or ask for other metrics.")


def _result(study: Study, round_: Round, verdict: Verdict, watch: Watch, samples: int) -> Result:
    """Put together what came out and what it cost."""
    seconds, sizes = watch.seconds, watch.sizes
    uploads = sizes["party_upload"]
    protocol = PROTOCOLS[round_.protocol].of_round(round_)
    keeper, keepers = protocol.keeper, len(protocol.keepers(round_))
    return replace(
        round_result(study, round_, verdict),
        seconds={
            "party": (seconds["counting"] + seconds["party"]) / len(verdict.roster),
            keeper: seconds[keeper] / keepers,
            "aggregator": seconds["aggregator"],
            "online": watch.online,
            "decrypt": seconds["decrypt"],
        },
        bytes={
            "party_upload": round(sum(uploads) / len(uploads)),
            f"{keeper}_upload": sum(sizes[f"{keeper}_upload"]) // keepers,
            "keys": sum(sizes["keys"]) // keepers,
            "result": sum(sizes["result"] or sizes["broadcast"]),
        },
        rows=samples,
    )
