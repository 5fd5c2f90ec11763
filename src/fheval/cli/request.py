"""From the words of the command line to a round that can be run: grid, precision, engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fheval.cli.asking import Asked
from fheval.cli.options import Packing, ScoreKind
from fheval.counting import Grid
from fheval.counting.delimited import text_column
from fheval.engines import Engine, load_engine
from fheval.errors import ConfigError
from fheval.evaluation import DEFAULT_DECISION_POINTS, PartyData, Result, default_points, evaluate
from fheval.protocols import default_precision

EXACT: Literal["exact"] = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One round as the user asked for it, checked as far as it can be before any data are read."""

    protocol: str
    grid: Grid
    precision: float | Literal["exact"] | None
    engine: Engine
    splits: int
    runs: int
    packing: str
    minimum_cohort: int
    max_samples: int
    asked: Asked

    def run(self, parties: Sequence[PartyData], on_work: Callable[[str], None]) -> Result:
        """Run the round over the parties' counts or tables."""
        return evaluate(
            parties,
            **self.asked.options(),
            protocol=self.protocol,
            decision_points=self.grid,
            precision=self.precision,
            engine=self.engine,
            splits=self.splits,
            runs=self.runs,
            packing=self.packing,
            minimum_cohort=self.minimum_cohort,
            max_samples=self.max_samples,
            on_work=on_work,
        )


def make_request(
    *,
    protocol: str,
    decision_points: int | None,
    grid: str,
    score_kind: ScoreKind,
    precision: str | None,
    engine: str | None,
    splits: int,
    runs: int,
    packing: Packing,
    minimum_cohort: int,
    max_samples: int,
    asked: Asked,
) -> Request:
    """Check the options and load the engine; a `ConfigError` says which option cannot be."""
    default_precision(protocol)  # refuses a protocol that does not exist
    return Request(
        protocol=protocol,
        grid=chosen_grid(grid, decision_points, score_kind, default_points(asked.ci)),
        precision=None if precision is None else chosen_precision(precision),
        engine=load_engine(engine),
        splits=splits,
        runs=runs,
        packing=packing.value,
        minimum_cohort=minimum_cohort,
        max_samples=max_samples,
        asked=asked,
    )


def chosen_precision(text: str) -> float | Literal["exact"]:
    """Read `--precision`.

    >>> chosen_precision("1e-4"), chosen_precision("exact")
    (0.0001, 'exact')
    """
    if text == EXACT:
        return EXACT
    try:
        width = float(text)
    except ValueError:
        width = 0.0
    # Written so that a NaN fails too.
    if not 0 < width < 1:
        raise ConfigError(f"--precision {text} is no width between 0 and 1. Use a number such as 1e-4, or exact.")
    return width


def chosen_grid(
    choice: str, decision_points: int | None, score_kind: ScoreKind, otherwise: int = DEFAULT_DECISION_POINTS
) -> Grid:
    """Read `--grid`, `--decision-points` and `--score-kind` together.

    >>> chosen_grid("logit", 50, ScoreKind.PROBABILITY)
    Grid.logit(50)
    """
    if choice not in ("even", "logit"):
        return _listed_grid(Path(choice), decision_points, score_kind)
    make = Grid.even if choice == "even" else Grid.logit
    points = otherwise if decision_points is None else decision_points
    return make(points, scores="logit" if score_kind is ScoreKind.LOGIT else "probability")


def _listed_grid(file: Path, decision_points: int | None, score_kind: ScoreKind) -> Grid:
    if not file.is_file():
        raise ConfigError(f"--grid {file} is neither even nor logit nor a file. Check the spelling.")
    if decision_points is not None:
        raise ConfigError(f"--grid {file} lists the decision points. Leave --decision-points out.")
    if score_kind is not ScoreKind.PROBABILITY:
        raise ConfigError(f"Scores are compared with the points of {file} as they are. Leave --score-kind out.")
    points = [point for piece in text_column(file, labels=False) for point in piece.tolist()]
    try:
        return Grid.explicit(points)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
