"""The demo's data: the breast-cancer set that ships with scikit-learn, at five hospitals of unequal size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# Of the 342 samples that the model was not fitted on, hospital E has malignant ones only.
MALIGNANT_ONLY = 24
OTHER_SIZES = (140, 90, 56, 32)

_TEST_SHARE = 0.6
_SPLIT_SEED = 0


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
    """Fit a model on held-out samples and deal the others out to five hospitals, always in the same way."""
    labels, scores = _scored()
    positions = np.arange(len(labels))
    special = positions[labels == 1][:MALIGNANT_ONLY]
    others = np.setdiff1d(positions, special)
    shares = [*np.split(others, np.cumsum(OTHER_SIZES)[:-1]), special]
    return [Hospital(name, labels[share], scores[share]) for name, share in zip("ABCDE", shares, strict=True)]


def _scored() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    features, benign = load_breast_cancer(return_X_y=True)
    malignant = 1 - benign
    held_out, features, held_out_labels, labels = train_test_split(
        features, malignant, test_size=_TEST_SHARE, stratify=malignant, random_state=_SPLIT_SEED
    )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(held_out, held_out_labels)
    return labels, model.predict_proba(features)[:, 1]
