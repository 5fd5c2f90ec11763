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
from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fheval.cli import STANDARD_OUTPUT, check_target, options, write_json
from fheval.cli.progress import round_bar
from fheval.counting import Counts
from fheval.counting.grid import DEFAULT_POINTS
from fheval.engines import Engine, load_engine
from fheval.errors import UndefinedMetric
from fheval.evaluation import Result, evaluate
from fheval.protocols import padded, padded_verified
from fheval.report.account import account_of
from fheval.report.wording import MOST_DECIMALS, release_in_words, shown_auc, verified_in_words, warning, words_of
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
    points = DEFAULT_POINTS if decision_points is None else decision_points
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


_WIDTH = 100


def demo_page(
    hospitals: Sequence[Hospital], pooled_exact: float, pooled_counts: float, rounds: Sequence[Result]
) -> RenderableType:
    """The whole page, top to bottom."""
    points = rounds[0].decision_points
    parts: list[RenderableType] = [
        "Five hospitals want to know how well a model works on all their patients.\n"
        "None of them may show its labels and scores to anyone.\n",
        _hospitals_table(hospitals),
        "",
        Text.assemble("Were the data pooled, the AUC would be ", (f"{pooled_exact:.{MOST_DECIMALS}f}", "bold"), "."),
        Text.assemble(
            f"Counted at {points} decision points, as it is below, it is ",
            (f"{pooled_counts:.{MOST_DECIMALS}f}", "bold"),
            ".",
        ),
        "",
    ]
    parts += [_round_panel(result, pooled_counts) for result in rounds]
    parts.append("\nYour own data: fheval evaluate --party a.csv --party b.csv --party c.csv")
    return Group(*parts)


def _hospitals_table(hospitals: Sequence[Hospital]) -> Table:
    table = Table("hospital", box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for heading in ("samples", "malignant", "benign", "AUC of its own data"):
        table.add_column(heading, justify="right")
    for each in hospitals:
        benign = each.samples - each.malignant
        table.add_row(each.name, str(each.samples), str(each.malignant), str(benign), _own_auc(each))
    return table


def _own_auc(hospital: Hospital) -> str:
    try:
        return f"{Counts.from_scores(hospital.labels, hospital.scores).auc():.4f}"
    except UndefinedMetric:
        return "undefined: one class"


def _round_panel(result: Result, pooled_counts: float) -> Panel:
    words = words_of(result)
    away = abs(result.auc - pooled_counts)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("private AUC", Text.assemble((shown_auc(result), "bold green"), "  ", release_in_words(result)))
    facts.add_row("from the pooled", f"{away:.1g} away" if away > 0.5 * 10**-MOST_DECIMALS else "no difference")
    facts.add_row("verified", verified_in_words(result))
    facts.add_row("protocol, engine", f"{result.protocol}, {result.engine}")
    parts: list[RenderableType] = [facts, "", _views_table(result)]
    caution = warning(result)
    if caution is not None:
        parts += ["", Text(caution, style="yellow")]
    title = f"An aggregator that {words.aggregator}"
    return Panel(Group(*parts), title=title, title_align="left", padding=(1, 2), width=_WIDTH)


def _views_table(result: Result) -> Table:
    """What each role saw, in kinds and sizes, what it sent, and how long it worked."""
    table = Table("role", box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("saw", ratio=1)
    table.add_column("sent", justify="right")
    table.add_column("worked", justify="right")
    for role in account_of(result).roles:
        table.add_row(role.name, role.saw, role.sent, role.worked)
    return table
