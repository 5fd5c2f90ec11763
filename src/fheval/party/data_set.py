"""A party's data as a vault uses it: one file, counted for the studies that its operator accepted.

The file is read in chunks, so that its size does not matter. It is told from an older one by its size and times. It may
be the file of a query, whose database is then asked when a study is accepted and whenever the file has been touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fheval.counting import Grid, TableFile, TableSource
from fheval.counting.counts import binning_error
from fheval.databases import QUERY_ENDING, read_query
from fheval.errors import InputError
from fheval.evaluation.run import Share, count_share
from fheval.evaluation.tally import binary_rows
from fheval.metrics.statistics import Rows
from fheval.party.columns import StudyColumns
from fheval.secrets import Randomness
from fheval.study import Study

# Device, inode, size, and the times of the last change of content and of the file's record.
Version = tuple[int, int, int, int, int]


# An exact AUC sorts all scores; a million tell well enough whether decision points fit them.
MOST_ROWS_LOOKED_AT = 1_000_000


@dataclass(frozen=True, slots=True)
class DataSet:
    """The file that a study is answered from, and what of it."""

    path: Path
    columns: StudyColumns = field(default_factory=StudyColumns)

    def version(self) -> Version:
        try:
            facts = self.path.stat()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(
                f"{self.path}: cannot be opened ({reason}). Check the path and its permissions."
            ) from error
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns

    def count(self, study: Study, rng: Randomness) -> Share:
        """Count the file for a study; `rng` draws the weights of resamples. Targets outside their range are clipped."""
        before = self.version()
        own = self.columns.translate(study)
        share = count_share(own, self._rows(own), str(self.path), rng, clip=True)
        if self.version() != before:
            raise InputError(f"{self.path}: the file changed while it was read. Put new data beside it, then move it.")
        return share

    def binning(self, study: Study) -> float | None:
        """How far the study's decision points take the AUC of these rows from its exact value, for their owner's eyes.

        It is the largest over models and classes, of the first million rows. None where no AUC is asked for.
        """
        if not any(spec.metric.binning for spec in study.specs):
            return None
        own = self.columns.translate(study)
        seen: dict[tuple[str, str | None], list[Rows]] = {}
        left = MOST_ROWS_LOOKED_AT
        for table in self._rows(own):
            for model, label, rows in binary_rows(table.rows(0, left), own):
                seen.setdefault((model, label), []).append(rows)
            left -= len(table)
            if left <= 0:
                break
        return max((_binning_of(rows, own.grid) for rows in seen.values()), default=0.0)

    def _rows(self, own: Study) -> TableSource:
        columns = self.columns.of(own)
        if self.path.suffix == QUERY_ENDING:
            return read_query(self.path).table(columns)
        return TableFile(self.path, columns)


def _binning_of(rows: list[Rows], grid: Grid) -> float:
    labels, scores = (np.concatenate([getattr(each, name) for each in rows]) for name in ("labels", "scores"))
    return binning_error(labels, scores, grid)
