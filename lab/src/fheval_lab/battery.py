"""Score distributions on which grids of decision points are measured: what real models give, and what people do to it.

Models are fitted to generated data of every prevalence; what they say of other rows is the distribution, as it is or
transformed: uncalibrated, saturated, rounded, narrowed to float32, divided by a hundred, shifted from site to site. The
default grid was chosen on those that are not `held_out`.

`python -m fheval_lab.battery` prints the table of docs/grids.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fheval.counting import Counts, Grid

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

PREVALENCES = (0.001, 0.01, 0.1, 0.3, 0.5)

# Rows that a model is fitted on, and as many again that it scores; enough for a hundred positives of a rare outcome.
ROWS = 20_000
ROWS_OF_RARE = 100_000

SITES = 10


@dataclass(frozen=True, slots=True)
class Distribution:
    """Labels and scores under a name; scores are probabilities, or numbers on the scale of logits."""

    name: str
    make: Callable[[], tuple[Labels, NDArray[Any]]]
    scale: Literal["probability", "logit"] = "probability"
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """How far counting at a grid's points takes the AUC of a distribution from its exact value, and the bound δ."""

    exact: float
    binned: float
    bound: float

    @property
    def error(self) -> float:
        return abs(self.binned - self.exact)


def measure(labels: Labels, scores: NDArray[Any], grid: Grid) -> Measured:
    """Count at the grid's points, and compare with every pair of samples."""
    counts = Counts.from_scores(labels, scores, grid)
    positives, negatives = np.diff(counts.tp).astype(float), np.diff(counts.fp).astype(float)
    bound = float(positives @ negatives) / counts.denominator()
    return Measured(float(roc_auc_score(labels, scores)), counts.auc(), bound)


def _models() -> dict[str, Callable[[], Any]]:
    return {
        "logistic": lambda: LogisticRegression(max_iter=500),
        "boosted trees": lambda: HistGradientBoostingClassifier(random_state=0),
        "network": lambda: make_pipeline(
            StandardScaler(), MLPClassifier((32,), max_iter=12, learning_rate_init=0.003, random_state=0)
        ),
        "balanced logistic": lambda: LogisticRegression(max_iter=500, class_weight="balanced"),
        "balanced trees": lambda: HistGradientBoostingClassifier(class_weight="balanced", random_state=0),
        "naive Bayes": GaussianNB,
        "small tree": lambda: DecisionTreeClassifier(max_leaf_nodes=12, random_state=0),
        "forest": lambda: ExtraTreesClassifier(50, min_samples_leaf=5, random_state=0, n_jobs=1),
        "neighbours": lambda: KNeighborsClassifier(25),
    }


@lru_cache(maxsize=1)
def _rows(prevalence: float, seed: int) -> tuple[Floats, Labels]:
    rows = 2 * (ROWS_OF_RARE if prevalence < 0.005 else ROWS)
    features, labels = make_classification(
        rows, 20, n_informative=5, weights=[1 - prevalence], flip_y=0.0, class_sep=0.6, random_state=seed
    )
    return features, labels.astype(np.int64)


@lru_cache(maxsize=4)
def scored(model: str, prevalence: float, seed: int = 2) -> tuple[Labels, Floats]:
    """Labels of the half of the rows that the model was not fitted on, and its probabilities."""
    features, labels = _rows(prevalence, seed)
    half = len(labels) // 2
    with catch_warnings():
        # The network is stopped early on purpose.
        simplefilter("ignore", ConvergenceWarning)
        fitted = _models()[model]().fit(features[:half], labels[:half])
    return labels[half:], fitted.predict_proba(features[half:])[:, 1]


def _changed(
    model: str, prevalence: float, change: Callable[[Floats], NDArray[Any]], seed: int = 2
) -> tuple[Labels, NDArray[Any]]:
    labels, scores = scored(model, prevalence, seed)
    return labels, change(scores)


def _logits(scores: Floats) -> Floats:
    inside = np.clip(scores, 1e-15, 1 - 1e-15)
    return np.log(inside) - np.log1p(-inside)


def _sigmoids(logits: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -logits))


def _sharpened(scores: Floats, factor: float) -> Floats:
    """Logits times a factor: over-confident above 1, timid below."""
    return _sigmoids(factor * _logits(scores))


def _shifted(scores: Floats, spread: float) -> Floats:
    """Every site adds its own constant to the logits."""
    sites = np.arange(len(scores)) % SITES
    offsets = spread * np.linspace(-1.0, 1.0, SITES)
    return _sigmoids(_logits(scores) + offsets[sites])


