"""A study: what is asked and on what terms, fixed before anyone counts.

People write it in TOML (`Study.from_toml`); parties agree on its canonical bytes, whose hash every round names. All of
them derive the same forms from it, in the same order: the evaluations as `evaluations` lists them, each followed by
its resamples, and then their binning errors. (Where resamples are counted at fewer points than the data, those of a
metric follow all its values, and behind the binning errors stands what the data are at these points.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, lru_cache
from hashlib import sha256
from itertools import combinations, product
from math import ceil, comb
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

import msgspec
import numpy as np

from fheval.counting import UNNAMED, Grid
from fheval.counting.grid import DEFAULT_KIND, DEFAULT_POINTS, PLACED
from fheval.errors import CapacityError, ConfigError, RemoteProtocolError
from fheval.field import LinearMap
from fheval.metrics.groups import DEFAULT_MINIMUM_SIZE
from fheval.metrics.registry import Columns, Histogram, Inputs, Spec, parse_spec
from fheval.metrics.resampling import LARGEST_WEIGHT
from fheval.metrics.statistics import PROBABILITY_BITS, Calibration, Statistic
from fheval.privacy.accounting import Cost, Sensitivity, cost_of, noise_for, require_budget
from fheval.privacy.expected import best_points
from fheval.privacy.sampling import Noise
from fheval.protocols import DEFAULT_PROTOCOL, PROTOCOLS, Protocol
from fheval.protocols.base import Option
from fheval.protocols.curve import PRIME
from fheval.protocols.round import (
    AGGREGATOR,
    DEFAULT_MAX_SAMPLES,
    DEFAULT_MINIMUM_COHORT,
    MOST_SAMPLES,
    Batch,
    Form,
    OptionValue,
    Reading,
    Round,
    RoundCall,
    new_round_id,
    require_terms,
)
from fheval.secrets import Randomness
from fheval.wire import Message, decode, encode

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Two hundred resamples at 1,000 points would fill a hundred ciphertexts. At 100 they scatter alike, and are recentred.
RESAMPLED_DECISION_POINTS = 100

DEFAULT_REPLICATES = 200
MOST_REPLICATES = 10_000

# Products of all forms together. Each takes some 200 bytes of everyone's memory, so that a description of a hundred
# kilobytes cannot ask for more than 200 MB; how many a round carries depends on its primes and decision points.
MOST_TERMS = 1 << 20

# One row would be one person's values, whatever the others have.
DEFAULT_LEAST_ROWS = 2

DEFAULT_ROUNDS = 10

# What is reckoned with where a study does not say how many rows there are.
DEFAULT_ROWS = 1000

# The level of the intervals beside a noisy curve, which cost nothing.
DEFAULT_LEVEL = 0.95

# Sums must fit an int64: counts as they are, fixed-point numbers of 2^24 units a sample.
MOST_COUNTED = 1 << 62
MOST_SUMMED = 1 << 38

# A thousand listed decision points and a hundred metrics have a tenth of it.
LONGEST_STUDY = 1 << 17

EXACT: Literal["exact"] = "exact"

MEAN_OF = "mean:"

# Two groups that are compared, as they are shown.
PAIR = " - "
MOST_IN_A_PAIR = 2

Release = Literal["ratios", "curve", "noisy-curve"]


class Slice(NamedTuple):
    """What is evaluated by itself: one model, one class against the rest, one group; None is all."""

    model: str
    label: str | None
    group: str | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One released number: a metric of a slice."""

    spec: Spec
    where: Slice


class StudyError(ConfigError, ValueError):
    """A study that cannot be; also a `ValueError`, so that msgspec refuses bytes that carry one."""


