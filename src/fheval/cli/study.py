"""`fheval study`: begin a study, read it in words, and learn what it gives away before anyone agrees to it."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from math import isinf, log
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fheval.cli import REFUSED, STANDARD_OUTPUT, check_target, options, write_json
from fheval.cli.progress import waiting
from fheval.disclosure import disclosed_by, disclosure_in_words, study_in_words
from fheval.errors import ConfigError
from fheval.forecast import error_in_words, noise_forecast, noise_in_words, spent_in_words
from fheval.protocols import DEFAULT_PROTOCOL, PROTOCOLS
from fheval.report.wording import duration, size
from fheval.study import Study

if TYPE_CHECKING:
    from fheval.counting import Table
    from fheval.evaluation import Result

app = typer.Typer(
    no_args_is_help=True,
    help="What is asked and on what terms: begin a study, show it, check it.",
    epilog="Examples:\n\nfheval study new sepsis.toml\n\nfheval study check sepsis.toml",
)

# What a terminal shows meanwhile: with many numbers over the same rows it takes seconds.
DISCLOSING = "What the numbers give away"

TEMPLATE = """\
# A study: what is asked and on what terms, fixed before anyone counts. What is left out has the default of
# `fheval evaluate`. `fheval study check FILE` says what it gives away, `fheval study show FILE` tells it in words.

name = {name}

# What is asked.
metrics = ["auc", "recall@0.3"]
# models = ["old", "new"]         # named, where there are several; each vault says which column is which
# classes = ["a", "b", "c"]       # for labels other than 0 and 1: each class against the rest
# interval = 0.95                 # around every number, from resamples

