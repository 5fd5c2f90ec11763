"""What an evaluation gives: one row for each number that was asked for, and what the round cost.

`result_rows` makes the rows: ratios are finished, averaged over classes, compared between models, put into intervals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import combinations, islice, product
from math import inf, isnan, nan, sqrt
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fheval.errors import ConfigError, UndefinedMetric
from fheval.evaluation.curves import CURVE_METRICS, Curve, read_curves
from fheval.evaluation.noisy_curves import FROM_ANY, NoisyCurve, curves_of, estimated
from fheval.evaluation.shown import Drawing, flat_metrics, presenter
from fheval.metrics.registry import Spec
from fheval.metrics.statistics import PROBABILITY_BITS
from fheval.privacy.sampling import DiscreteLaplace
from fheval.protocols.groups import SUPPRESSED
from fheval.protocols.round import Round, Verdict
from fheval.study import EXACT, Slice, Study, fewest_replicates
from fheval.version import __version__

MACRO = "macro"

# What a result names where no FHE library took part.
NO_ENGINE = "none"

Ratios = Sequence[Fraction | float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number, or why there is none.

    `label` is the class that was told from the rest, "macro" for the mean over classes. `precision` is how wide the
    rounding of the release leaves the value, "exact" where nothing was rounded. `binning` is how far counting at
    decision points may have moved it: what it is of the scores themselves lies within `binning` and the precision of
    it. None where there is no such error, or a protocol that answers one number left it unknown. `p_value` is there for
    the difference of two models; it and an interval rest on so many `resamples`. `error` says why a metric is
    undefined, `note` that it was suppressed or what else to know. `verified` is None where the protocol verifies
    nothing; False for a number that came back as nothing, which
    an aggregator can feign.
    """

    metric: str
    model: str | None = None
    label: str | None = None
    group: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    precision: float | Literal["exact"] | None = None
    binning: float | None = None
    p_value: float | None = None
    resamples: int | None = None
    note: str | None = None
    error: str | None = None
    verified: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row of the JSON; what comes behind the interval only where there is any."""
        fields: dict[str, Any] = {
            "metric": self.metric,
            "model": self.model,
            "class": self.label,
            "group": self.group,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "binning": self.binning,
        }
        extra = {
            name: getattr(self, name) for name in ("precision", "p_value", "resamples", "note", "error", "verified")
        }
        return fields | {name: value for name, value in extra.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """What noise protects: one row or, where `rows` are more, a cluster of so many, to within (ε, δ).

    `noise` is "laplace" or "gaussian", `deviation` that of the noise on every count. It holds against any `colluding`
    parties together; the shares of `honest` others are counted on. δ is None where ε is pure.
    """

    epsilon: float
    delta: float | None
    noise: Literal["laplace", "gaussian"]
    deviation: float
    rows: int
    colluding: int
    honest: int


def privacy_of(study: Study, parties: int) -> Privacy | None:
    """What the noise of a round protects that so many parties took part in; None where there is none."""
    noise = study.noise
    if noise is None or study.epsilon is None:
        return None
    pure = isinstance(noise, DiscreteLaplace)
    return Privacy(
        epsilon=study.epsilon,
        delta=None if pure else study.delta,
        noise="laplace" if pure else "gaussian",
        deviation=sqrt(noise.variance_of(parties)),
        rows=study.sensitivity.rows,
        colluding=study.colluding,
        honest=noise.honest,
    )


def shown_precision(study: Study) -> float | Literal["exact", "noisy"]:
    """How precise a study's release is: the width of its rounding, or "exact", or "noisy", where intervals tell."""
    if study.release == "ratios" and study.precision is not None:
        return study.precision
    return "noisy" if study.release == "noisy-curve" else EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an evaluation gives; `to_dict` is the JSON of the command line.

    `precision` is the width of the rounding that was released, or "exact", or "noisy". `confidence` is the level of
    the intervals, if any. `curves` has the global counts where the parties consented to learn them, or counts under
    noise, whose terms are `privacy`. `seconds` has the mean over the parties under "party", and the work of the leader
    (set-up included), of the aggregator, what of it came after the last upload ("online"), and one decryption. `bytes`
    has one party's upload (mean), the leader's, its public keys, which travel once an epoch, and the aggregator's
    answer. Where there is a committee, "member" stands in for "leader", with the mean over its members. `rows` are
    those of all parties, known where they are in one process; they and the `study` are not in the JSON.
    """

    protocol: str
    engine: str
    parties: int
    decision_points: int
    results: tuple[Row, ...]
    precision: float | Literal["exact", "noisy"]
    confidence: float | None = None
    verified: bool | None
    soundness_bits: float | None
    hiding_bits: int | None
    seconds: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    curves: tuple[Curve, ...] = ()
    privacy: Privacy | None = None
    rows: int = field(default=0, repr=False)
    study: Study | None = field(default=None, repr=False)
    fheval: str = __version__

    @property
    def binning(self) -> float | None:
        """How far counting at decision points may have moved the one AUC; None where there is not one, or no bound."""
        row = only_auc(self.results)
        return None if row is None else row.binning

    @property
    def keeper(self) -> str:
        """What those are called who made the keys: "leader", or "member" of a committee."""
        return next(name for name in ("member", "leader") if name in self.seconds)

    @property
    def auc(self) -> float:
        """The AUC, where the round gave one over all samples of one model."""
        row = only_auc(self.results)
        if row is None or row.value is None:
            raise ConfigError("This result has no single AUC. Look into its rows, `results`.")
        return row.value

    def value(
        self, metric: str, *, model: str | None = None, label: str | None = None, group: str | None = None
    ) -> float:
        """One number of the result; `UndefinedMetric` says why there is none."""
        for row in self.results:
            if (row.metric, row.model, row.label, row.group) == (metric, model, label, group):
                if row.value is None:
                    raise UndefinedMetric(row.error or f"{metric} has no value: {row.note}.")
                return row.value
        raise ConfigError(f"The round was not asked for {metric} (model {model}, class {label}, group {group}).")

    def as_metrics(self) -> dict[str, float]:
        """Every number under a flat name, for loggers of experiments; those that are undefined are left out.

        A name has the metric, then the model, class and group, if any: "auc", "f1:0.3/new/sex:F". It has a colon for
        "@" and "=", which MLflow would refuse. Intervals are beside it, as "auc.low" and "auc.high".
        """
        return flat_metrics(self.results)

    def to_frame(self) -> Any:
        """The rows as a Polars frame; `.to_pandas()` makes one of pandas of it."""
        import polars as pl

        numbers = ("value", "low", "high", "binning", "p_value")
        texts = ("metric", "model", "label", "group", "note", "error")
        columns: dict[str, Any] = {
            name: pl.Series([getattr(row, name) for row in self.results], dtype=pl.String) for name in texts
        }
        columns |= {name: pl.Series([getattr(row, name) for row in self.results], dtype=pl.Float64) for name in numbers}
        return pl.DataFrame(
            {("class" if name == "label" else name): columns[name] for name in (*texts[:4], *numbers, *texts[4:])}
        )

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """The JSON of the command line, which is also written to `path` if there is one."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def plot(self, kind: str | None = None) -> Drawing:
        """Pictures: "forest" of all numbers and, where counts were released, "roc", "precision-recall", "calibration"
        and "decision"; all there are, unless one is named. A notebook shows them; `save` writes them to a file.
        """
        return presenter().plot(self, kind)

    def report(self, path: str | PathLike[str]) -> None:
        """Write the page of `fheval evaluate --report`."""
        Path(path).write_text(presenter().page(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        return presenter().html(self)

    def __str__(self) -> str:
        return presenter().text(self)

    def to_dict(self) -> dict[str, Any]:
        """The fields of the JSON contract, plain values only; some of them only where there is something to say."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if name not in ("rows", "study")}
        fields["results"] = [row.to_dict() for row in self.results]
        fields["curves"] = [curve_fields(curve) for curve in self.curves]
        fields["privacy"] = None if self.privacy is None else asdict(self.privacy)
        for name in ("hiding_bits", "confidence", "curves", "privacy"):
            if not fields[name]:
                del fields[name]
        fields["binning"] = self.binning
        row = only_auc(self.results)
        return fields if row is None else {**fields, "auc": row.value}


def round_result(study: Study, round_: Round, verdict: Verdict, rows: Sequence[Row] | None = None) -> Result:
    """A round's result as every member holds it: without what it cost the others, which nobody knows."""
    told = tuple(result_rows(study, verdict) if rows is None else rows)
    curve = study.releases_counts
    return Result(
        protocol=round_.protocol,
        engine=NO_ENGINE if curve else round_.engine,
        parties=len(verdict.roster),
        decision_points=len(study.grid),
        results=told,
        precision=shown_precision(study),
        confidence=study.interval,
        verified=all_verified(verdict, told),
        soundness_bits=verdict.soundness_bits,
        hiding_bits=verdict.hiding_bits,
        study=study,
        curves=tuple(curves_of(study, verdict.groups, verdict.counts, len(verdict.roster))) if curve else (),
        privacy=privacy_of(study, len(verdict.roster)),
    )


def only_auc(rows: Iterable[Row]) -> Row | None:
    """The row of the AUC, where there is one over all samples of one model."""
    found = [row for row in rows if row.metric == "auc" and row.label is None and row.group is None]
    return found[0] if len(found) == 1 else None


def curve_fields(curve: Curve) -> dict[str, Any]:
    """A curve in the JSON: of what it is, and its counts."""
    where = {"model": curve.where.model or None, "class": curve.where.label, "group": curve.where.group}
    return where | curve.to_dict()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, and the same number in every resample; NaN where it is undefined.

    `width` is how far the rounding of the release leaves it open, `binning` how far counting at decision points does.
    """

    value: float
    replicates: NDArray[np.float64]
    width: float
    binning: float | None = None

    @property
    def defined(self) -> bool:
        """Whether the data themselves give the number a value."""
        return not isnan(self.value)

    @property
    def kept(self) -> int:
        """In how many resamples it is defined and came."""
        return len(self.replicates) - self.lost

    @property
    def lost(self) -> int:
        """In how many resamples it is undefined, for instance for want of a class, or was withheld."""
        return int(np.isnan(self.replicates).sum())

    def carries(self, level: float) -> bool:
        """Whether enough resamples came for an interval of this level."""
        return self.kept >= fewest_replicates(level)

    def interval(self, level: float) -> tuple[float, float]:
        """The percentile interval: the middle `level` of the resamples in which the number is defined.

        The k-th of R ordered resamples has k/(R + 1) of all possible ones below it on average, which is what the
        quantile "weibull" goes by. NumPy's default would have 94 % of them between the ends of a 95 % interval.
        """
        kept = self.replicates[~np.isnan(self.replicates)]
        low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2], method="weibull")
        return float(low), float(high)

    def p_value(self) -> float:
        """Two-sided, that the number is zero: the smallest 1 − level whose percentile interval would leave zero out.

        The data count as one more resample, so that it never is zero.
        """
        kept = self.replicates[~np.isnan(self.replicates)]
        tail = min(int((kept <= 0).sum()), int((kept >= 0).sum()))
        return min(1.0, 2 * (tail + 1) / (len(kept) + 1))

    def __sub__(self, other: Estimate) -> Estimate:
        binning = None if self.binning is None or other.binning is None else self.binning + other.binning
        return Estimate(self.value - other.value, self.replicates - other.replicates, self.width + other.width, binning)


def average(estimates: list[Estimate]) -> Estimate:
    """The plain mean, resample by resample; undefined where one of them is."""
    errors: list[Any] = [each.binning for each in estimates]
    return Estimate(
        float(np.mean([each.value for each in estimates])),
        np.mean([each.replicates for each in estimates], axis=0),
        float(np.mean([each.width for each in estimates])),
        None if None in errors else float(np.mean(errors)),
    )


_Estimates = dict[tuple[Spec, Slice], Estimate]


def result_rows(study: Study, verdict: Verdict) -> list[Row]:
    """Every number that a round gave: of its ratios or, where counts were released, of the curves."""
    groups = verdict.groups
    if study.release == "curve":
        rows = _curve_rows(study, read_curves(study, groups, verdict.counts))
    elif study.release == "noisy-curve":
        rows = _noisy_rows(study, curves_of(study, groups, verdict.counts, len(verdict.roster)))
    else:
        estimates = _with_averages(study, groups, _finished(study, groups, verdict))
        rows = [_row(study, spec, where, estimate) for (spec, where), estimate in estimates.items()]
        if study.interval is not None:
            rows += _differences(study, estimates)
        if verdict.verified is not None:
            rows = [_with_state(row, verdict.verified) for row in rows]
    return rows + _suppressed_rows(study, groups)


def _with_state(row: Row, verified: bool) -> Row:
    """A row of a protocol that verifies; a number that did not come may have been withheld, and proves nothing."""
    if row.value is not None:
        return replace(row, verified=verified)
    return replace(row, verified=False, error=f"withheld or undefined, not verified ({row.error})")


def all_verified(verdict: Verdict, rows: Iterable[Row]) -> bool | None:
    """Whether every number of a round was verified; None where the protocol verifies nothing."""
    return None if verdict.verified is None else all(row.verified is not False for row in rows)


def _suppressed_rows(study: Study, published: Sequence[str]) -> list[Row]:
    """A row without a value for every metric and model of a group, or of two, that is not released."""
    found = []
    for spec in study.specs:
        told = {where.group for where in study.slices_for(spec, published)}
        hidden = [where for where in study.slices_for(spec, study.groups) if where.group not in told]
        for model, group in dict.fromkeys((where.model, where.group) for where in hidden):
            shown = None if group is None else _group_name(study, group)
            found.append(Row(metric=str(spec), model=model or None, group=shown, note=SUPPRESSED))
    return found


def _finished(study: Study, groups: Sequence[str], verdict: Verdict) -> _Estimates:
    ratios, parties = iter(verdict.ratios), len(verdict.roster)
    recentred = study.recentred
    told: dict[tuple[Spec, Slice], list[Fraction | float | None]] = {}
    for spec in study.specs:
        where = study.slices_for(spec, groups)
        for lines in (1, study.replicates) if recentred else (1 + study.replicates,):
            for each in where:
                told.setdefault((spec, each), []).extend(islice(ratios, lines))
    binned, again = (list(product(specs, study.slices(groups))) for specs in (study.binned, recentred))
    errors = _binning_errors(study, dict(zip(binned, islice(ratios, len(binned)), strict=True)))
    coarse = dict(zip(again, islice(ratios, len(again)), strict=True))
    found = {}
    for key, values in told.items():
        moved = _recentred(key[0], values, coarse[key]) if key in coarse else values
        found[key] = replace(_estimate(study, key[0], parties, moved), binning=errors.get(key))
    return found


def _recentred(spec: Spec, ratios: Ratios, coarse: Fraction | float | None) -> Ratios:
    """A value, and its resamples at fewer points, moved as far as the value is from what it is at these points.

    Nothing is known of them where that did not come. What is moved out of the ratio's range is put back to its end.
    """
    value, *resamples = ratios
    if value is None or coarse is None:
        return [value, *[None] * len(resamples)]
    by, most = float(value) - float(coarse), 1.0 if spec.metric.proper else inf
    return [value, *(None if each is None else min(max(float(each) + by, 0.0), most) for each in resamples)]


def _binning_errors(
    study: Study, ratios: Mapping[tuple[Spec, Slice], Fraction | float | None]
) -> dict[tuple[Spec, Slice], float | None]:
    """The binning errors, each with half a width of the release's rounding, by which it may have come out too small."""
    # In fractions, so that decimals stay as short as they are.
    rounding = Fraction(str(study.precision or 0)) / 2
    return {
        each: None if ratio is None else float(max(Fraction(ratio), Fraction()) + rounding)
        for each, ratio in ratios.items()
    }


def _estimate(study: Study, spec: Spec, parties: int, ratios: Ratios) -> Estimate:
    finisher = spec.metric.finish(replace(study.inputs(spec), parties=parties))
    values = [nan if ratio is None else finisher(float(ratio)) for ratio in ratios]
    width = 0.0 if ratios[0] is None else finisher.width(float(ratios[0]), study.precision or 0.0)
    return Estimate(values[0], np.array(values[1:]), width)


def _with_averages(study: Study, groups: Sequence[str], estimates: _Estimates) -> _Estimates:
    """Behind the last class of each metric, model and group, the mean over its classes."""
    if not study.classes:
        return estimates
    complete: _Estimates = {}
    for spec in study.specs:
        for model in study.models:
            for group in dict.fromkeys(where.group for where in study.slices_for(spec, groups)):
                per_class = {
                    (spec, Slice(model, label, group)): estimates[spec, Slice(model, label, group)]
                    for label in study.classes
                }
                complete |= per_class
                complete[spec, Slice(model, MACRO, group)] = average(list(per_class.values()))
    return complete


def _differences(study: Study, estimates: _Estimates) -> Iterator[Row]:
    for first, second in combinations(study.models, 2):
        for (spec, where), estimate in estimates.items():
            if where.model == first:
                difference = estimate - estimates[spec, where._replace(model=second)]
                row = _row(study, spec, where._replace(model=f"{first} - {second}"), difference)
                yield row if row.low is None else replace(row, p_value=difference.p_value())


def _row(study: Study, spec: Spec, where: Slice, estimate: Estimate) -> Row:
    row = _empty_row(study, str(spec), where)
    if not estimate.defined:
        return replace(row, error=f"{spec} is undefined: {spec.metric.undefined}.")
    low = high = note = None
    if study.interval is not None:
        if estimate.carries(study.interval):
            low, high = estimate.interval(study.interval)
        if estimate.lost:
            note = f"withheld or undefined in {estimate.lost} of {study.replicates} resamples"
        if low is None:
            note = f"no interval: {note}, and it takes {fewest_replicates(study.interval)}"
    return replace(
        row,
        value=estimate.value,
        low=low,
        high=high,
        precision=EXACT if study.precision is None and not estimate.width else estimate.width,
        binning=estimate.binning,
        resamples=None if low is None else estimate.kept,
        note=note,
    )


def _curve_rows(study: Study, curves: Sequence[Curve]) -> list[Row]:
    wanted = [name for name in CURVE_METRICS if name != "ece" or study.grid.scores != "any"]
    return [_curve_row(study, name, each) for name in wanted for each in curves]


def _curve_row(study: Study, name: str, curve: Curve) -> Row:
    row = _empty_row(study, name, curve.where)
    try:
        value = CURVE_METRICS[name](curve)
    except UndefinedMetric as undefined:
        return replace(row, error=str(undefined))
    return replace(
        row,
        value=value,
        precision=2.0**-PROBABILITY_BITS if name == "ece" else EXACT,
        binning=curve.binning() if name == "auc" else None,
    )


def _noisy_rows(study: Study, curves: Sequence[Curve]) -> list[Row]:
    """What was asked for, and what follows from a curve in any case."""
    asked = [str(spec) for spec in study.specs]
    wanted = dict.fromkeys([*asked, *(name for name in FROM_ANY if name != "ece" or study.grid.scores != "any")])
    return [_noisy_row(study, name, each) for name in wanted for each in curves if isinstance(each, NoisyCurve)]


def _noisy_row(study: Study, name: str, curve: NoisyCurve) -> Row:
    row = _empty_row(study, name, curve.where)
    try:
        found = estimated(study, curve, name)
        binning = curve.binning() if name == "auc" else None
    except UndefinedMetric as undefined:
        return replace(row, error=str(undefined))
    note = "no interval: noise only adds to it" if name == "ece" and study.interval is not None else None
    return replace(row, value=found.value, low=found.low, high=found.high, binning=binning, note=note)


def _empty_row(study: Study, metric: str, where: Slice) -> Row:
    group = None if where.group is None else _group_name(study, where.group)
    return Row(metric=metric, model=where.model or None, label=where.label, group=group)


def _group_name(study: Study, group: str) -> str:
    """A group as it is shown: the column and its value."""
    return f"{study.group_column}={group}"
