"""A party's share of a study: its rows, counted chunk by chunk, become a table of integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fheval.counting import Column, Table
from fheval.counting.chunks import first_bad_label, first_bad_score, look_like_percentages
from fheval.errors import ConfigError
from fheval.metrics.fixed_point import Integers
from fheval.metrics.groups import GroupSizes
from fheval.metrics.registry import Histogram, OwnAuc
from fheval.metrics.resampling import Resampler
from fheval.metrics.statistics import MOST_ROWS, Rows, Statistic, Task, Weights
from fheval.protocols.groups import declaration
from fheval.protocols.round import Contribution
from fheval.secrets import Randomness
from fheval.study import Slice, Study


class PartyTally:
    """Counts everything that a study needs, in one pass; memory does not depend on the number of rows.

    (With clusters it grows by a byte for each cluster and resample.) With `clip`, true and predicted values outside the
    target range are moved to its ends, and counted in `clipped`; otherwise they are refused.
    """

    def __init__(self, study: Study, rng: Randomness, *, clip: bool = False) -> None:
        self.study = study
        self.rows = 0
        self.clipped = 0
        self._clip = clip
        self._resampler = Resampler(study.replicates, rng)
        self._of_data, self._of_resamples = study.statistics(), study.resample_statistics()
        self._statistics: dict[Task, list[Statistic]] = {}
        for statistic in dict.fromkeys((*self._of_data, *self._of_resamples)):
            self._statistics.setdefault(statistic.task, []).append(statistic)
        self._counted: dict[tuple[Slice, Statistic], Integers] = {}
        self._cluster_rows: Counter[str] = Counter()
        self._sizes = GroupSizes(by_cluster=study.by_cluster)

    def add(self, table: Table) -> None:
        """Count a stretch of rows; an `InputError` names a bad value, and the tally is then of no use."""
        self._check_models(table)
        self._check_clusters(table)
        if self.study.hides_groups:
            self._sizes.add(table)
        for start in range(0, len(table), MOST_ROWS):
            self._add_block(table.rows(start, start + MOST_ROWS))
        self.rows += len(table)

    def contribution(self) -> Contribution:
        """The table, as `Batch` describes it: lines of slices and resamples, columns of statistics."""
        study, sizes = self.study, self._sizes.sizes
        declared = declaration(study.groups, sizes, study.minimum_group) if study.hides_groups else None
        data = [self._lines(where, self._of_data)[:1] for where in study.slices(study.groups)]
        resamples = [self._lines(where, self._of_resamples)[1:] for where in study.slices(study.groups)]
        if self._of_data == self._of_resamples:
            both = zip(data, resamples, strict=True)
            return Contribution(np.concatenate([each for lines in both for each in lines]), declared)
        return Contribution(np.concatenate([each.reshape(1, -1) for each in (*data, *resamples)], axis=1), declared)

    def _lines(self, where: Slice, statistics: Sequence[Statistic]) -> Integers:
        return np.concatenate(
            [self._concluded(where, each)[: self._lines_of(statistics)] for each in statistics], axis=1
        )

    def _lines_of(self, statistics: Sequence[Statistic]) -> int:
        """How many lines all of them have: the data's, or also those of their resamples."""
        return 1 + self.study.replicates if set(statistics) <= set(self._of_resamples) else 1

    def _concluded(self, where: Slice, statistic: Statistic) -> Integers:
        """What was counted or, of the party's own AUC, what follows from its histogram."""
        if not isinstance(statistic, OwnAuc):
            return self._sums(where, statistic)
        counted = (*self._of_data, *self._of_resamples)
        histogram = next(each for each in counted if isinstance(each, Histogram) and each.every == statistic.every)
        return statistic.of(self._sums(where, histogram))

    def _sums(self, where: Slice, statistic: Statistic) -> Integers:
        nothing = np.zeros((self._lines_of([statistic]), statistic.width), dtype=np.int64)
        return self._counted.setdefault((where, statistic), nothing)

    def _check_models(self, table: Table) -> None:
        wanted = len(self.study.classes) or 1
        for model in self.study.models:
            columns = table.scores.get(model, ())
            if len(columns) != wanted:
                raise ConfigError(
                    f"{table.labels.place.file or 'A party'} has {len(columns)} columns of scores for model {model!r} "
                    f"where the study needs {wanted}. Give one for each class, or one for labels 0 and 1."
                )

    def _check_clusters(self, table: Table) -> None:
        """Refuse a cluster of more rows than noise hides."""
        most = self.study.most_rows_per_cluster
        if most is None:
            return
        if table.clusters is None:
            raise ConfigError("Noise hides clusters of rows and a party has no cluster column. Name one.")
        self._cluster_rows.update(table.clusters.values.tolist())
        if max(self._cluster_rows.values(), default=0) > most:
            raise ConfigError(
                f"A cluster has more than {most} rows, and the study's noise hides {most}. "
                "Leave rows out, or raise most_rows_per_cluster if all parties agree."
            )

    def _add_block(self, block: Table) -> None:
        weights = self._resampler.weigh(block, by_cluster=self.study.by_cluster)
        groups = self._groups(block)
        for task, statistics in self._statistics.items():
            for model, label, rows in self._views(block, task):
                for group, chosen in groups.items():
                    part = rows if chosen is None else rows.at(chosen)
                    part_weights = weights if chosen is None else weights[:, chosen]
                    self._tally(Slice(model, label, group), statistics, part, part_weights)

    def _tally(self, where: Slice, statistics: Iterable[Statistic], rows: Rows, weights: Weights) -> None:
        for statistic in statistics:
            sums = self._sums(where, statistic)
            sums += statistic.tally(rows, weights[: len(sums)])

    def _groups(self, block: Table) -> dict[str | None, NDArray[np.intp] | None]:
        chosen: dict[str | None, NDArray[np.intp] | None] = {None: None}
        if self.study.groups:
            if block.groups is None:
                raise ConfigError(f"A party has no column {self.study.group_column!r} to group by. Name one.")
            for group in self.study.groups:
                chosen[group] = np.flatnonzero(block.groups.values == group)
        return chosen

    def _views(self, block: Table, task: Task) -> Iterator[tuple[str, str | None, Rows]]:
        if task == "binary":
            yield from binary_rows(block, self.study)
            return
        for model in self.study.models:
            columns = block.scores[model]
            if task == "values":
                values = self._values(block, columns[0])
                yield model, None, Rows(np.zeros(len(values), dtype=np.uint8), values)
            elif task == "survival":
                times = self._values(block, block.labels, signed=True)
                yield model, None, Rows(times, binary_scores(block, columns[0], self.study))
            else:
                yield model, None, Rows(*(self._values(block, each) for each in (block.labels, columns[0])))

    def _values(self, block: Table, column: Column, *, signed: bool = False) -> NDArray[np.float64]:
        """A column's values within the target range; others are moved to its ends or refused.

        Values that are `signed` lie within the range but for their sign, as times do that have a minus for no event.
        """
        low, high = self.study.target_range or (0.0, 1.0)
        if column.values.dtype.kind not in "biuf" and len(block):
            raise block.refuse(column, 0, f"{column.values[0]!r} is not a number")
        written = column.values.astype(np.float64)
        values = np.abs(written) if signed else written
        if self._clip:
            self.clipped += int(np.count_nonzero((values < low) | (values > high)))
            values = np.clip(values, low, high)
        bad = first_bad_score(values, (low, high))
        if bad is not None:
            raise block.refuse(column, bad, f"the value {values[bad]} is outside the target range [{low:g}, {high:g}]")
        return np.copysign(values, written) if signed else values


