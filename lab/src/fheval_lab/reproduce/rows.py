"""Rows: what every experiment comes down to, for JSON, CSV and the page."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from io import StringIO
from math import isfinite
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number beside the printed one.

    `size` is the number of samples, or of den in the experiment on division; `std` the standard deviation over
    repetitions; a value of None was tried and came to nothing, and `note` says why.
    """

    data: str | None = None
    size: int | None = None
    decision_points: int | None = None
    column: str
    value: float | None
    std: float | None = None
    printed: float | None = None
    printed_std: float | None = None
    parties: int | None = None
    unit: str = "AUC"
    note: str | None = None

    def __post_init__(self) -> None:
        for name in ("value", "std"):
            number = getattr(self, name)
            if number is not None and not isfinite(number):
                raise ValueError(f"{name} of {self.column} is {number}, which JSON cannot say.")

    @property
    def difference(self) -> float | None:
        """Ours minus the printed value, where there are both."""
        return None if self.value is None or self.printed is None else self.value - self.printed


def as_json(rows: Sequence[Row], **others: Any) -> str:
    """One JSON object with the rows, and what is to be known about them."""
    return json.dumps({"rows": [asdict(row) for row in rows], **others}, indent=1, allow_nan=False) + "\n"


def as_csv(rows: Sequence[Row]) -> str:
    """The rows under a header; nothing stands for None."""
    text = StringIO()
    writer = csv.DictWriter(text, [each.name for each in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, rows))
    return text.getvalue()
