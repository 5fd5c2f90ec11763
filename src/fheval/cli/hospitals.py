"""The demo's data: five hospitals of unequal size, and a model that tells malignant from benign tumours.

`hospitals.csv` lies beside this module. It has labels of the Breast Cancer Wisconsin (Diagnostic) data, which ship with
scikit-learn, and the scores of a model that was fitted on other samples of them; `fheval_lab.demo_data` makes it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True, slots=True)
class Hospital:
    """One party of the demo: labels, 1 for malignant, and the model's scores."""

    name: str
    labels: NDArray[np.int64] = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)

    @property
    def samples(self) -> int:
        """How many samples it has."""
        return len(self.labels)

    @property
    def malignant(self) -> int:
        """How many of them are malignant."""
        return int(self.labels.sum())


def hospitals() -> list[Hospital]:
    """Read the five hospitals."""
    samples: dict[str, list[tuple[int, float]]] = {}
    with FILE.open(encoding="ascii", newline="") as file:
        for row in csv.DictReader(file):
            samples.setdefault(row["hospital"], []).append((int(row["label"]), float(row["score"])))
    return [
        Hospital(name, np.array([label for label, _ in own]), np.array([score for _, score in own]))
        for name, own in samples.items()
    ]


def pooled_auc(parties: Sequence[Hospital]) -> float:
    """The exact AUC of everybody's samples in one place: how often a malignant one has the higher score, ties half.

    >>> here = Hospital("A", np.array([1, 0]), np.array([0.9, 0.4]))
    >>> there = Hospital("B", np.array([0]), np.array([0.9]))
    >>> pooled_auc([here, there])
    0.75
    """
    labels = np.concatenate([each.labels for each in parties])
    scores = np.concatenate([each.scores for each in parties])
    malignant, benign = scores[labels == 1], np.sort(scores[labels == 0])
    below = np.searchsorted(benign, malignant, side="left")
    not_above = np.searchsorted(benign, malignant, side="right")
    # A pair in order is counted twice, a tie once.
    return int((below + not_above).sum()) / (2 * len(malignant) * len(benign))
