"""What is told about an evaluation: the numbers, how they came about, who saw what, the cost, and what to beware of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fheval.disclosure import disclosed_by, study_in_words
from fheval.drawing.markup import Element
from fheval.evaluation import Result, Row
from fheval.evaluation.result import MACRO
from fheval.report.curves import curve_figures
from fheval.report.forests import digits_of, forests, is_difference, row_name
from fheval.report.wording import (
    binning_in_words,
    duration,
    fixed,
    metric_in_words,
    p_in_words,
    privacy_in_words,
    release_in_words,
    short_binning,
    size,
    verified_in_words,
    warning,
    with_binning,
    words_of,
)
from fheval.study import Study

_COUNT = (
    "Every party counts, at {points} public decision points, how many of its positive and of its negative samples "
    "score above each. Labels and scores stay where they are."
)
_COUNT_MANY = (
    "Every party counts what the metrics need from its own rows: whole numbers, at public decision points where there "
    "are any. Labels and scores stay where they are."
)

# More would not leave the first screen room for a picture.
_MOST_HEADLINES = 3


@dataclass(frozen=True, slots=True)
class Role:
    """One role: what it saw, what it sent and how long it worked, in words."""

    name: str
    saw: str
    sent: str = ""
    worked: str = ""


@dataclass(frozen=True, slots=True)
class Number:
    """One number of many: what it is of, its value, its interval, and what to know about it."""

    name: str
    value: str
    interval: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An evaluation in words and pictures, for a page.

    `headlines` are the first numbers that were asked for, `pictures` stand on the first screen, `curves` below it.
    `study` is the name of what was asked, `terms` are its sentences. `together` says who learns more by working
    together, `revealed` what the numbers themselves give away.
    """

    title: str
    headlines: tuple[Number, ...]
    release: str
    facts: tuple[tuple[str, str], ...]
    steps: tuple[str, ...]
    roles: tuple[Role, ...]
    caution: str | None
    study: str = ""
    binning: str | None = None
    pictures: tuple[Element, ...] = ()
    curves: tuple[Element, ...] = ()
    together: str = ""
    revealed: str = ""
    terms: tuple[str, ...] = ()


def account_of(result: Result, data: Sequence[str] = ()) -> Account:
    """Tell about a round; `data` names the files that the parties' data came from."""
    words, study = words_of(result), result.study
    models = models_of(result)
    return Account(
        title=title_of(result),
        study=study.name if study else "",
        headlines=tuple(headline(result, row) for row in first_rows(result.results, models)),
        release=release_in_words(result),
        binning=binning_in_words(result),
        pictures=forests(result.protocol, result.results, models, result.confidence),
        curves=curve_figures(result.curves),
        facts=(*round_facts(result), *([("data", ", ".join(data))] if data else [])),
        steps=_steps(result),
        roles=(*roles(result), opening(result)),
        together=words.together,
        revealed="" if study is None else revealed(study, result),
        terms=() if study is None else tuple(study_in_words(study, trial=not study.name)),
        caution=warning(result),
    )


def models_of(result: Result) -> tuple[str, ...]:
    """The models that were asked about; the others that rows name are differences of two."""
    if result.study is not None:
        return result.study.models
    return tuple(dict.fromkeys(row.model for row in result.results if row.model and row.p_value is None))


def title_of(result: Result) -> str:
    """What the numbers are, in a few words."""
    metrics = list(dict.fromkeys(row.metric for row in result.results))
    if result.curves:
        return "Curves over all parties"
    return f"{metric_in_words(metrics[0])} over all parties" if len(metrics) == 1 else "Metrics over all parties"


def first_rows(rows: Sequence[Row], models: Sequence[str]) -> list[Row]:
    """The first metric over all rows, of each of the first models."""
    wanted = [
        row
        for row in rows
        if row.metric == rows[0].metric
        and row.group is None
        and row.label in (None, MACRO)
        and not is_difference(row, models)
    ]
    return wanted[:_MOST_HEADLINES]


def headline(result: Result, row: Row) -> Number:
    """A number for the head of the page, with its interval and its binning error."""
    name = row_name(row, named=True)
    if row.value is None:
        return Number(name, "none", remark=row.error or row.note or "")
    digits = digits_of(result.protocol, row)
    interval = ""
    if row.low is not None and row.high is not None and result.confidence is not None:
        interval = f"{100 * result.confidence:g} % interval {fixed(row.low, digits)} to {fixed(row.high, digits)}"
    binning = "" if row.binning is None else f"binning error δ at most {short_binning(row.binning, digits)}"
    return Number(name, fixed(row.value, digits), interval, binning)


def file_names(paths: Sequence[Path]) -> list[str]:
    """The names of files, each once, with as many of their folders as it takes to tell them apart.

    >>> file_names([Path("north/scores.csv"), Path("south/scores.csv"), Path("north/scores.csv")])
    ['north/scores.csv', 'south/scores.csv']
    """
    different = list(dict.fromkeys(paths))
    names: list[str] = []
    for depth in range(1, max((len(path.parts) for path in different), default=0) + 1):
        names = [str(Path(*path.parts[-depth:])) for path in different]
        if len(set(names)) == len(names):
            break
    return names


