"""A deep learning recommendation model (DLRM) and Criteo's rows: 13 numbers and 26 categories for each impression.

Embeddings of the categories and a bottom network over the numbers give 27 vectors; their dot products and the bottom
network's output go through a top network to the logit of a click.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

import fheval.flower

NUMBERS, CATEGORIES = 13, 26
BUCKETS, WIDTH = 500, 8
BOTTOM, TOP = (NUMBERS, 32, WIDTH), ((CATEGORIES + 1) * CATEGORIES // 2 + WIDTH, 64, 1)
ROWS = 2000  # of each party, for training and again for evaluation
BATCH, EPOCHS, RATE = 100, 1, 0.05

TRIAL = fheval.flower.trial(metrics="auc", ci=0.95, replicates=50, decision_points=400)

Weights = list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Impressions: numbers, categories as buckets, and whether they were clicked."""

    numbers: NDArray[np.float32]
    buckets: NDArray[np.int32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def load_party(context: Context, *, training: bool) -> Rows:
    """The rows of the party that a simulated SuperNode stands for."""
    node = context.node_config
    return load(
        str(context.run_config["data"]), int(node["partition-id"]), int(node["num-partitions"]), training=training
    )


def load(data: str, party: int, parties: int, *, training: bool) -> Rows:
    """A party's share of Kaggle's `train.txt`, if `data` names it; rows made on the spot otherwise.

    Parties take turns at the file's lines, and the first half of a party's rows is for training.
    """
    rows = _read(Path(data), party, parties) if data else _made(party)
    half = slice(0, ROWS) if training else slice(ROWS, 2 * ROWS)
    return Rows(rows.numbers[half], rows.buckets[half], rows.labels[half])


def _read(path: Path, party: int, parties: int) -> Rows:
    """Tab-separated: a label, 13 whole numbers, 26 hexadecimal words; any but the label may be missing."""

    def lines() -> Iterator[list[str]]:
        with path.open(encoding="ascii") as file:
            for line in islice(file, party, 2 * ROWS * parties, parties):
                yield line.rstrip("\n").split("\t")

    fields = list(lines())
    numbers = np.array([[float(each or 0) for each in row[1 : 1 + NUMBERS]] for row in fields])
    buckets = [[_bucket(column, word) for column, word in enumerate(row[1 + NUMBERS :])] for row in fields]
    labels = np.array([int(row[0]) for row in fields])
    return Rows(_squeezed(numbers), np.array(buckets, dtype=np.int32), labels)


def _bucket(column: int, word: str) -> int:
    return zlib.crc32(f"{column}:{word}".encode()) % BUCKETS


def _squeezed(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.log1p(np.maximum(numbers, 0)).astype(np.float32)


def _made(party: int) -> Rows:
    """Rows of the same shape, whose clicks depend on some numbers, on categories, and on pairs of these."""
    truth = np.random.default_rng(0)
    weights, taste = truth.normal(0, 0.6, NUMBERS), truth.normal(0, 1.0, (4, BUCKETS))
    rng = np.random.default_rng(1 + party)
    numbers = rng.lognormal(0, 1, (2 * ROWS, NUMBERS))
    buckets = (BUCKETS * rng.random((2 * ROWS, CATEGORIES)) ** 4).astype(np.int32)
    logit = _squeezed(numbers) @ weights + sum(taste[column][buckets[:, column]] for column in range(3))
    logit += taste[3][buckets[:, 3]] * taste[0][buckets[:, 0]] - 1.0
    return Rows(_squeezed(numbers), buckets, (rng.random(2 * ROWS) < 1 / (1 + np.exp(-logit))).astype(np.int64))


def first_weights() -> Weights:
    """Embeddings, then matrix and bias of each layer, bottom network first."""
    rng = np.random.default_rng(7)
    made: Weights = [rng.normal(0, 0.1, (CATEGORIES, BUCKETS, WIDTH)).astype(np.float32)]
    for sizes in (BOTTOM, TOP):
        for wide, narrow in pairwise(sizes):
            made += [rng.normal(0, (2 / wide) ** 0.5, (wide, narrow)).astype(np.float32), np.zeros(narrow, np.float32)]
    return made


def _logits(weights: list[jax.Array], numbers: jax.Array, buckets: jax.Array) -> jax.Array:
    embeddings, *layers = weights
    depth = 2 * (len(BOTTOM) - 1)
    dense = _network(layers[:depth], numbers)
    vectors = jnp.concatenate([dense[:, None], embeddings[jnp.arange(CATEGORIES), buckets]], axis=1)
    products = jnp.einsum("nij,nkj->nik", vectors, vectors)
    first, second = jnp.triu_indices(CATEGORIES + 1, k=1)
    return _network(layers[depth:], jnp.concatenate([dense, products[:, first, second]], axis=1))[:, 0]


def _network(layers: list[jax.Array], x: jax.Array) -> jax.Array:
    for number in range(0, len(layers), 2):
        x = x @ layers[number] + layers[number + 1]
        if number + 2 < len(layers):
            x = jax.nn.relu(x)
    return x


def _loss(weights: list[jax.Array], numbers: jax.Array, buckets: jax.Array, labels: jax.Array) -> jax.Array:
    logits = _logits(weights, numbers, buckets)
    return jnp.mean(jnp.logaddexp(0.0, logits) - labels * logits)


_step = jax.jit(jax.value_and_grad(_loss))
_forward = jax.jit(_logits)


def train(weights: Weights, rows: Rows) -> tuple[Weights, float]:
    """Adagrad, as DLRMs are usually trained; returns the weights and the last epoch's mean loss."""
    now, squares = [jnp.asarray(each) for each in weights], [jnp.full_like(each, 1e-4) for each in weights]
    rng = np.random.default_rng(0)
    for _ in range(EPOCHS):
        order, losses = rng.permutation(len(rows)), []
        for start in range(0, len(rows) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            loss, slopes = _step(now, rows.numbers[batch], rows.buckets[batch], rows.labels[batch])
            squares = [old + slope**2 for old, slope in zip(squares, slopes, strict=True)]
            now = [w - RATE * g / jnp.sqrt(q) for w, g, q in zip(now, slopes, squares, strict=True)]
            losses.append(float(loss))
    return [np.asarray(each) for each in now], float(np.mean(losses))


def predict(weights: Weights, rows: Rows) -> NDArray[np.float64]:
    """The probability of a click."""
    logits = _forward([jnp.asarray(each) for each in weights], rows.numbers, rows.buckets)
    return 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64)))


def pooled_auc(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
    """The AUC of all rows in one place, by ranks; ties count half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = int(labels.sum())
    return float((ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))
