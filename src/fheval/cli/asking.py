"""What is asked of a round beyond one AUC: metrics, models, classes, groups, intervals, curves; their options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import typer

from fheval.counting import TableColumns
from fheval.errors import ConfigError
from fheval.metrics.groups import DEFAULT_MINIMUM_SIZE
from fheval.metrics.intervals import DEFAULT_REPLICATES
from fheval.metrics.registry import METRICS

_ASKED = "What is asked"
_COUNTING = "Counting"

DEFAULT_METRICS = ("auc",)
REPLICATES = DEFAULT_REPLICATES
MINIMUM_GROUP = DEFAULT_MINIMUM_SIZE


class Release(str, Enum):
    """What the parties learn."""

    RATIO = "ratio"
    CURVE = "curve"


def _metrics_starting_with(incomplete: str) -> list[str]:
    return [name for name in METRICS if name.startswith(incomplete)]


Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME[@THRESHOLD]",
        help=f"Repeat for several. One of {', '.join(METRICS)}; those that call samples positive take a threshold, "
        "as in f1@0.3, else 0.5.",
        autocompletion=_metrics_starting_with,
        show_default="auc",
        rich_help_panel=_ASKED,
    ),
]
ScoreColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--score-column",
        metavar="NAME",
        help="Column of the scores. Repeat for several models.",
        show_default="score, else s",
        rich_help_panel=_COUNTING,
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "--score-column",
        metavar="NAME",
        help="A model, as the members' vaults call it. Repeat for several.",
        show_default="the only one",
        rich_help_panel=_ASKED,
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="LABEL",
        help="One class of several, told from the rest; repeat for all. Its scores are in the column SCORE_LABEL.",
        show_default=False,
        rich_help_panel=_ASKED,
    ),
]
GroupColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Evaluate every group of this column by itself as well.",
        show_default=False,
        rich_help_panel=_ASKED,
    ),
]
MinimumGroup = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="A group is released if a minimum cohort of parties hold so many samples of it each.",
        rich_help_panel=_ASKED,
    ),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        "--ci",
        metavar="LEVEL",
        help="An interval around every number, such as 0.95; and the difference of every two models.",
        show_default=False,
        rich_help_panel=_ASKED,
    ),
]
Replicates = Annotated[
    int, typer.Option(metavar="R", min=1, help="Resamples that an interval is made of.", rich_help_panel=_ASKED)
]
ClusterColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Resample, and count in groups, whole clusters of rows, such as patients.",
        show_default=False,
        rich_help_panel=_ASKED,
    ),
]
ByCluster = Annotated[
    bool,
    typer.Option(
        "--by-cluster",
        help="Resample whole clusters of rows, such as patients; each member's vault knows its own column of them.",
        rich_help_panel=_ASKED,
    ),
]
TargetRange = Annotated[
    str | None,
    typer.Option(
        metavar="LOW:HIGH",
        help="mae, rmse, r2: the public range of true and predicted values.",
        show_default=False,
        rich_help_panel=_ASKED,
    ),
]
ReleaseOption = Annotated[
    Release,
    typer.Option(
        "--release",
        help="ratio: the numbers asked for. curve: the parties learn the global counts, and with them ROC, "
        "precision-recall and calibration curves.",
        rich_help_panel=_ASKED,
    ),
]
AllowCurves = Annotated[
    bool,
    typer.Option("--allow-curves", help="Say that all parties agreed to --release curve.", rich_help_panel=_ASKED),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a round is asked beyond one AUC; the fields are those of `evaluate`."""

    metrics: tuple[str, ...] = DEFAULT_METRICS
    classes: tuple[str, ...] = ()
    group_column: str | None = None
    minimum_group: int = MINIMUM_GROUP
    ci: float | None = None
    replicates: int = REPLICATES
    by_cluster: bool = False
    target_range: tuple[float, float] | None = None
    release: str = Release.RATIO.value
    allow_curves: bool = False

    @property
    def is_one_auc(self) -> bool:
        """Whether counts at decision points are all that a party must bring."""
        return (self.metrics, self.classes, self.group_column, self.ci, self.release) == (
            DEFAULT_METRICS,
            (),
            None,
            None,
            Release.RATIO.value,
        )

    def options(self) -> dict[str, Any]:
        """The arguments of `evaluate`."""
        return {name: getattr(self, name) for name in self.__slots__}


def asked_columns(
    asked: Asked, label_column: str | None, score_columns: list[str] | None, cluster_column: str | None
) -> TableColumns:
    """The columns of a party's file that this takes."""
    return TableColumns(
        label=label_column,
        models=tuple(score_columns or ()),
        classes=asked.classes,
        group=asked.group_column,
        cluster=cluster_column,
    )


def chosen_range(text: str | None) -> tuple[float, float] | None:
    """Read `--target-range`.

    >>> chosen_range("0:120.5")
    (0.0, 120.5)
    """
    if text is None:
        return None
    low, colon, high = text.partition(":")
    try:
        if colon:
            return float(low), float(high)
    except ValueError:
        pass
    raise ConfigError(f"--target-range {text} is no range. Write the lowest and the highest value, such as 0:120.")
