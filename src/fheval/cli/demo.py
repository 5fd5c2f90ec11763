"""`fheval demo`: a real data set, five hospitals, both threat models, and the pooled truth beside them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from fheval.cli import STANDARD_OUTPUT, check_target, options, write_json
from fheval.cli.demo_page import demo_page
from fheval.cli.progress import round_bar
from fheval.counting import Counts
from fheval.engines import Engine, load_engine
from fheval.evaluation import Result, evaluate
from fheval.protocols import padded, padded_verified
from fheval.report.wording import shown_auc
from fheval.study import DEFAULT_DECISION_POINTS
from fheval.version import __version__

FILE = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True, slots=True)
class Hospital:
    """One party of the demo: labels, 1 for malignant, and the model's scores."""

    name: str
    labels: NDArray[np.int64] = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)

    @property
    def samples(self) -> int:
        return len(self.labels)

    @property
    def malignant(self) -> int:
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


app = typer.Typer()

# One for each threat model: an aggregator that follows the protocol, and one that may do anything.
PROTOCOLS = (padded.NAME, padded_verified.NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What the demo found: the hospitals, the AUC of their pooled data, and a private one for each threat model."""

    hospitals: Sequence[Hospital]
    pooled_exact: float
    pooled_counts: float
    rounds: Sequence[Result]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `fheval demo`; a round has the fields that it has in `fheval evaluate`."""
        return {
            "data": "scikit-learn breast cancer",
            "hospitals": [
                {"name": each.name, "samples": each.samples, "positives": each.malignant} for each in self.hospitals
            ],
            "pooled": {"scikit_learn": self.pooled_exact, "counts": self.pooled_counts},
            "rounds": [each.to_dict() for each in self.rounds],
            "fheval": __version__,
        }


@app.command(epilog="Examples:\n\nfheval demo\n\nfheval demo --engine seal --decision-points 100 --json -")
def demo(
    decision_points: options.DecisionPoints = None,
    engine: options.EngineName = None,
    json: options.Json = None,
    quiet: options.Quiet = False,
) -> None:
    """A real data set, five hospitals, both threat models, the pooled truth beside them.

    A model that tells malignant from benign tumours, fitted on held-out samples of the breast-cancer data of
    scikit-learn, is evaluated over five hospitals without pooling their data.
    """
    check_target(json)
    points = DEFAULT_DECISION_POINTS if decision_points is None else decision_points
    found = demonstrate(load_engine(engine), points, quiet=quiet)
    if json is not None:
        write_json(json, found.to_dict())
    if json == STANDARD_OUTPUT:
        return
    if not quiet:
        Console(highlight=False).print(
            demo_page(found.hospitals, found.pooled_exact, found.pooled_counts, found.rounds)
        )
    elif json is None:
        typer.echo("\n".join(f"{each.protocol} {shown_auc(each)}" for each in found.rounds))


def demonstrate(engine: Engine, decision_points: int, *, quiet: bool) -> Demonstration:
    """Run a round for each threat model, and pool for comparison."""
    parties = hospitals()
    data = [(each.labels, each.scores) for each in parties]
    rounds = []
    for protocol in PROTOCOLS:
        with round_bar(len(parties), quiet=quiet) as on_work:
            rounds.append(
                evaluate(data, protocol=protocol, decision_points=decision_points, engine=engine, on_work=on_work)
            )
    pooled = sum((Counts.from_scores(*each, decision_points) for each in data), start=Counts.zero(decision_points))
    return Demonstration(hospitals=parties, pooled_exact=pooled_auc(parties), pooled_counts=pooled.auc(), rounds=rounds)