def _ranks(scores: Floats) -> Floats:
    """Each score's share of scores below it."""
    return np.argsort(np.argsort(scores)) / len(scores)


# A change of scores, where it is applied, and whether the scale is that of logits afterwards.
_CHANGES: tuple[tuple[str, str, tuple[float, ...], Callable[[Floats], NDArray[Any]]], ...] = (
    ("over-confident network, logits times 3", "network", (0.001, 0.01, 0.3), partial(_sharpened, factor=3.0)),
    ("timid logistic, logits times 0.2", "logistic", (0.01, 0.5), partial(_sharpened, factor=0.2)),
    ("network as float32", "network", (0.01, 0.3), lambda scores: scores.astype(np.float32)),
    ("logistic, two decimals", "logistic", (0.1, 0.5), lambda scores: np.round(scores, 2)),
    ("boosted trees divided by 100", "boosted trees", (0.01, 0.3), lambda scores: scores / 100),
    ("logistic divided by 100", "logistic", (0.01, 0.5), lambda scores: scores / 100),
    ("logistic, sites apart by 2 logits", "logistic", (0.01, 0.1, 0.5), partial(_shifted, spread=1.0)),
)

_HELD_OUT: tuple[tuple[str, str, tuple[float, ...], Callable[[Floats], NDArray[Any]]], ...] = (
    ("boosted trees, other data", "boosted trees", (0.003, 0.05, 0.4), lambda scores: scores),
    ("network, other data", "network", (0.02, 0.2), lambda scores: scores),
    ("forest", "forest", (0.01, 0.3), lambda scores: scores),
    ("neighbours", "neighbours", (0.1,), lambda scores: scores),
    ("ranks", "logistic", (0.02, 0.5), _ranks),
    ("logistic divided by 1,000", "logistic", (0.05,), lambda scores: scores / 1000),
    ("complement of boosted trees", "boosted trees", (0.02,), lambda scores: 1 - scores),
    ("trees, sites apart by 4 logits", "boosted trees", (0.05,), partial(_shifted, spread=2.0)),
    ("over-confident trees, logits times 2", "boosted trees", (0.02,), partial(_sharpened, factor=2.0)),
    ("one byte", "network", (0.2,), lambda scores: np.round(scores * 255) / 255),
)


def battery() -> Iterator[Distribution]:
    """All distributions, those that the default grid was chosen on before the held-out ones."""
    for prevalence in PREVALENCES:
        for model in ("logistic", "boosted trees", "network"):
            yield Distribution(f"{model}, {prevalence:.1%}", partial(scored, model, prevalence))
    for model in ("balanced logistic", "balanced trees", "naive Bayes", "small tree"):
        for prevalence in (0.01, 0.1):
            yield Distribution(f"{model}, {prevalence:.1%}", partial(scored, model, prevalence))
    for name, model, prevalences, change in _CHANGES:
        for prevalence in prevalences:
            yield Distribution(f"{name}, {prevalence:.1%}", partial(_changed, model, prevalence, change))
    for prevalence in (0.01, 0.3):
        make = partial(_changed, "logistic", prevalence, _logits)
        yield Distribution(f"logits of logistic, {prevalence:.1%}", make, scale="logit")
    for name, model, prevalences, change in _HELD_OUT:
        for prevalence in prevalences:
            make = partial(_changed, model, prevalence, change, seed=7)
            yield Distribution(f"{name}, {prevalence:.1%}", make, held_out=True)
    make = partial(_changed, "naive Bayes", 0.05, _logits, seed=7)
    yield Distribution("logits of naive Bayes, 5.0%", make, scale="logit", held_out=True)


GRIDS = (Grid.even, Grid.logit, Grid.wide)
SIZES = (100, 1000)


def table() -> Iterator[str]:
    """A table in Markdown: for each distribution its exact AUC, each grid's error, and the bound of the default."""
    grids = [(make, size) for size in SIZES for make in GRIDS]
    yield "| scores, prevalence | AUC | " + " | ".join(f"{make.__name__} {size:,}" for make, size in grids) + " | δ |"
    yield "|---" * (len(grids) + 3) + "|"
    for each in battery():
        labels, scores = each.make()
        found = [measure(labels, scores, make(size, scores=each.scale)) for make, size in grids]
        errors = " | ".join(f"{cell.error:.0e}" for cell in found)
        held_out = " (held out)" if each.held_out else ""
        yield f"| {each.name}{held_out} | {found[-1].exact:.4f} | {errors} | {found[-1].bound:.0e} |"


if __name__ == "__main__":
    for line in table():
        print(line)
