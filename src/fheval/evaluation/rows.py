"""From the ratios of a round to the rows of its result: finish, average over classes, compare models, put intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import nan
from typing import Literal

import numpy as np

from fheval.evaluation.result import Row
from fheval.metrics.intervals import Estimate, average
from fheval.metrics.question import Evaluation, Question
from fheval.metrics.specs import Spec

MACRO = "macro"

Ratios = Sequence[Fraction | float | None]

# Metric, model, class, group: as in a row, but for the names of all and none.
_Key = tuple[Spec, str, str | None, str | None]


def result_rows(question: Question, ratios: Ratios, precision: float | None) -> list[Row]:
    """All rows: the evaluations, the mean over classes, and with intervals the differences between models."""
    estimates = _with_averages(question, _finished(question, ratios, precision))
    rows = [_row(question, key, key[1] or None, estimate, precision) for key, estimate in estimates.items()]
    if question.confidence is not None:
        rows += _differences(question, estimates, precision)
    return rows


def _finished(question: Question, ratios: Ratios, precision: float | None) -> dict[_Key, Estimate]:
    lines = 1 + question.replicates
    return {
        (each.spec, each.model, each.label, each.group): _estimate(
            question, each, ratios[number * lines : (number + 1) * lines], precision
        )
        for number, each in enumerate(question.evaluations())
    }


def _estimate(question: Question, evaluation: Evaluation, ratios: Ratios, precision: float | None) -> Estimate:
    finisher = evaluation.spec.metric.finish(evaluation.spec.setting(question.grid, question.targets))
    values = [nan if ratio is None else finisher(float(ratio)) for ratio in ratios]
    width = 0.0 if ratios[0] is None else finisher.width(float(ratios[0]), precision or 0.0)
    return Estimate(values[0], np.array(values[1:]), width)


def _with_averages(question: Question, estimates: Mapping[_Key, Estimate]) -> dict[_Key, Estimate]:
    """Behind the last class of each metric, model and group, the mean over its classes."""
    if not question.classes:
        return dict(estimates)
    complete: dict[_Key, Estimate] = {}
    for spec in question.specs:
        for model in question.models:
            for group in (None, *question.groups):
                per_class: dict[_Key, Estimate] = {
                    (spec, model, label, group): estimates[spec, model, label, group] for label in question.classes
                }
                complete |= per_class
                complete[spec, model, MACRO, group] = average(list(per_class.values()))
    return complete


def _differences(question: Question, estimates: Mapping[_Key, Estimate], precision: float | None) -> Iterator[Row]:
    for first, second in combinations(question.models, 2):
        for key, estimate in estimates.items():
            spec, model, label, group = key
            if model == first:
                difference = estimate - estimates[spec, second, label, group]
                yield _row(question, key, f"{first} - {second}", difference, precision, compared=True)


def _row(
    question: Question,
    key: _Key,
    model: str | None,
    estimate: Estimate,
    precision: float | None,
    *,
    compared: bool = False,
) -> Row:
    spec, _, label, group = key
    shown = None if group is None else group_name(question, group)
    row = Row(metric=str(spec), model=model, label=label, group=shown)
    if not estimate.defined:
        return replace(row, error=f"{spec} is undefined: {spec.metric.undefined}.")
    low = high = None
    if question.confidence is not None and estimate.lost < question.replicates:
        low, high = estimate.interval(question.confidence)
    return replace(
        row,
        value=estimate.value,
        low=low,
        high=high,
        precision=_open(estimate, precision),
        p_value=estimate.p_value() if compared else None,
        note=f"undefined in {estimate.lost} of {question.replicates} resamples" if estimate.lost else None,
    )


def _open(estimate: Estimate, precision: float | None) -> float | Literal["exact"]:
    return "exact" if precision is None and not estimate.width else estimate.width


def suppressed_rows(question: Question, suppressed: Mapping[str, str]) -> list[Row]:
    """A row without a value for every metric and model of a group that is not released."""
    return [
        Row(metric=str(spec), model=model or None, group=group_name(question, group), note=reason)
        for spec in question.specs
        for model in question.models
        for group, reason in suppressed.items()
    ]


def group_name(question: Question, group: str) -> str:
    """A group as it is shown: the column and its value."""
    return f"{question.group_column}={group}"
