"""The options that several commands share, with their help."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from fheval.evaluation import DEFAULT_DECISION_POINTS
from fheval.protocols import DEFAULT_PROTOCOL, PROTOCOLS
from fheval.protocols.round import DEFAULT_MAX_SAMPLES, DEFAULT_MINIMUM_COHORT, DEFAULT_RUNS

_COUNTING = "Counting"
_ROUND = "The round"
_OUTPUT = "Output"


class ScoreKind(str, Enum):
    """What a score is."""

    PROBABILITY = "probability"
    LOGIT = "logit"


class Packing(str, Enum):
    """How the paper's protocol for a semi-honest aggregator fills its ciphertexts."""

    PAPER = "paper"
    COMPACT = "compact"


def _names_starting_with(incomplete: str) -> list[str]:
    return [name for name in PROTOCOLS if name.startswith(incomplete)]


DecisionPoints = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="How many decision points the curve has.",
        show_default=f"{DEFAULT_DECISION_POINTS}, with --ci 100",
        rich_help_panel=_COUNTING,
    ),
]
GridChoice = Annotated[
    str,
    typer.Option(
        metavar="even|logit|FILE",
        help="Where they lie: evenly, evenly on the logit scale (for scores that crowd near 0 or 1), "
        "or as listed in a file, highest first, one a line.",
        rich_help_panel=_COUNTING,
    ),
]
_SCORE_KIND_HELP = "What a score is: a probability, or the logit of one."
ScoreKindOption = Annotated[ScoreKind, typer.Option("--score-kind", help=_SCORE_KIND_HELP, rich_help_panel=_COUNTING)]
# `--scores` names a file in `simulate`; only where there is no such file it may say what scores are.
ScoreKindOrScoresOption = Annotated[
    ScoreKind, typer.Option("--score-kind", "--scores", help=_SCORE_KIND_HELP, rich_help_panel=_COUNTING)
]
LabelColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column of the labels.", show_default="label, else y", rich_help_panel=_COUNTING),
]
ScoreColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column of the scores.", show_default="score, else s", rich_help_panel=_COUNTING),
]
Protocol = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"One of {', '.join(PROTOCOLS)}.",
        autocompletion=_names_starting_with,
        rich_help_panel=_ROUND,
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="P|exact",
        help="Width of the rounding that is released, such as 1e-4; or exact.",
        show_default="the protocol's",
        rich_help_panel=_ROUND,
    ),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="openfhe|seal",
        help="The FHE library.",
        show_default="the first that loads",
        rich_help_panel=_ROUND,
    ),
]
Splits = Annotated[
    int, typer.Option(metavar="S", min=1, help="paper-malicious: slots for each product.", rich_help_panel=_ROUND)
]
Runs = Annotated[
    int,
    typer.Option(
        metavar="R", min=1, help="padded-verified: runs that must agree, for each prime.", rich_help_panel=_ROUND
    ),
]
PackingOption = Annotated[
    Packing, typer.Option("--packing", help="paper-semi-honest: 4 ciphertexts, or 2.", rich_help_panel=_ROUND)
]
MinimumCohort = Annotated[
    int, typer.Option(metavar="M", min=1, help="With fewer parties nothing is released.", rich_help_panel=_ROUND)
]
MaxSamples = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, help="Public bound on the samples of all parties together.", rich_help_panel=_ROUND
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the result as JSON to a file, or alone to standard output.",
        rich_help_panel=_OUTPUT,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="Write a page for people: the result, how it came about, who saw what.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", help="No progress bars, and the AUC alone for output.", rich_help_panel=_OUTPUT),
]

PROTOCOL = DEFAULT_PROTOCOL
SPLITS = 4
RUNS = DEFAULT_RUNS
MINIMUM_COHORT = DEFAULT_MINIMUM_COHORT
MAX_SAMPLES = DEFAULT_MAX_SAMPLES