def tally_party(study: Study, tables: Iterable[Table], rng: Randomness, *, clip: bool = False) -> PartyTally:
    """Count a party's tables one at a time, the study's groups by themselves as well.

    `rng` draws the weights of its resamples; for `clip` see `PartyTally`.
    """
    tally = PartyTally(study, rng, clip=clip)
    for table in tables:
        tally.add(table)
    return tally


def binary_rows(table: Table, study: Study) -> Iterator[tuple[str, str | None, Rows]]:
    """Labels 0 and 1 and scores of each model and, where there are classes, of each class against the rest."""
    for model in study.models:
        columns = table.scores[model]
        if not study.classes:
            yield model, None, Rows(binary_labels(table), binary_scores(table, columns[0], study))
            continue
        numbers = class_numbers(table, study.classes)
        for number, label in enumerate(study.classes):
            labels = (numbers == number).astype(np.uint8)
            yield model, label, Rows(labels, binary_scores(table, columns[number], study))


def binary_labels(table: Table) -> NDArray[np.uint8]:
    """Labels 0 and 1; anything else is refused."""
    column = table.labels
    if column.values.dtype.kind not in "biuf" and len(table):
        raise table.refuse(
            column,
            0,
            f"the label {str(column.values[0])!r} is neither 0 nor 1; say which is positive, or name the classes",
        )
    bad = first_bad_label(column.values)
    if bad is not None:
        raise table.refuse(column, bad, f"the label {column.values[bad]} is neither 0 nor 1")
    return column.values.astype(np.uint8)


def class_numbers(table: Table, classes: tuple[str, ...]) -> NDArray[np.intp]:
    """The position of each label among the classes; a label that is none of them is refused."""
    names = _as_text(table.labels.values)
    numbers = np.full(len(table), -1, dtype=np.intp)
    for number, name in enumerate(classes):
        numbers[names == name] = number
    if (numbers < 0).any():
        bad = int(np.argmin(numbers))
        raise table.refuse(table.labels, bad, f"the label {str(names[bad])!r} is none of the classes")
    return numbers


def binary_scores(table: Table, column: Column, study: Study) -> NDArray[np.float64]:
    """Scores that the grid accepts; anything else is refused."""
    scores = column.values.astype(np.float64)
    bad = first_bad_score(scores, study.grid.score_range)
    if bad is not None:
        wanted = "[0, 1]" if study.grid.scores == "probability" else "the finite numbers"
        hint = "; the scores look like percentages" if look_like_percentages(scores) else ""
        raise table.refuse(column, bad, f"the score {scores[bad]} is outside {wanted}{hint}")
    return scores


def _as_text(labels: NDArray[np.generic]) -> NDArray[np.str_]:
    """Labels as they are written in a list of classes: whole numbers without a point."""
    if labels.dtype.kind in "biuf":
        numbers = labels.astype(np.float64).tolist()
        return np.asarray([str(int(n)) if n.is_integer() else str(n) for n in numbers], dtype=np.str_)
    return labels.astype(np.str_)
