"""A party's file as tables: several models, classes, groups and clusters, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fheval.counting.columns import LABEL_NAMES, SCORE_NAMES, ColumnChunk, Wanted
from fheval.counting.readers import FilePath, read_columns
from fheval.counting.table import UNNAMED, Table
from fheval.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The columns that a table is read from.

    Each of `models` names a column of scores; with `classes` it names one for each, `model_class`. Without models
    there is one, unnamed, in the column `score`, else `s`.
    """

    label: str | None = None
    models: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    group: str | None = None
    cluster: str | None = None

    def wanted(self) -> list[Wanted]:
        """Labels, then the scores of every model and class, then groups and clusters."""
        labels = LABEL_NAMES if self.label is None else (self.label,)
        return [
            Wanted(labels, "text" if self.classes else "label", "label"),
            *(Wanted(self._names(model, cls), "score", "score") for model in self._models() for cls in self._classes()),
            *(
                Wanted((name,), "text", noun)
                for name, noun in ((self.group, "group"), (self.cluster, "cluster"))
                if name
            ),
        ]

    def table(self, chunk: ColumnChunk) -> Table:
        """Put the columns of `wanted` together again."""
        columns = iter(chunk.columns)
        return Table(
            labels=next(columns),
            scores={model: tuple(next(columns) for _ in self._classes()) for model in self._models()},
            groups=next(columns) if self.group else None,
            clusters=next(columns) if self.cluster else None,
            first_row=chunk.first_row,
            first_line=chunk.first_line,
        )

    def _models(self) -> tuple[str, ...]:
        return self.models or (UNNAMED,)

    def _classes(self) -> tuple[str | None, ...]:
        return self.classes or (None,)

    @staticmethod
    def _names(model: str, label: str | None) -> tuple[str, ...]:
        names = (model,) if model else SCORE_NAMES
        return names if label is None else tuple(f"{name}_{label}" for name in names)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file whose rows can be gone through more than once, a bounded stretch at a time."""

    path: FilePath
    columns: TableColumns

    def __iter__(self) -> Iterator[Table]:
        rows = 0
        for chunk in read_columns(self.path, self.columns.wanted()):
            table = self.columns.table(chunk)
            rows += len(table)
            yield table
        if not rows:
            raise InputError(f"{self.path}: there are no rows. Give at least one label and score.")
