"""Labels and scores on their way from an app to its party's vault: one file for each study, replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex

import numpy as np
from numpy.typing import ArrayLike

from fheval.counting.chunks import chunk_of_arrays

# The vault, which may be of another user, reads what is deposited; so the folder's group may, and nobody else.
_MODE = 0o640


def write_scores(path: Path, y_true: ArrayLike, y_score: ArrayLike) -> None:
    """Write two columns, labels then scores; a reader sees the older file or this one, never a part."""
    chunk = chunk_of_arrays(np.asarray(y_true).ravel(), np.asarray(y_score).ravel(), source="The deposit")
    chunk.check(chunk.scores.astype(np.float64), (-np.finfo(np.float64).max, float(np.finfo(np.float64).max)))
    aside = path.with_name(f".{path.name}.{token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.save(file, np.stack([chunk.labels.astype(np.float64), chunk.scores.astype(np.float64)], axis=1))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
