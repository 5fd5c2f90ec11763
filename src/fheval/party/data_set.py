"""A party's data as a vault uses it: one file, counted for the studies that its operator accepted.

The file is read in chunks, so that its size does not matter. It is told from an older one by its size and times. It may
be the file of a query, whose database is then asked when a study is accepted and whenever the file has been touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fheval.counting import TableFile, TableSource
from fheval.databases import QUERY_ENDING, read_query
from fheval.errors import InputError
from fheval.evaluation.run import Share, count_share
from fheval.party.columns import StudyColumns
from fheval.secrets import Randomness
from fheval.study import Study

# Device, inode, size, and the times of the last change of content and of the file's record.
Version = tuple[int, int, int, int, int]


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

    def _rows(self, own: Study) -> TableSource:
        columns = self.columns.of(own)
        if self.path.suffix == QUERY_ENDING:
            return read_query(self.path).table(columns)
        return TableFile(self.path, columns)
