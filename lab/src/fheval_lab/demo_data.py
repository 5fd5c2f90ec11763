"""Makes the data of `fheval demo`: a model's scores of tumours, at five hospitals of unequal size.

From the top of the repository: `python -m fheval_lab.demo_data > src/fheval/cli/demo.csv`
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# Of the 342 samples that the model was not fitted on, hospital E has malignant ones only.
MALIGNANT_ONLY = 24
OTHER_SIZES = (140, 90, 56, 32)

# With so many significant digits, the exact AUC and that at any number of decision points up to 2,000 are the same as
# with all of them.
DIGITS = 6


def lines() -> Iterator[str]:
    """The lines of the file: a heading, then one for each sample."""
    labels, scores = _scored()
    yield "hospital,label,score"
    for name, share in zip("ABCDE", _shares(labels), strict=True):
        for label, score in zip(labels[share].tolist(), scores[share].tolist(), strict=True):
            yield f"{name},{label},{score:.{DIGITS}g}"


def _shares(labels: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Which samples each hospital has."""
    positions = np.arange(len(labels))
    special = positions[labels == 1][:MALIGNANT_ONLY]
    others = np.setdiff1d(positions, special)
    return [*np.split(others, np.cumsum(OTHER_SIZES)[:-1]), special]


def _scored() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fit a model on two fifths of scikit-learn's breast-cancer data; labels (1: malignant) and scores of the rest."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features, benign = load_breast_cancer(return_X_y=True)
    malignant = 1 - benign
    fitted_on, features, fitted_labels, labels = train_test_split(
        features, malignant, test_size=0.6, stratify=malignant, random_state=0
    )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(fitted_on, fitted_labels)
    return labels, model.predict_proba(features)[:, 1]


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
