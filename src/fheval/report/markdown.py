"""A round as Markdown for a paper and a model card: items of TRIPOD+AI that an evaluation answers, and a section.

The items are numbered as in the TRIPOD+AI statement (Collins and others, BMJ 2024;385:e078378). What only the authors
know is listed as such, so that nobody takes this file for a filled-in checklist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from fheval.evaluation import Result, Row
from fheval.report.account import Account, models_of, number_in_words
from fheval.report.forests import is_difference, row_name
from fheval.report.wording import metric_in_words, words_of
from fheval.version import __version__

_LEFT_TO_AUTHORS = (
    "1 to 3 title, abstract and background; 5 and 6 sources of data and participants; 7 preparation of the data; "
    "8 and 9 outcome and predictors; 11 missing data; 12a to 12c, 12f and 12g how the model was made, updated and "
    "applied; 13 class imbalance; 15 the model's output; 16 how development and evaluation differ; 17 ethical "
    "approval; 18a, 18b, 18d funding, conflicts of interest and registration; 19 involvement of patients and the "
    "public; 20 and 21 participants and numbers of events; 22 and 24 the model's specification and updating; 25 "
    "to 27 interpretation, limitations and usability"
)


def round_markdown(result: Result, account: Account, when: datetime) -> str:
    """The items of TRIPOD+AI that the round answers, then a section for a model card."""
    title = f"{account.title}: {account.study}" if account.study else account.title
    parts = [
        f"# {title}",
        f"Made by fheval {__version__} on {when.isoformat(sep=' ', timespec='minutes')}.",
        "## TRIPOD+AI: what this evaluation answers",
        _table(("item", "answer"), _items(result, account)),
        f"Left to the authors: {_LEFT_TO_AUTHORS}.",
        "## Model card: evaluation",
        *_card(result, account),
    ]
    return "\n\n".join(parts) + "\n"


def _items(result: Result, account: Account) -> Iterator[tuple[str, str]]:
    study, words = result.study, words_of(result)
    metrics = ", ".join(dict.fromkeys(metric_in_words(row.metric) for row in result.results))
    groups = sorted({row.group for row in result.results if row.group})
    yield "4 objectives", " ".join(account.terms[:1]) or f"{metrics} of the pooled rows."
    least = (
        "" if study is None or study.least_rows is None else f" The study asks for {study.least_rows:,} rows or more."
    )
    yield "10 sample size", f"{result.parties} parties; how many rows each has is not revealed.{least}"
    yield "12d, 23b heterogeneity across sites", _heterogeneity(result.results)
    yield "12e performance measures", f"{metrics}, at {result.decision_points:,} decision points. {account.release}."
    if result.confidence is not None:
        drawn = "whole clusters" if study is not None and study.by_cluster else "rows"
        replicates = "" if study is None else f"{study.replicates} "
        source = f"percentile, from {replicates}resamples of {drawn}, drawn at the parties"
        if result.privacy is not None:
            source = "by the delta method, from the noisy counts; noise and chance are included"
        yield "12e intervals", f"{100 * result.confidence:g} %, {source}."
    yield "14 fairness", f"Evaluated by themselves: {', '.join(groups)}." if groups else "No subgroup was evaluated."
    yield "18c protocol", _study(result)
    yield (
        "18e data sharing",
        f"No rows are shared. {words.together} What the numbers themselves say: {account.revealed or 'see the study.'}",
    )
    yield "18f code", f"fheval {result.fheval}, protocol {result.protocol}, engine {result.engine}."
    yield "23a performance", "; ".join(_told(result, result.results))


def _heterogeneity(rows: Sequence[Row]) -> str:
    found = [row for row in rows if row.metric in ("auc-mean", "auc-spread", "auc-i2")]
    if not found:
        return "Not asked for; the metrics auc-mean, auc-spread and auc-i2 would say it."
    return "; ".join(f"{row_name(row, named=True)} {row.value:.4g}" for row in found if row.value is not None)


def _study(result: Result) -> str:
    if result.study is None:
        return "No study was written down."
    name = f"{result.study.name}, " if result.study.name else ""
    return f"Study {name}SHA-256 {result.study.hash().hex()}, fixed before anyone counted."


def _told(result: Result, rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        number = number_in_words(result.protocol, row)
        interval = f" ({number.interval})" if number.interval else ""
        remark = f", {number.remark}" if number.remark else ""
        yield f"{row_name(row, named=True)} {number.value}{interval}{remark}"


def _card(result: Result, account: Account) -> Iterator[str]:
    rows = [row for row in result.results if not is_difference(row, models_of(result))]
    cells = [(row_name(row, named=True), number_in_words(result.protocol, row)) for row in rows]
    yield f"Evaluated over {result.parties} organisations without pooling their rows ({account.release})."
    yield _table(
        ("of", "value", "interval", "remark"),
        [(name, number.value, number.interval, number.remark) for name, number in cells],
    )
    yield "A number behind ± bounds what counting at decision points did to the value; it is no interval."
    if account.caution:
        yield f"Beware: {account.caution}"


def _table(heads: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> str:
    """A table, without columns in which nothing would stand; what could end a cell or begin markup is escaped."""
    lines = [tuple(_cell(cell) for cell in row) for row in rows]
    kept = [number for number, _ in enumerate(heads) if any(line[number] for line in lines)]
    shown = [heads, ("---",) * len(heads), *lines]
    return "\n".join("| " + " | ".join(line[number] for number in kept) + " |" for line in shown)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
