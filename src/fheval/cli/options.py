"""Options that several commands share, with their help; and the study that they make.

`takes_study` gives a command every option of a study, those of the registered protocols among them. The command gets
what was said as one mapping, and `chosen_study` makes the study of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from fheval.counting import UNNAMED, Grid
from fheval.counting.delimited import text_column
from fheval.counting.grid import DEFAULT_KIND, DEFAULT_POINTS, PLACED
from fheval.errors import ConfigError
from fheval.metrics.groups import DEFAULT_MINIMUM_SIZE
from fheval.metrics.registry import METRICS, NAMES
from fheval.protocols import DEFAULT_PROTOCOL, PROTOCOLS
from fheval.protocols.round import DEFAULT_MAX_SAMPLES, DEFAULT_MINIMUM_COHORT
from fheval.study import DEFAULT_REPLICATES, DEFAULT_ROWS, EXACT, Study

_ASKED = "What is asked"
_COUNTING = "Counting"
_ROUND = "The round"
_OUTPUT = "Output"


class ScoreKind(str, Enum):
    """What a score is."""

    PROBABILITY = "probability"
    LOGIT = "logit"


class Release(str, Enum):
    """What the parties learn."""

    RATIO = "ratio"
    CURVE = "curve"
    NOISY_CURVE = "noisy-curve"


def _metrics_from(start: str) -> list[str]:
    return [name for name in METRICS if name.startswith(start)]


def _protocols_from(start: str) -> list[tuple[str, str]]:
    return [(name, each.words.summary) for name, each in PROTOCOLS.items() if name.startswith(start)]


LabelColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column of the labels.", show_default="label, else y", rich_help_panel=_COUNTING),
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
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL",
        help="The label that counts as 1, where labels are not 0 and 1 but, say, yes and no.",
        show_default=False,
        rich_help_panel=_COUNTING,
    ),
]
Percent = Annotated[
    bool, typer.Option("--percent", help="Scores are percentages: divide them by 100.", rich_help_panel=_COUNTING)
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
DecisionPoints = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="How many decision points the curve has.",
        show_default=str(DEFAULT_POINTS),
        rich_help_panel=_COUNTING,
    ),
]
GridChoice = Annotated[
    str,
    typer.Option(
        metavar=f"{'|'.join(PLACED)}|FILE",
        help="Where they lie: close together around 0.5 and ever wider apart towards 0 and 1 (for any scores), evenly, "
        "evenly on the logit scale, or as listed in a file, highest first, one a line.",
        rich_help_panel=_COUNTING,
    ),
]
_SCORE_KIND_HELP = "What a score is: a probability, or the logit of one."
ScoreKindOption = Annotated[ScoreKind, typer.Option("--score-kind", help=_SCORE_KIND_HELP, rich_help_panel=_COUNTING)]
# `--scores` names a file in `simulate`; only where there is no such file it may say what scores are.
ScoreKindOrScoresOption = Annotated[
    ScoreKind, typer.Option("--score-kind", "--scores", help=_SCORE_KIND_HELP, rich_help_panel=_COUNTING)
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
        metavar="FILE.html|.md",
        help="Write a page for people: the result, how it came about, who saw what; as .md, items of TRIPOD+AI and a "
        "section for a model card.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="No progress bars, and the numbers alone for output.", rich_help_panel=_OUTPUT)
]


def _option(kind: Any, default: Any, panel: str, text: str, *names: str, **more: Any) -> tuple[Any, Any]:
    """An option as an annotation, and its default; without one, the help says nothing of it."""
    if default is None:
        more.setdefault("show_default", False)
    return Annotated[kind, typer.Option(*names, help=text, rich_help_panel=panel, **more)], default


# The options of a study, by the name of the command's parameter.
_STUDY_OPTIONS: dict[str, tuple[Any, Any]] = {
    "study": _option(Path | None, None, _ASKED, "A study; it says all that these options say.", metavar="FILE.toml"),
    "metric": _option(
        list[str] | None,
        None,
        _ASKED,
        f"Repeat for several. One of {NAMES}; those that call samples positive take a threshold, as in "
        "f1@0.3, else 0.5. Those with a number behind a colon take a band instead, as in observed:0.01-0.02.",
        "--metric",
        metavar="NAME[@THRESHOLD]",
        autocompletion=_metrics_from,
        show_default="auc",
    ),
    "class_": _option(
        list[str] | None,
        None,
        _ASKED,
        "One class of several, told from the rest; repeat for all. Its scores are in the column SCORE_LABEL.",
        "--class",
        metavar="LABEL",
    ),
    "group_column": _option(
        str | None, None, _ASKED, "Evaluate every group of this column by itself as well.", metavar="NAME"
    ),
    "minimum_group": _option(
        int,
        DEFAULT_MINIMUM_SIZE,
        _ASKED,
        "A group is released if a minimum cohort of parties hold so many samples of it each.",
        metavar="N",
        min=1,
    ),
    "ci": _option(
        float | None,
        None,
        _ASKED,
        "An interval around every number, such as 0.95; and the difference of every two models.",
        "--ci",
        metavar="LEVEL",
    ),
    "replicates": _option(
        int, DEFAULT_REPLICATES, _ASKED, "Resamples that an interval is made of.", metavar="R", min=1
    ),
    "target_range": _option(
        str | None, None, _ASKED, "mae, rmse, r2: the public range of true and predicted values.", metavar="LOW:HIGH"
    ),
    "release": _option(
        Release,
        Release.RATIO,
        _ASKED,
        "ratio: the numbers asked for. curve: the parties learn the global counts, and with them ROC, "
        "precision-recall and calibration curves. noisy-curve: they learn them under noise, which hides every row.",
    ),
    "epsilon": _option(
        float | None, None, _ASKED, "noisy-curve: ε of differential privacy; 1 hides a row well.", metavar="E"
    ),
    "delta": _option(
        float | None,
        None,
        _ASKED,
        "noisy-curve: allow Gaussian noise for (ε, δ), which is smaller where a row is counted many times over.",
        metavar="D",
    ),
    "colluding": _option(
        int,
        1,
        _ASKED,
        "noisy-curve: how many parties of a minimum cohort may put together what they know; each knows its own noise.",
        metavar="C",
        min=0,
    ),
    "least_rows": _option(
        int | None,
        None,
        _ASKED,
        "How many rows all parties have at least. A noisy-curve chooses its decision points by it.",
        metavar="N",
        min=1,
        show_default=f"reckoned with {DEFAULT_ROWS:,}",
    ),
    "group": _option(
        list[str] | None,
        None,
        _ASKED,
        "noisy-curve: a group of the group column; repeat for all that are wanted.",
        "--group",
        metavar="VALUE",
    ),
    "rows_per_cluster": _option(
        int | None,
        None,
        _ASKED,
        "noisy-curve: the most rows that a cluster has, which noise then hides as a whole.",
        metavar="N",
        min=1,
    ),
    "allow_curves": _option(bool, False, _ASKED, "Say that all parties agreed to --release curve.", "--allow-curves"),
    "decision_points": (DecisionPoints, None),
    "grid": (GridChoice, DEFAULT_KIND),
    "score_kind": (ScoreKindOption, ScoreKind.PROBABILITY),
    "precision": _option(
        str | None,
        None,
        _ROUND,
        "Width of the rounding that is released, such as 1e-4; or exact.",
        metavar="P|exact",
        show_default="the protocol's",
    ),
    "minimum_cohort": _option(
        int, DEFAULT_MINIMUM_COHORT, _ROUND, "With fewer parties nothing is released.", metavar="M", min=1
    ),
    "max_samples": _option(
        int, DEFAULT_MAX_SAMPLES, _ROUND, "Public bound on the samples of all parties together.", metavar="N", min=1
    ),
}


def takes_study(*without: str, **instead: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a study but those `without`; `instead` has other annotations for some.

    The command's parameter `asked` gets what was said, by name.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        offered = {
            name: option for name, option in (_STUDY_OPTIONS | _protocol_options()).items() if name not in without
        }
        offered |= {name: (annotation, offered[name][1]) for name, annotation in instead.items()}
        signature = inspect.signature(command, eval_str=True)
        own = [each for name, each in signature.parameters.items() if name != "asked"]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in offered.items()
        ]

        @wraps(command)
        def with_study(**said: Any) -> None:
            asked = {name: said.pop(name) for name in offered}
            command(asked=asked, **said)

        with_study.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + added
        )
        with_study.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
        return with_study

    return decorate


def _protocol_options() -> dict[str, tuple[Any, Any]]:
    """`--protocol`, and the options of every registered protocol."""
    text = f"One of {', '.join(PROTOCOLS)}."
    found = {"protocol": _option(str, DEFAULT_PROTOCOL, _ROUND, text, metavar="NAME", autocompletion=_protocols_from)}
    for protocol in PROTOCOLS.values():
        for option in protocol.options:
            text = f"{protocol.name}: {option.help}."
            if option.choices:
                choices = Enum(option.name, {each: each for each in option.choices}, type=str)  # type: ignore[misc]
                found[option.name] = _option(choices, choices(option.default), _ROUND, text)
            else:
                found[option.name] = _option(int, option.default, _ROUND, text, metavar="N", min=option.least)
    return found


def chosen_study(asked: Mapping[str, Any], models: Sequence[str] | None = None, *, by_cluster: bool = False) -> Study:
    """The study that the options make, or that their `--study` names; a `ConfigError` says which option cannot be."""
    if asked["study"] is not None:
        return _study_of_file(asked, models, by_cluster=by_cluster)
    said = {name: value.value if isinstance(value, Enum) else value for name, value in asked.items() if name != "study"}
    release = said.pop("release")
    if not said.pop("allow_curves") and release == Release.CURVE.value:
        raise ConfigError(
            "The round asks for the counts of a curve, and curves are not allowed. "
            "Ask for metrics, or give --allow-curves where all parties agreed."
        )
    precision, interval = said.pop("precision"), said.pop("ci")
    score_kind, placed, points = said.pop("score_kind"), said.pop("grid"), said.pop("decision_points")
    grid: dict[str, Any] = {"grid": placed, "scores": score_kind}
    if release != Release.NOISY_CURVE.value or placed not in PLACED or points is not None:
        grid = {"decision_points": chosen_grid(placed, points, asked["score_kind"])}
    return Study.of(
        least_rows_per_party=0,  # all rows are here anyway
        metrics=tuple(said.pop("metric") or ("auc",)),
        models=tuple(models or (UNNAMED,)),
        classes=tuple(said.pop("class_", None) or ()),
        interval=interval,
        by_cluster=by_cluster,
        target_range=chosen_range(said.pop("target_range", None)),
        release="ratios" if release == Release.RATIO.value else release,
        groups=tuple(said.pop("group", None) or ()),
        most_rows_per_cluster=said.pop("rows_per_cluster", None),
        precision=None if precision is None else chosen_precision(precision),
        **grid,
        **said,
    )


def _study_of_file(asked: Mapping[str, Any], models: Sequence[str] | None, *, by_cluster: bool) -> Study:
    defaults = _STUDY_OPTIONS | _protocol_options()
    for name, value in asked.items():
        if name != "study" and value != defaults[name][1]:
            option = name.rstrip("_").replace("_", "-")
            raise ConfigError(f"--study says what is asked. Leave --{option} out, or put it into the file.")
    study = Study.from_file(asked["study"])
    if study.least_rows is not None:
        from fheval.disclosure import require_as_declared

        require_as_declared(study)
    if study.by_cluster and not by_cluster:
        raise ConfigError("The study resamples clusters. Name their column with --cluster-column.")
    if models and study.models == (UNNAMED,) and len(models) == 1:
        return msgspec.structs.replace(study, models=tuple(models))
    if models and tuple(models) != study.models:
        raise ConfigError(f"The study is about the models {', '.join(study.models)}. Leave --score-column out.")
    return study


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


def chosen_grid(choice: str, decision_points: int | None, score_kind: ScoreKind) -> Grid:
    """Read `--grid`, `--decision-points` and `--score-kind` together.

    >>> chosen_grid("logit", 50, ScoreKind.PROBABILITY)
    Grid.logit(50)
    """
    if choice in PLACED:
        count = DEFAULT_POINTS if decision_points is None else decision_points
        return PLACED[choice](count, scores=score_kind.value)
    file = Path(choice)
    if not file.is_file():
        raise ConfigError(f"--grid {file} is none of {', '.join(PLACED)}, and no file. Check the spelling.")
    if decision_points is not None:
        raise ConfigError(f"--grid {file} lists the decision points. Leave --decision-points out.")
    if score_kind is not ScoreKind.PROBABILITY:
        raise ConfigError(f"Scores are compared with the points of {file} as they are. Leave --score-kind out.")
    points = [point for piece in text_column(file, labels=False) for point in piece.tolist()]
    try:
        return Grid.explicit(points)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


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
