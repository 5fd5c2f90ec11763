"""A convolutional network of 13 layers, and faces: CelebA's, or ones drawn by a program.

Ten convolutions in five stages and three dense layers, as in VGG-13, with fewer channels. The label is one attribute,
"Smiling".
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

import fheval.flower

SIZE = 32
STAGES = (8, 16, 32, 32, 64)
DENSE = (64, 32, 1)
IMAGES = 300  # of each party, for training and again for evaluation
ATTRIBUTE = "Smiling"
BATCH, EPOCHS, RATE = 20, 4, 1e-3

TRIAL = fheval.flower.trial(metrics="auc", ci=0.95, replicates=50, decision_points=400)

Weights = list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Images with three channels, values around 0, and whether each has the attribute."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def load_party(context: Context, *, training: bool) -> Rows:
    """The images of the party that a simulated SuperNode stands for."""
    node = context.node_config
    return load(
        str(context.run_config["data"]), int(node["partition-id"]), int(node["num-partitions"]), training=training
    )


def load(data: str, party: int, parties: int, *, training: bool) -> Rows:
    """A party's share of CelebA's folder, if `data` names it; images drawn on the spot otherwise.

    The folder has `img_align_celeba/` and `list_attr_celeba.csv` (Kaggle) or `.txt` (the original). Parties take turns
    at the images, and the first half of a party's is for training.
    """
    half = slice(0, IMAGES) if training else slice(IMAGES, 2 * IMAGES)
    if not data:
        return _drawn(party, half)
    chosen = list(islice(_attributes(Path(data)).items(), party, 2 * IMAGES * parties, parties))[half]
    images = np.stack([_image(Path(data) / "img_align_celeba" / name) for name, _ in chosen])
    return Rows(images, np.array([label for _, label in chosen]))


def _attributes(folder: Path) -> dict[str, int]:
    """The label of each image, from either form of the attribute file; 1 is there, −1 is not."""
    table = folder / "list_attr_celeba.csv"
    if table.exists():
        with table.open(newline="", encoding="utf-8") as file:
            return {row["image_id"]: int(row[ATTRIBUTE] == "1") for row in csv.DictReader(file)}
    with (folder / "list_attr_celeba.txt").open(encoding="utf-8") as file:
        next(file)  # the number of images
        column = 1 + next(file).split().index(ATTRIBUTE)
        return {fields[0]: int(fields[column] == "1") for fields in map(str.split, file)}


def _image(path: Path) -> NDArray[np.float32]:
    from PIL import Image

    with Image.open(path) as image:
        small = image.convert("RGB").resize((SIZE, SIZE))
    return np.asarray(small, dtype=np.float32) / 127.5 - 1


def _drawn(party: int, half: slice) -> Rows:
    """Faces: a disc on a ground, two eyes, and a mouth that bends up or, where nobody smiles, down; and noise."""
    rng = np.random.default_rng(100 + party)
    labels = rng.integers(0, 2, 2 * IMAGES)
    down, across = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    images = np.empty((2 * IMAGES, SIZE, SIZE, 3), dtype=np.float32)
    for number, smiles in enumerate(labels):
        row, column, radius = 16 + rng.normal(0, 1.5), 16 + rng.normal(0, 1.5), rng.uniform(10, 13)
        ground, skin, dark = rng.uniform(-1, 1, 3), rng.uniform(-0.2, 0.8, 3), rng.uniform(-1, -0.4, 3)
        picture = np.where(((down - row) ** 2 + (across - column) ** 2 < radius**2)[..., None], skin, ground)
        bend = rng.normal(0.55 if smiles else -0.35, 0.35)
        mouth = row + 5 + bend * (2 - ((across - column) / 3) ** 2)
        lips = (np.abs(down - mouth) < 1.1) & (np.abs(across - column) < 6)
        eyes = sum((down - row + 4) ** 2 + (across - column - side) ** 2 < 3 for side in (-4, 4)) > 0
        images[number] = np.where((lips | eyes)[..., None], dark, picture) + rng.normal(0, 0.25, picture.shape)
    return Rows(images[half], labels[half])


def first_weights() -> Weights:
    """Kernel and bias of each of the ten convolutions, then matrix and bias of each of the three dense layers."""
    rng = np.random.default_rng(7)
    made: Weights = []
    before = 3
    for channels in STAGES:
        for _ in range(2):
            spread = (2 / (9 * before)) ** 0.5
            made += [rng.normal(0, spread, (3, 3, before, channels)).astype(np.float32), np.zeros(channels, np.float32)]
            before = channels
    for units in DENSE:
        made += [rng.normal(0, (2 / before) ** 0.5, (before, units)).astype(np.float32), np.zeros(units, np.float32)]
        before = units
    return made


def _logits(weights: list[jax.Array], x: jax.Array) -> jax.Array:
    layers = iter(weights)
    for _ in STAGES:
        for _ in range(2):
            kernel, bias = next(layers), next(layers)
            x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x + bias)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    for number in range(len(DENSE)):
        x = x @ next(layers) + next(layers)
        if number + 1 < len(DENSE):
            x = jax.nn.relu(x)
    return x[:, 0]


def _loss(weights: list[jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
    logits = _logits(weights, images)
    return jnp.mean(jnp.logaddexp(0.0, logits) - labels * logits)


_step = jax.jit(jax.value_and_grad(_loss))
_forward = jax.jit(_logits)


def train(weights: Weights, rows: Rows) -> tuple[Weights, float]:
    """Adam; returns the weights and the last epoch's mean loss."""
    now = [jnp.asarray(each) for each in weights]
    mean, square = [jnp.zeros_like(each) for each in now], [jnp.zeros_like(each) for each in now]
    rng, step = np.random.default_rng(0), 0
    for _ in range(EPOCHS):
        order, losses = rng.permutation(len(rows)), []
        for start in range(0, len(rows) - BATCH + 1, BATCH):
            batch, step = order[start : start + BATCH], step + 1
            loss, slopes = _step(now, rows.images[batch], rows.labels[batch])
            mean = [0.9 * m + 0.1 * g for m, g in zip(mean, slopes, strict=True)]
            square = [0.999 * q + 0.001 * g**2 for q, g in zip(square, slopes, strict=True)]
            scale = RATE * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
            now = [w - scale * m / (jnp.sqrt(q) + 1e-8) for w, m, q in zip(now, mean, square, strict=True)]
            losses.append(float(loss))
    return [np.asarray(each) for each in now], float(np.mean(losses))


def predict(weights: Weights, rows: Rows) -> NDArray[np.float64]:
    """The probability of the attribute."""
    logits = _forward([jnp.asarray(each) for each in weights], rows.images)
    return 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64)))


def pooled_auc(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
    """The AUC of all images in one place, by ranks; ties count half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = int(labels.sum())
    return float((ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))
