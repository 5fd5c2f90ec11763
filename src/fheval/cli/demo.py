"""`fheval demo`: a real data set, five hospitals, both threat models, and the pooled truth beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console

from fheval.cli import STANDARD_OUTPUT, check_target, options, write_json
from fheval.cli.demo_page import demo_page
from fheval.cli.hospitals import Hospital, hospitals, pooled_auc
from fheval.cli.progress import round_bar
from fheval.counting import Counts
from fheval.engines import Engine, load_engine
from fheval.evaluation import Result, evaluate
from fheval.protocols import padded, padded_verified
from fheval.report.wording import shown_auc
from fheval.study import DEFAULT_DECISION_POINTS
from fheval.version import __version__

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