def _steps(result: Result) -> tuple[str, ...]:
    """How this round went, first to last."""
    counting = _COUNT if is_one_auc(result) or result.curves else _COUNT_MANY
    return (counting.format(points=f"{result.decision_points:,}"), *words_of(result).steps)


def is_one_auc(result: Result) -> bool:
    """Whether one AUC without an interval is all there is."""
    return [row.metric for row in result.results] == ["auc"] and result.confidence is None and not result.curves


def number_name(row: Row) -> str:
    """What a number is of, in the words of a study: metric, model, class and group."""
    return ", ".join(filter(None, (row.metric, row.model, row.label and f"class {row.label}", row.group)))


def number_in_words(protocol: str, row: Row) -> Number:
    """Tell about one number of a round, with the digits that mean something."""
    name = number_name(row)
    if row.value is None:
        return Number(name, "none", remark=row.error or row.note or "")
    digits = digits_of(protocol, row)
    interval = "" if row.low is None or row.high is None else f"{fixed(row.low, digits)} to {fixed(row.high, digits)}"
    significance = None if row.p_value is None else p_in_words(row.p_value, row.resamples)
    value = with_binning(fixed(row.value, digits), row.binning, digits)
    return Number(name, value, interval, "; ".join(filter(None, (significance, row.note))))


def round_facts(result: Result) -> tuple[tuple[str, str], ...]:
    """What stands behind the figure: protocol, engine, sizes, and what is verified and hidden."""
    facts = [
        ("protocol", result.protocol),
        ("aggregator", words_of(result).aggregator),
        ("verified", verified_in_words(result)),
        ("engine", result.engine),
        ("parties", str(result.parties)),
        ("decision points", f"{result.decision_points:,}"),
    ]
    if result.confidence is not None:
        source = "resamples at the parties" if result.privacy is None else "the counts and their noise"
        facts.append(("intervals", f"{100 * result.confidence:g} %, from {source}"))
    if result.privacy is not None:
        facts.append(("privacy", privacy_in_words(result.privacy)))
    if result.hiding_bits is not None:
        facts.append(
            ("hiding", f"a denominator twice as large would show with an advantage of at most 1/{result.hiding_bits}")
        )
    return tuple(facts)


def roles(result: Result) -> tuple[Role, ...]:
    """What each role saw and sent, and how long it worked; what it saw are the protocol's own words."""
    words, study, sent, seconds = words_of(result), result.study, result.bytes, result.seconds
    told = [Role(view.who, view.sees, _sent(result, view.role), _worked(seconds, view.role)) for view in words.views]
    if study is not None and study.checkers:
        told.append(
            Role(f"checkers: {', '.join(study.checkers)}", "what the leader sees; they open the answer as well")
        )
    learns = study is not None and study.learns != "members"
    outcome = "The study lets it learn the result." if learns else "No key, no count, and not the result."
    upload, keys = _sent(result, "party"), _sent(result, words.views[-1].role)
    saw = (
        f"who takes part, and {result.parties} uploads{f' of {upload}' if upload else ''}, {words.upload} only; "
        f"from {words.views[-1].who}{f', {keys}' if keys else ''}: {words.leader_upload}. {outcome}"
    )
    return (*told, Role("the aggregator", saw, _size(sent.get("result")), _worked(seconds, "aggregator")))


def opening(result: Result) -> Role:
    """How long it took to open the answer."""
    answer = "the sum of the uploads" if result.curves else "the blinded answer"
    return Role("opening the result", f"{answer}, which says what is released", "", _worked(result.seconds, "decrypt"))


def _sent(result: Result, role: str) -> str:
    """What a role sent; who makes FHE keys, with these. Counts are released without any."""
    sent, with_keys = result.bytes, role != "party" and not result.curves
    return _size(sent.get(f"{role}_upload", 0) + (sent.get("keys", 0) if with_keys else 0))


def _size(count: int | None) -> str:
    return size(count) if count else ""


def _worked(seconds: Mapping[str, float], role: str) -> str:
    return duration(seconds[role]) if role in seconds else ""


def revealed(study: Study, result: Result) -> str:
    """What the numbers themselves give away to those who see them."""
    if result.privacy is not None:
        return f"Counts under noise, which hides any one row: {privacy_in_words(result.privacy)}."
    if result.curves:
        return "The counts themselves, by consent of all parties: the study says so."
    if study.precision is None:
        return "Exact fractions: whoever knows the number of rows can narrow down the counts behind them."
    found = disclosed_by(study, result.rows or None, rounds=1)
    if found.reveals == "ratios":
        return "The numbers, and no more: many different sets of counts would give the same ones."
    return (
        f"The counts of {', '.join(found.by)} as well, or nearly, to whoever knows the number of rows: about "
        f"{found.candidates:.2g} sets of counts fit these numbers."
    )
