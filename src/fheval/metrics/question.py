"""What a round is asked: metric × model × class × group × resample, as public bytes that fix every ratio form.

All parties read the same question out of the round's description, so they come to the same forms in the same order:
the evaluations as `evaluations` lists them, each followed by its resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import msgspec

from fheval.counting import UNNAMED, Grid
from fheval.errors import ConfigError
from fheval.metrics.forms import Form
from fheval.metrics.intervals import require_enough
from fheval.metrics.resampling import LARGEST_WEIGHT
from fheval.metrics.specs import Spec, parse_spec
from fheval.metrics.statistics import BinCounts, Calibration, Statistic

MOST_REPLICATES = 10_000

# Products of all forms together, 16 ciphertexts' worth. How many a round carries depends on its primes.
MOST_TERMS = 1 << 17

# Sums must fit an int64: counts as they are, fixed-point numbers of 2^24 units a sample.
MOST_COUNTED = 1 << 62
MOST_SUMMED = 1 << 38


class Slice(NamedTuple):
    """What is evaluated by itself: one model, one class against the rest, one group; None is all."""

    model: str
    label: str | None
    group: str | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One released number: a metric of a slice."""

    spec: Spec
    model: str
    label: str | None
    group: str | None

    @property
    def where(self) -> Slice:
        """What the metric is of."""
        return Slice(self.model, self.label, self.group)


class QuestionError(ConfigError, ValueError):
    """A question that cannot be; also a `ValueError`, so that msgspec refuses bytes that carry one."""


class Question(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The public request behind a round's forms.

    `classes` names the labels of a multi-class task, empty for labels 0 and 1. `groups` lists the values of
    `group_column` whose results are released, beside those over all samples. `replicates` resamples, of whole clusters
    with `by_cluster`, are behind intervals of the level `confidence`. `targets` is the range of true and predicted
    values in a regression. `curve` asks for the global counts themselves instead of metrics.
    """

    grid: Grid
    metrics: tuple[str, ...] = ("auc",)
    models: tuple[str, ...] = (UNNAMED,)
    classes: tuple[str, ...] = ()
    group_column: str | None = None
    groups: tuple[str, ...] = ()
    replicates: int = 0
    by_cluster: bool = False
    targets: tuple[float, float] | None = None
    curve: bool = False
    confidence: float | None = None

    def __post_init__(self) -> None:
        _check_lists(self)
        _check_classes(self)
        if not 0 <= self.replicates <= MOST_REPLICATES:
            raise QuestionError(f"{self.replicates} resamples make no sense. Use a number up to {MOST_REPLICATES}.")
        _check_interval(self)
        if self.targets is not None and not -1e300 < self.targets[0] < self.targets[1] < 1e300:
            raise QuestionError(f"{self.targets} is no range of values. Give the lowest, then the highest.")
        if self.curve and (self.metrics != ("auc",) or self.replicates):
            raise QuestionError("A curve gives all that is computed from it. Ask for no other metric or interval.")
        for spec in self.specs:
            try:
                spec.setting(self.grid, self.targets)
            except ConfigError as error:
                raise QuestionError(str(error)) from error

    @classmethod
    def from_bytes(cls, data: bytes) -> Question:
        """Read what `to_bytes` wrote; a `ConfigError` says why not."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise QuestionError(
                f"These bytes are not a question ({error}). Ask the sender for the round again."
            ) from error

    def to_bytes(self) -> bytes:
        """Describe the question canonically: equal questions give equal bytes."""
        return msgspec.msgpack.encode(self)

    @property
    def is_one_auc(self) -> bool:
        """Whether one model's AUC over all samples is all that is asked for."""
        return len(self.models) == 1 and self == Question(grid=self.grid, models=self.models)

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The metrics that are asked for."""
        try:
            return tuple(parse_spec(text) for text in self.metrics)
        except ConfigError as error:
            raise QuestionError(str(error)) from error

    def statistic(self, spec: Spec) -> Statistic:
        """What is counted for a metric."""
        return spec.metric.counted(spec.setting(self.grid, self.targets))

    def statistics(self) -> tuple[Statistic, ...]:
        """All that is counted, each once."""
        if not self.curve:
            return tuple(dict.fromkeys(self.statistic(spec) for spec in self.specs))
        calibrated = self.grid.scores != "any"
        return (BinCounts(self.grid), *([Calibration(self.grid.scores == "logit")] if calibrated else []))

    def slices(self) -> list[Slice]:
        """Everything that is evaluated by itself: models, classes and groups, all samples before the groups."""
        labels: Sequence[str | None] = self.classes or (None,)
        return [Slice(*each) for each in product(self.models, labels, (None, *self.groups))]

    def evaluations(self) -> list[Evaluation]:
        """All released numbers but for resamples, in the order of the forms."""
        return [Evaluation(spec, *each) for spec, each in product(self.specs, self.slices())]

    def sums(self) -> int:
        """How many sums a curve has."""
        return len(self.slices()) * sum(statistic.width for statistic in self.statistics())

    def forms(self, max_samples: int) -> tuple[Form, ...]:
        """One form for each evaluation and each of its resamples, for at most `max_samples` samples in all."""
        weighted = max_samples * (LARGEST_WEIGHT if self.replicates else 1)
        summed = any(spec.metric.probabilities or spec.metric.targets for spec in self.specs)
        if weighted > (MOST_SUMMED if summed else MOST_COUNTED):
            raise ConfigError(f"{max_samples} samples are more than this question can add up. Lower max_samples.")
        shapes = {
            spec: [spec.metric.form(len(self.grid), samples) for samples in (max_samples, weighted)]
            for spec in self.specs
        }
        forms: list[Form] = []
        for evaluation in self.evaluations():
            once, resampled = shapes[evaluation.spec]
            forms += [once, *[resampled] * self.replicates]
        terms = sum(form.terms for form in forms)
        if terms > MOST_TERMS:
            raise ConfigError(
                f"The batch has {terms:,} products and a round takes {MOST_TERMS:,}. "
                "Ask for fewer decision points, resamples, groups or metrics at once."
            )
        return tuple(forms)


def _check_lists(question: Question) -> None:
    for noun, names in (
        ("metric", tuple(map(str, question.specs))),
        ("model", question.models),
        ("class", question.classes),
        ("group", question.groups),
    ):
        if len(set(names)) != len(names):
            raise QuestionError(f"A {noun} is named twice in {', '.join(map(repr, names))}. Name each once.")
    if not question.metrics or not question.models:
        raise QuestionError("A question needs at least one metric and one model.")
    if question.groups and question.group_column is None:
        raise QuestionError("Groups need a column that they are values of. Name the group column.")


def _check_interval(question: Question) -> None:
    if question.confidence is None:
        if question.replicates:
            raise QuestionError("Resamples are there for an interval. Name its level, such as 0.95.")
        return
    try:
        require_enough(question.confidence, question.replicates)
    except ConfigError as error:
        raise QuestionError(str(error)) from error


def _check_classes(question: Question) -> None:
    if not question.classes:
        return
    if len(question.classes) < 2:
        raise QuestionError("One class cannot be told from others. Name all classes.")
    for spec in question.specs:
        if spec.metric.targets:
            raise QuestionError(f"{spec} is no metric of classes. Ask for it without classes.")
