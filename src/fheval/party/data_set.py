"""A party's data as a vault uses it: one file, counted for a study when a round asks, and recognised by its content.

The file is read in chunks, so that its size does not matter, and read again only when it has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fheval.counting import TableFile
from fheval.errors import InputError
from fheval.evaluation.run import Share, count_share
from fheval.party.columns import AllowedColumns
from fheval.secrets import Randomness
from fheval.study import Study

# Most consortia run the same few studies again and again.
_KEPT_COUNTS = 8

_PIECE = 1 << 20

# Device, inode, size, and the times of the last change of content and of the file's record.
_Version = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A party's share of one study, and the data set that it comes from."""

    data_set: str
    share: Share = field(repr=False)


class DataSet:
    """The file that a vault answers from, and what of it."""

    def __init__(self, path: Path, columns: AllowedColumns | None = None) -> None:
        self.path = path
        self.columns = columns or AllowedColumns()
        self._version: _Version | None = None
        self._fingerprint = ""
        self._counts: OrderedDict[bytes, Counted] = OrderedDict()

    def check(self) -> None:
        """Refuse a file that cannot be read at all, or lacks a column that is allowed, before any round asks."""
        for table in TableFile(self.path, self.columns.everything()):
            if len(table):
                return

    def fingerprint(self) -> str:
        """The SHA-256 of the file: data sets are told apart by content, not by name or column."""
        version = self._look()
        if version != self._version:
            self._counts.clear()
            self._fingerprint = self._hashed()
            self._require_unchanged(version)
            self._version = version
        return self._fingerprint

    def count(self, study: Study, rng: Randomness) -> Counted:
        """Count the file for a study that its columns allow; `rng` draws the weights of resamples."""
        data_set, key = self.fingerprint(), study.hash()
        if key in self._counts:
            self._counts.move_to_end(key)
            return self._counts[key]
        own = self.columns.translate(study)
        share = count_share(own, (), TableFile(self.path, self.columns.of(own)), str(self.path), rng)
        if self._version is not None:
            self._require_unchanged(self._version)
        counted = Counted(data_set=data_set, share=share)
        # Resamples are drawn anew for each round: the same ones twice would say more than two.
        if not study.replicates:
            self._counts[key] = counted
            if len(self._counts) > _KEPT_COUNTS:
                self._counts.popitem(last=False)
        return counted

    def _look(self) -> _Version:
        try:
            facts = self.path.stat()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(
                f"{self.path}: cannot be opened ({reason}). Check the path and its permissions."
            ) from error
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns

    def _hashed(self) -> str:
        content = sha256()
        with self.path.open("rb") as file:
            while piece := file.read(_PIECE):
                content.update(piece)
        return content.hexdigest()

    def _require_unchanged(self, version: _Version) -> None:
        if self._look() != version:
            raise InputError(f"{self.path}: the file changed while it was read. Put new data beside it, then move it.")
