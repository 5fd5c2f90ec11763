"""The model and the data: logistic regression in NumPy, on rows that every party draws for itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEATURES = 8
ROWS = 400


def load_data(partition: int) -> tuple[Floats, NDArray[np.int64], Floats, NDArray[np.int64]]:
    """A party's rows, for training and for evaluation; parties differ in how common the outcome is."""
    rng = np.random.default_rng(partition)
    truth = np.random.default_rng(1234).normal(0, 1, FEATURES)
    x = rng.normal(0, 1, (2 * ROWS, FEATURES))
    y = (rng.random(2 * ROWS) < predict(truth, x - 0.1 * (partition % 5))).astype(np.int64)
    return x[:ROWS], y[:ROWS], x[ROWS:], y[ROWS:]


def predict(weights: Floats, x: Floats) -> Floats:
    """Probabilities."""
    return np.asarray(1 / (1 + np.exp(-x @ weights)))


def train(weights: Floats, x: Floats, y: NDArray[np.int64], steps: int = 5, rate: float = 0.3) -> Floats:
    """A few steps of gradient descent."""
    for _ in range(steps):
        weights = weights - rate * x.T @ (predict(weights, x) - y) / len(y)
    return weights