class Study(Message, frozen=True, kw_only=True):
    """What is asked and on what terms.

    Asked: `metrics` of `models` at the decision points of `grid`; `classes` names the labels of a multi-class task,
    empty for labels 0 and 1; with `group_column` every one of the `groups` that is large enough (`minimum_group` at
    each of `minimum_cohort` parties) is evaluated by itself as well. `interval` is the level of intervals around all
    numbers, from `replicates` resamples of rows, or of whole clusters with `by_cluster`. `target_range` is the public
    range of true and predicted values in a regression. `release` "curve" asks for the global counts instead of metrics.

    `release` "noisy-curve" asks for counts under noise that hides every row, or every cluster of up to
    `most_rows_per_cluster` with `by_cluster`: they are `epsilon`-differentially private or, where `delta` is given and
    Gaussian noise is smaller, (`epsilon`, `delta`), against any `colluding` parties of a minimum cohort together. Its
    `groups` are named, for which groups there are in the data would be told without noise.

    Terms: one `protocol` with its own `options`; `precision` is the width of the rounding that is released, None for an
    exact release; fewer parties than `minimum_cohort` get nothing; `max_samples` bounds the rows of all of them, and
    `least_rows` is how many they have at least. Each brings `least_rows_per_party` to `most_rows_per_party`; a signed
    study always names the latter, since nobody may know the sum. A vault answers so many `rounds`, `every` so many
    seconds at most, and up to the day `until`. `checkers` are members who open the result themselves rather than take
    the leader's word, and so hold the opening keys. `leaders` are the members that may lead, and so can derive
    everybody's pads; none named, any may. `learns` says who learns the result, and `reveals` what it may give away.
    """

    name: str = ""
    grid: Grid
    metrics: tuple[str, ...] = ("auc",)
    models: tuple[str, ...] = (UNNAMED,)
    classes: tuple[str, ...] = ()
    group_column: str | None = None
    minimum_group: int = DEFAULT_MINIMUM_SIZE
    interval: float | None = None
    replicates: int = 0
    by_cluster: bool = False
    target_range: tuple[float, float] | None = None
    release: Release = "ratios"
    protocol: str
    options: tuple[tuple[str, OptionValue], ...] = ()
    precision: float | None
    minimum_cohort: int = DEFAULT_MINIMUM_COHORT
    max_samples: int = DEFAULT_MAX_SAMPLES
    least_rows: int | None = None
    least_rows_per_party: int = DEFAULT_LEAST_ROWS
    most_rows_per_party: int | None = None
    rounds: int = DEFAULT_ROUNDS
    every: int | None = None
    until: date | None = None
    learns: Literal["members", "members and aggregator"] = "members"
    reveals: Literal["ratios", "counts"] = "ratios"
    checkers: tuple[str, ...] = ()
    leaders: tuple[str, ...] = ()
    epsilon: float | None = None
    delta: float | None = None
    colluding: int = 1
    most_rows_per_cluster: int | None = None
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            _check_asked(self)
            _check_terms(self)
        except StudyError:
            raise
        except ConfigError as error:
            raise StudyError(str(error)) from error

    # Making, writing and reading

    @classmethod
    def of(
        cls,
        *,
        decision_points: int | Grid | None = None,
        grid: str | Sequence[float] = DEFAULT_KIND,
        scores: Literal["probability", "logit"] = "probability",
        interval: float | None = None,
        replicates: int = DEFAULT_REPLICATES,
        protocol: str = DEFAULT_PROTOCOL,
        precision: float | Literal["exact"] | None = None,
        **others: Any,
    ) -> Study:
        """A study from what people say, with the defaults of `fheval.evaluate` for the rest.

        `others` are fields of a study, or options of its protocol.

        >>> Study.of(metrics=["auc", "f1@0.3"], decision_points=100).grid
        Grid.wide(100)
        """
        if "options" in others:
            raise _no_field("options")
        chosen = PROTOCOLS[_field("protocol", protocol)]
        own = {option.name: _plain(others.pop(option.name)) for option in _all_options() if option.name in others}
        metrics = _field("metrics", others.get("metrics", ()))
        if any(text.startswith(MEAN_OF) for text in metrics):
            others |= _means(metrics, _field("models", others.get("models", (UNNAMED,))))
        noisy = others.get("release") == "noisy-curve"
        if noisy and interval is None:
            interval = DEFAULT_LEVEL
        resampled = interval is not None and not noisy
        fields: dict[str, Any] = {
            "grid": _chosen_grid(decision_points, grid, scores),
            "interval": interval,
            "replicates": replicates if resampled else 0,
            "protocol": protocol,
            "options": _chosen_options(chosen, own),
            "precision": chosen.default_precision if precision is None else None if precision == EXACT else precision,
        }
        study = cls(**{name: _field(name, value) for name, value in (others | fields).items()})
        return study._with_best_grid() if noisy and decision_points is None and isinstance(grid, str) else study

    def _with_best_grid(self) -> Study:
        """The same with as many decision points as give the smallest error under noise, for the declared rows."""
        grid, noise = self.grid, self.noise
        if noise is None:
            return self

        def place(count: int) -> Grid:
            return msgspec.structs.replace(grid, size=count)

        variance = noise.variance_of(self.minimum_cohort)
        return msgspec.structs.replace(self, grid=place(best_points(place, self.least_rows or DEFAULT_ROWS, variance)))

    @classmethod
    def from_toml(cls, text: str) -> Study:
        """Read a study as people write it; what is left out has the default of `fheval.evaluate`.

        >>> study = Study.from_toml('metrics = ["auc", "recall@0.3"]\\nprecision = 1e-3')
        >>> study.protocol, study.precision
        ('padded', 0.001)
        """
        try:
            fields = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise StudyError(f"This is no TOML ({error}). Mend the study.") from error
        return cls.of(**fields)

    @classmethod
    def from_file(cls, path: Path) -> Study:
        try:
            return cls.from_toml(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read as a study ({error}). Check the path.") from error
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def from_bytes(cls, data: bytes) -> Study:
        """Read the canonical form, or blame whoever sent it."""
        study = decode(data, cls, sender=AGGREGATOR, limit=LONGEST_STUDY)
        if study.to_bytes() != data:
            raise RemoteProtocolError(
                "The study is not in canonical form. The round was refused.", step="study", culprit=AGGREGATOR
            )
        return study

    def to_bytes(self) -> bytes:
        """The canonical form: equal studies give equal bytes."""
        return encode(self)

    def hash(self) -> bytes:
        """By what name rounds call the study."""
        return sha256(b"fheval/1 study\0" + self.to_bytes()).digest()

    # What follows from it

    @property
    def is_one_auc(self) -> bool:
        """Whether one model's AUC over all samples is all that is asked for."""
        return (
            self.metrics == ("auc",)
            and len(self.models) == 1
            and not self.classes
            and self.group_column is None
            and self.interval is None
            and self.release == "ratios"
        )

    @property
    def specs(self) -> tuple[Spec, ...]:
        return tuple(parse_spec(text) for text in self.metrics)

    @property
    def binned(self) -> tuple[Spec, ...]:
        """Those whose binning error is released beside them, where the protocol answers more than one number."""
        several = self.release == "ratios" and PROTOCOLS[self.protocol].batch
        return tuple(spec for spec in self.specs if several and spec.metric.binning is not None)

    @property
    def pairs(self) -> tuple[Spec, ...]:
        """Those that compare two groups."""
        return tuple(spec for spec in self.specs if spec.metric.gap_of is not None)

    @property
    def releases_counts(self) -> bool:
        """Whether counts are released, under noise or not, instead of ratios."""
        return self.release != "ratios"

    @property
    def hides_groups(self) -> bool:
        """Whether groups that are small are not released: noise hides them by itself."""
        return bool(self.groups) and self.release != "noisy-curve"

    @property
    def sensitivity(self) -> Sensitivity:
        """What changes of a noisy curve when a row, or a cluster, comes or goes."""
        histograms = len(self.models) * (len(self.classes) or 1) * (1 if self.group_column is None else 2)
        return Sensitivity(rows=(self.by_cluster and self.most_rows_per_cluster) or 1, cells=histograms)

    @property
    def noise(self) -> Noise | None:
        """What each party draws a share of, where the release is noisy."""
        if self.release != "noisy-curve" or self.epsilon is None:
            return None
        return noise_for(self.epsilon, self.delta, self.sensitivity, self.minimum_cohort - self.colluding)

    @property
    def privacy_cost(self) -> Cost | None:
        """What a round spends of the privacy of a data set, where the release is noisy."""
        noise = self.noise
        return None if noise is None else cost_of(noise, self.sensitivity)

    def inputs(self, spec: Spec) -> Inputs:
        return spec.inputs(self.grid, self.target_range)

    def coarse_inputs(self, spec: Spec) -> Inputs:
        """The same for resamples, which are counted at fewer points."""
        return replace(self.inputs(spec), every=self.every_point, coarse=self.replicates > 0)

    @property
    def every_point(self) -> int:
        """At which points of the grid resamples are counted: all, or one in so many, which are about a hundred."""
        return max(1, (len(self.grid) - 1) // (RESAMPLED_DECISION_POINTS - 1)) if self.replicates else 1

    @property
    def recentred(self) -> tuple[Spec, ...]:
        """Those that are coarser in resamples than in the data.

        They are read from the data at the resamples' points as well, and their resamples moved by the difference, so
        that a value and its interval agree.
        """

        def differs(spec: Spec) -> bool:
            counted = (spec.metric.statistics(each) for each in (self.inputs(spec), self.coarse_inputs(spec)))
            return len(set(counted)) > 1 or (spec.metric.histogram == "grid" and self.every_point > 1)

        return tuple(spec for spec in self.specs if self.replicates and differs(spec))

    def statistics(self) -> tuple[Statistic, ...]:
        """All that is counted of the data, each once. Metrics at a threshold and over the grid share one histogram."""
        if self.release == "curve":
            calibrated = self.grid.scores != "any"
            return (Histogram(self.grid), *([Calibration(self.grid.scores == "logit")] if calibrated else []))
        if self.release == "noisy-curve":
            return (self.histogram,)
        # The coarser histogram follows from the finer one; other coarse statistics are counted beside the fine ones.
        others = [*self._others(self.inputs), *(self._others(self.coarse_inputs) if self.recentred else ())]
        return (*self._histograms(1), *dict.fromkeys(others))

    def resample_statistics(self) -> tuple[Statistic, ...]:
        """All that is counted of each resample."""
        if not self.recentred:
            return self.statistics()
        return (*self._histograms(self.every_point), *self._others(self.coarse_inputs))

    def _histograms(self, every: int) -> tuple[Histogram, ...]:
        """The histogram that metrics need, if any does, at one point of the grid in `every`."""
        specs = self.specs
        grid = self.grid if any(spec.metric.histogram == "grid" for spec in specs) else None
        cuts = [self.inputs(spec).cut for spec in specs if spec.metric.histogram == "threshold"]
        return (Histogram.at(grid, cuts, every if grid else 1),) if grid is not None or cuts else ()

    def _others(self, inputs: Callable[[Spec], Inputs]) -> dict[Statistic, None]:
        return dict.fromkeys(each for spec in self.specs for each in spec.metric.statistics(inputs(spec)))

    @property
    def histogram(self) -> Histogram:
        """The histogram of a noisy curve: at all decision points, and at the thresholds that metrics name."""
        return Histogram.at(self.grid, (self.inputs(spec).cut for spec in self.specs if spec.metric.threshold))

    def slices(self, groups: Sequence[str] = ()) -> list[Slice]:
        """Everything that is evaluated by itself: models, classes and groups, all samples before the groups."""
        labels: Sequence[str | None] = self.classes or (None,)
        return [Slice(*each) for each in product(self.models, labels, (None, *groups))]

    def number_of_slices(self) -> int:
        """How many are counted, without listing them: names cost the sender little, and their products much."""
        return len(self.models) * (len(self.classes) or 1) * (1 + len(self.groups))

    def slices_for(self, spec: Spec, groups: Sequence[str] = ()) -> list[Slice]:
        """What a metric is evaluated on: the slices or, where it compares groups, every two of these."""
        if spec.metric.gap_of is None:
            return self.slices(groups)
        labels: Sequence[str | None] = self.classes or (None,)
        two = [PAIR.join(names) for names in combinations(groups, MOST_IN_A_PAIR)]
        return [Slice(*each) for each in product(self.models, labels, two)]

    def number_of_evaluations(self) -> int:
        """How many numbers are asked for, without listing them."""
        pairs = self.number_of_slices() // (1 + len(self.groups)) * comb(len(self.groups), MOST_IN_A_PAIR)
        return len(self.pairs) * pairs + (len(self.specs) - len(self.pairs)) * self.number_of_slices()

    def evaluations(self, groups: Sequence[str] = ()) -> list[Evaluation]:
        """All metrics of all slices, in the order of the forms; the forms of binning errors follow."""
        return [Evaluation(spec, where) for spec in self.specs for where in self.slices_for(spec, groups)]

    def batch(self) -> Batch:
        """The table that every party counts, and how all released numbers are read from it."""
        samples = self.max_samples * (LARGEST_WEIGHT if self.replicates else 1)
        summed = any(spec.metric.probabilities or spec.metric.targets for spec in self.specs)
        if samples > (MOST_SUMMED if summed else MOST_COUNTED):
            raise StudyError(f"{self.max_samples} samples are more than can be added up here. Lower max_samples.")
        if self.pairs and len(self.groups) < MOST_IN_A_PAIR:
            raise StudyError(
                f"{self.pairs[0]} compares two groups, and there are {len(self.groups)}. Name two or more."
            )
        statistics, coarse = self.statistics(), self.resample_statistics()
        batch = Batch(
            width=sum(statistic.width for statistic in coarse),
            bits=samples.bit_length() + max(statistic.bits for statistic in (*statistics, *coarse)),
            first=sum(statistic.width for statistic in statistics) if self.recentred else 0,
            slices=self.number_of_slices(),
            lines=1 + self.replicates,
            groups=len(self.groups),
            models=len(self.models),
            readings=tuple(self._readings(samples)),
        )
        terms = sum(each.form.terms * batch.lines_read(each) for each in batch.readings)
        if terms > MOST_TERMS:
            raise StudyError(
                f"The batch has {terms:,} products and a round takes {MOST_TERMS:,}. "
                "Ask for fewer decision points, resamples, groups or metrics at once."
            )
        return batch

    def _readings(self, samples: int) -> Iterator[Reading]:
        """The metrics' values and resamples, their binning errors, and what was counted coarsely to recentre by."""
        columns, coarse = Columns(self.statistics()), Columns(self.resample_statistics())
        for spec in self.specs:
            value = spec.metric.reading(columns, self.inputs(spec), samples)
            if self.recentred:
                yield msgspec.structs.replace(value, of="data")
                again = spec.metric.reading(coarse, self.coarse_inputs(spec), samples)
                yield msgspec.structs.replace(again, of="resamples")
            else:
                yield value
        for spec in self.binned:
            error = spec.metric.binning_reading(columns, self.inputs(spec), samples)
            if error is not None:
                yield error
        merged = Columns(self.statistics(), coarser=next(iter(self._histograms(self.every_point)), None))
        for spec in self.recentred:
            yield msgspec.structs.replace(spec.metric.reading(merged, self.coarse_inputs(spec), samples), of="data")
        if len(self.pairs) == len(self.specs):
            # Where too few groups are published nothing would be left to open. One over one says nothing.
            form = Form.bounded(numerator=1, denominator=1, bound=1)
            twice = LinearMap.stack([columns.one, columns.one])
            yield Reading(form=form, left=twice, right=twice, of="data")

    def require_rows(self, rows: int) -> None:
        """Refuse one party's rows that are more than the study allows."""
        most = min(self.max_samples, self.most_rows_per_party or self.max_samples)
        if rows > most:
            raise ConfigError(
                f"A party has {rows} rows, and the study allows {most} of each. Bring fewer, or raise the bound."
            )

    def _require_room(self, parties: int) -> None:
        """Refuse so many parties where their rows might exceed `max_samples`: sums beyond it would come out wrong."""
        if self.most_rows_per_party is not None and parties * self.most_rows_per_party > self.max_samples:
            raise StudyError(
                f"{parties} parties of up to {self.most_rows_per_party} rows could have more than the "
                f"{self.max_samples} that the study has room for. Raise max_samples, or lower most_rows_per_party."
            )

    def may_lead(self, parties: Sequence[str]) -> list[str]:
        """Those of the parties who may lead a round."""
        return [party for party in parties if not self.leaders or party in self.leaders]

    def call(self, rng: Randomness, *, engine: str, parties: Sequence[str], leader: str) -> RoundCall:
        return RoundCall(
            id=new_round_id(rng),
            study=self.hash(),
            engine=engine,
            parties=tuple(parties),
            leader=leader,
        )

    def round(self, call: RoundCall) -> Round:
        """A round of this study, with everything that follows; refuses the call for another study."""
        if call.study != self.hash():
            raise RemoteProtocolError(
                "The round is of another study than the one that came with it. It was refused.",
                step="round",
                culprit=AGGREGATOR,
            )
        self._require_room(len(call.parties))
        curve = self.releases_counts
        if curve and self.max_samples << PROBABILITY_BITS >= PRIME // 2:
            raise CapacityError(f"Sums over {self.max_samples} samples do not fit a curve's counts. Lower max_samples.")
        width = sum(statistic.width for statistic in self.statistics()) if curve else 0
        return Round(
            **msgspec.structs.asdict(call),
            protocol=self.protocol,
            groups=self.groups,
            batch=None if curve else _batch(self),
            sums=self.number_of_slices() * width,
            slices=self.number_of_slices(),
            precision=self.precision,
            minimum_cohort=self.minimum_cohort,
            max_samples=self.max_samples,
            options=self.options,
            checkers=self.checkers,
            noise=self.noise,
        )


@lru_cache(maxsize=16)
def _batch(study: Study) -> Batch:
    """A study's batch: vaults derive it at every stage of every round."""
    return study.batch()


def _means(metrics: Sequence[str], models: Sequence[str]) -> dict[str, Any]:
    """`mean:COLUMN` in place of a metric and a model: each column is averaged by itself, and all are compared."""
    columns = tuple(text.removeprefix(MEAN_OF) for text in metrics if text.startswith(MEAN_OF))
    if len(columns) < len(metrics) or (models != (UNNAMED,) and not set(columns) <= set(models)):
        raise StudyError(
            f"{MEAN_OF}COLUMN names a column to average, and goes with nothing but other columns. "
            "Ask for other metrics in a study of their own."
        )
    return {"metrics": ("mean",), "models": columns}


def _field(name: str, value: object) -> Any:
    """A field of a study from what people wrote: a list of one may be written without its brackets."""
    kinds = _kinds()
    if name not in kinds:
        raise _no_field(name)
    if kinds[name] == tuple[str, ...] and isinstance(value, str):
        value = (value,)
    if name == "every" and isinstance(value, str):
        value = _seconds(value)
    return _converted(name, value, kinds[name])


@cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(Study)


_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


def _seconds(text: str) -> object:
    """A time as people write it, such as "12 hours"; what is none comes back as it was.

    >>> _seconds("1 day"), _seconds("2 weeks"), _seconds("soon")
    (86400, 1209600, 'soon')
    """
    number, _, unit = text.strip().partition(" ")
    unit = unit.strip().removesuffix("s")
    return int(number) * _SECONDS[unit] if number.isdecimal() and unit in _SECONDS else text


def _converted(name: str, value: object, kind: Any) -> Any:
    try:
        return msgspec.convert(_plain(value), kind)
    except msgspec.ValidationError as error:
        raise StudyError(f"{name} is {value!r}, which cannot be ({error}). Mend the study.") from error


def _plain(value: Any) -> Any:
    """Numbers that numpy made as Python's own, such as the ends of a range."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, (list, tuple, range)) else value


def _no_field(name: str) -> StudyError:
    known = {*_kinds(), "decision_points", "scores", *(option.name for option in _all_options())}
    return StudyError(f"A study has no {name!r}. It has: {', '.join(sorted(known - {'options'}))}.")


def _all_options() -> list[Option]:
    return [option for protocol in PROTOCOLS.values() for option in protocol.options]


def _chosen_options(protocol: Protocol, given: Mapping[str, Any]) -> tuple[tuple[str, OptionValue], ...]:
    """The protocol's options that differ from their defaults; those of other protocols must not."""
    own = {option.name: option for option in protocol.options}
    for option in _all_options():
        if option.name in given and option.name not in own and given[option.name] != option.default:
            raise StudyError(f"{protocol.name} has no {option.name}. Leave it out, or choose another protocol.")
    return tuple(sorted((name, value) for name, value in given.items() if name in own and value != own[name].default))


def _chosen_grid(
    points: int | Grid | None, grid: str | Sequence[float], scores: Literal["probability", "logit"]
) -> Grid:
    if isinstance(points, Grid):
        return points
    if not isinstance(grid, str):
        if points is not None or scores != "probability":
            raise StudyError("The grid lists the decision points. Leave their number and the kind of scores out.")
        return Grid.explicit(_converted("grid", grid, tuple[float, ...]))
    if grid not in PLACED:
        raise StudyError(f"There is no grid {grid!r}. Use {', '.join(PLACED)}, or a list of decision points.")
    points = DEFAULT_POINTS if points is None else _plain(points)
    return PLACED[grid](points, scores=_converted("scores", scores, Literal["probability", "logit"]))


def fewest_replicates(level: float) -> int:
    """How many resamples an interval takes, so that its ends do not lie beyond the outermost.

    >>> fewest_replicates(0.95)
    40
    """
    return ceil(round(2 / (1 - level), 9))


def _require_level(level: float) -> None:
    if not 0 < level < 1:
        raise StudyError(f"A confidence level of {level} makes no sense. Use a number such as 0.95.")


def _require_enough(level: float, replicates: int) -> None:
    _require_level(level)
    fewest = fewest_replicates(level)
    if replicates < fewest:
        raise StudyError(
            f"{replicates} resamples do not carry an interval of {level:g}. Use {max(fewest, DEFAULT_REPLICATES)}."
        )


def _check_asked(study: Study) -> None:
    named = (
        ("metric", tuple(map(str, study.specs))),
        ("model", study.models),
        ("class", study.classes),
        ("group", study.groups),
    )
    for noun, names in named:
        if len(set(names)) != len(names):
            raise StudyError(f"A {noun} is named twice in {', '.join(map(repr, names))}. Name each once.")
    if not study.metrics or not study.models:
        raise StudyError("A study needs at least one metric and one model.")
    if study.groups and (study.group_column is None or not all(study.groups)):
        raise StudyError("A study that names groups says in which column they are, and each has a name.")
    if not 1 <= study.minimum_group <= MOST_SAMPLES:
        raise StudyError(f"A minimum group of {study.minimum_group} makes no sense. Use a number such as 20.")
    if len(study.classes) == 1:
        raise StudyError("One class cannot be told from others. Name all classes.")
    if not 0 <= study.replicates <= MOST_REPLICATES:
        raise StudyError(f"{study.replicates} resamples make no sense. Use a number up to {MOST_REPLICATES}.")
    if study.interval is not None and study.release == "noisy-curve":
        _require_level(study.interval)
    elif study.interval is not None:
        _require_enough(study.interval, study.replicates)
    elif study.replicates:
        raise StudyError("Resamples are there for an interval. Name its level, such as 0.95.")
    if study.target_range is not None and not -1e300 < study.target_range[0] < study.target_range[1] < 1e300:
        raise StudyError(f"{study.target_range} is no range of values. Give the lowest, then the highest.")
    for spec in study.specs:
        study.inputs(spec)
        if spec.metric.gap_of is not None and study.group_column is None:
            raise StudyError(f"{spec} compares groups. Say in which column they are.")
        if study.classes and spec.metric.targets:
            raise StudyError(f"{spec} is no metric of classes. Ask for it without classes.")
    if study.release == "curve" and (study.metrics != ("auc",) or study.replicates):
        raise StudyError("A curve gives all that is computed from it. Ask for no other metric or interval.")
    _check_noise(study)


def _check_noise(study: Study) -> None:
    """Refuse noise without its terms, terms without noise, and what a histogram under noise does not give."""
    if study.release != "noisy-curve":
        absent = {"epsilon": None, "delta": None, "colluding": 1, "most_rows_per_cluster": None}
        for name, value in absent.items():
            if getattr(study, name) != value:
                raise StudyError(f'{name} goes with release = "noisy-curve". Leave it out, or ask for that.')
        return
    require_budget(study.epsilon, study.delta)
    if study.replicates:
        raise StudyError("Intervals of a noisy curve are computed from it. Ask for no resamples.")
    for spec in study.specs:
        if spec.name != "auc" and (not spec.metric.threshold or spec.metric.gap_of is not None):
            raise StudyError(f"{spec} does not follow from a noisy curve. Ask for auc, or for metrics at a threshold.")
    if not 0 <= study.colluding < study.minimum_cohort:
        raise StudyError(
            f"{study.colluding} colluding parties of a minimum cohort of {study.minimum_cohort} leave nobody whose "
            "noise they do not know. Raise minimum_cohort, or lower colluding."
        )
    if study.by_cluster != (study.most_rows_per_cluster is not None):
        raise StudyError("Noise hides clusters of a known size. Set by_cluster and most_rows_per_cluster together.")
    if (study.group_column is None) != (not study.groups):
        raise StudyError("Noise hides how many rows a group has, and not which groups there are. Name the groups.")
    _ = study.noise


def _check_terms(study: Study) -> None:
    require_terms(study.precision, study.minimum_cohort, study.max_samples)
    for name in ("minimum_group", "least_rows", "most_rows_per_party", "rounds", "every", "most_rows_per_cluster"):
        value = getattr(study, name)
        if value is not None and not 1 <= value <= MOST_SAMPLES:
            raise StudyError(f"{name} is {value}. Use a number from 1 to {MOST_SAMPLES}.")
    for role, names in (("checker", study.checkers), ("leader", study.leaders)):
        if len(set(names)) != len(names) or not all(names):
            raise StudyError(f"A {role} has no name, or is named twice. Name each member once.")
    if not 0 <= study.least_rows_per_party <= (study.most_rows_per_party or study.max_samples):
        raise StudyError(f"A party would have to bring {study.least_rows_per_party} rows at least. Bring it in range.")
    protocol = PROTOCOLS[study.protocol]
    if not protocol.batch and not study.is_one_auc:
        others = " or ".join(each.name for each in PROTOCOLS.values() if each.batch)
        raise StudyError(
            f"{study.protocol} computes one AUC a round. Use {others} for other metrics, models, classes, groups and "
            "intervals."
        )
    if study.releases_counts and protocol.counts is None:
        others = " or ".join(each.name for each in PROTOCOLS.values() if each.counts is not None)
        raise StudyError(f"{study.protocol} has no release of counts. Use {others}, or ask for metrics.")
    if study.group_column is not None and study.release != "noisy-curve" and not protocol.groups:
        others = " or ".join(each.name for each in PROTOCOLS.values() if each.groups)
        raise StudyError(f"{study.protocol} has no way to leave out small groups. Use {others}, or ask for none.")
    options = {option.name: option for option in protocol.options}
    for name, value in study.options:
        if name not in options:
            raise StudyError(f"{study.protocol} has no {name}. Leave it out, or choose another protocol.")
        options[name].check(value)