# On what terms.
protocol = "{protocol}"               # for an aggregator that {aggregator}
precision = 1e-3                  # the width of the rounding, or "exact"
reveals = "ratios"                # or "counts", if all agree that the counts may be worked out
least_rows = 10_000               # in all; what `fheval study check` reckons with
most_rows_per_party = 1_000_000
minimum_cohort = 3                # with fewer parties nothing is released
rounds = 4                        # how often it may be asked; each time over the same rows says a little more
learns = "members"
# leaders = ["member-1"]          # who may make keys and open results, and must not help the aggregator; else anyone
# checkers = ["member-2"]         # who opens results as well, to check the leader
"""

File = Annotated[Path, typer.Argument(metavar="FILE.toml", help="The study.", show_default=False)]


@app.command(epilog="Example:\n\nfheval study new sepsis.toml")
def new(file: File) -> None:
    """Write a study to begin with, with a word on every line of it."""
    if file.exists():
        raise ConfigError(f"{file} exists already. Name another file, or change that one.")
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in file.stem)
    words = PROTOCOLS[DEFAULT_PROTOCOL].words
    text = TEMPLATE.format(name=f'"{name}"', protocol=DEFAULT_PROTOCOL, aggregator=words.aggregator)
    file.write_text(text, encoding="utf-8")
    typer.echo(f"{file} is written. Change it, then: fheval study check {file}")


@app.command(epilog="Example:\n\nfheval study show sepsis.toml")
def show(file: File) -> None:
    """Tell a study in words: what is asked, how, how often, and who learns what."""
    for sentence in study_in_words(Study.from_file(file)):
        typer.echo(sentence)


@app.command(
    epilog="Examples:\n\nfheval study check sepsis.toml\n\nfheval study check sepsis.toml --rows 5000 --json -"
)
def check(
    file: File,
    rows: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="How many rows all parties have at least.", show_default="the study's least_rows"
        ),
    ] = None,
    engine: options.EngineName = None,
    json: options.Json = None,
) -> None:
    """Say what a study gives away, how large its messages are and how long a round takes.

    The exit status is 1 where a study that says it reveals ratios gives the counts behind them.
    """
    check_target(json)
    study = Study.from_file(file)
    with waiting(DISCLOSING, quiet=False):
        found = disclosed_by(study, rows)
        tried = trial_of(study, engine)
    refused = found.reveals == "counts" and study.reveals == "ratios"
    if json is not None:
        content: dict[str, Any] = {
            "reveals": found.reveals,
            "candidates": None if isinf(found.candidates) else found.candidates,
            "precision_needed": found.precision_needed,
            "bytes": tried.bytes,
            "seconds": tried.seconds,
            "numbers": found.numbers,
            "rows": found.rows,
            "rounds": found.rounds,
        }
        forecast = noise_forecast(study, rows)
        if forecast is not None:
            content["noise"] = asdict(forecast)
        write_json(json, content)
    if json != STANDARD_OUTPUT:
        noise = [*noise_in_words(study), *spent_in_words(study), *error_in_words(study, rows)]
        for sentence in (*(noise or disclosure_in_words(found)), *cost_in_words(tried)):
            typer.echo(sentence)
        if refused:
            typer.echo('It says that it reveals ratios. Change it, or say reveals = "counts" if all agree.', err=True)
        elif found.reveals == "counts":
            typer.echo("It says so, and all who accept it agree.")
    if refused:
        raise typer.Exit(REFUSED)


def told_of(study: Study) -> tuple[str, ...]:
    """A study and what its numbers give away, in words, for whoever signs or accepts it."""
    with waiting(DISCLOSING, quiet=False):
        found = disclosed_by(study)
    return *study_in_words(study), *disclosure_in_words(found)


def trial_of(study: Study, engine: str | None = None) -> Result:
    """A round with a few made-up rows, for what it sends and how long it takes: neither depends on anybody's data.

    (But for a party, which reads and counts its rows before a round.) All groups that the study names are published in
    it. Where they are found in the data, those that a round has come on top; where they are compared, two are taken.
    """
    import msgspec

    from fheval.evaluation import evaluate_study

    groups = study.groups or (("one", "other") if study.pairs else ())
    column = study.group_column if groups else None
    small = msgspec.structs.replace(study, least_rows=None, minimum_group=1, group_column=column, groups=groups)
    parties = [made_up_rows(small) for _ in range(study.minimum_cohort)]
    return evaluate_study(small, parties, engine=engine)


def cost_in_words(tried: Result) -> list[str]:
    """What a round sends, and how long everyone works on it."""
    sent = ", ".join(f"{name.replace('_', ' ')} {size(count)}" for name, count in tried.bytes.items())
    roles = (role for role in tried.seconds if role in ("party", "leader", "member", "aggregator"))
    took = ", ".join(f"{role} {duration(tried.seconds[role])}" for role in roles)
    return [
        f"Messages: {sent}.",
        f"Time on this machine, with {tried.parties} parties and few rows: {took}. "
        "Counting its rows takes a party longer, before the round.",
    ]


def made_up_rows(study: Study) -> Table:
    """A few rows of which all that a study asks has a value."""
    from fheval.counting import Table

    places = _places(study)
    labels: list[Any] = [label for label in study.classes or (0, 1) for _ in places]
    scores: list[Any] = [[place] * len(study.classes) if study.classes else place for place in places]
    scores *= len(labels) // len(places)
    if study.target_range is not None and any(spec.metric.targets for spec in study.specs):
        low, high = study.target_range
        # Times of events have scores beside them, and other true values have predictions of their kind.
        survival = any(statistic.task == "survival" for statistic in study.statistics())
        labels, scores = ([(low + high) / 2, high], [0.25, 0.75]) if survival else ([low, high], [low, high])
    times = max(1, len(study.groups))
    labels, scores, count = labels * times, scores * times, len(labels) * times
    groups = [study.groups[number * times // count] for number in range(count)] if study.groups else None
    clusters = [str(number) for number in range(count)] if study.by_cluster else None
    return Table.of(labels, dict.fromkeys(study.models, scores), groups=groups, clusters=clusters)


def _places(study: Study) -> list[float]:
    """Scores in every band of probability, and on both sides of every threshold, that a study asks about."""
    bands = [spec.name.partition(":")[2].partition("-") for spec in study.specs]
    ends = [float(end) for low, dash, high in bands if dash for end in (low, high)]
    ends += [tenth / 10 for tenth in range(11)]
    if study.grid.scores == "logit":
        ends = [log(end / (1 - end)) for end in ends if 0 < end < 1]
    marks = sorted({*ends, *(study.inputs(spec).cut for spec in study.specs if spec.threshold is not None)})
    places = [(low + high) / 2 for low, high in pairwise(marks)]
    return places if study.grid.scores == "probability" else [marks[0] - 1, *places, marks[-1] + 1]
