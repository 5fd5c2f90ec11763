"""What is told about an evaluation: the figure, how it came about, who saw what, its cost, and what to beware of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fheval.evaluation import Result, Row
from fheval.report.wording import (
    MOST_DECIMALS,
    binning_in_words,
    decimals,
    duration,
    release_in_words,
    shown_with_binning,
    size,
    verified_in_words,
    warning,
    with_binning,
    words_of,
)

_COUNT = (
    "Every party counts, at {points} public decision points, how many of its positive and of its negative samples "
    "score above each. Labels and scores stay where they are."
)
_COUNT_MANY = (
    "Every party counts what the metrics need from its own rows: whole numbers, at public decision points where there "
    "are any. Labels and scores stay where they are."
)


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
    """An evaluation in words, for a page or a terminal.

    `figure` is the one number that was asked for; where there are several, `numbers` has them instead.
    """

    title: str
    figure: str | None
    release: str
    facts: tuple[tuple[str, str], ...]
    steps: tuple[str, ...]
    roles: tuple[Role, ...]
    caution: str | None
    numbers: tuple[Number, ...] = ()
    binning: str | None = None


def account_of(result: Result, data: Sequence[str] = ()) -> Account:
    """Tell about a round; `data` names the files that the parties' data came from."""
    alone = is_one_auc(result)
    return Account(
        title="AUC over all parties" if alone else "Metrics over all parties",
        figure=shown_with_binning(result) if alone else None,
        release=release_in_words(result),
        binning=binning_in_words(result),
        facts=(*round_facts(result), *([("data", ", ".join(data))] if data else [])),
        steps=_steps(result),
        roles=_roles(result),
        caution=warning(result),
        numbers=() if alone else tuple(number_in_words(result.protocol, row) for row in result.results),
    )


def _steps(result: Result) -> tuple[str, ...]:
    """How this round went, first to last."""
    counting = _COUNT if is_one_auc(result) else _COUNT_MANY
    return (counting.format(points=f"{result.decision_points:,}"), *words_of(result).steps)


def is_one_auc(result: Result) -> bool:
    """Whether one AUC without an interval is all there is."""
    return [row.metric for row in result.results] == ["auc"] and result.confidence is None and not result.curves


def number_in_words(protocol: str, row: Row) -> Number:
    """Tell about one number of a round, with the digits that mean something."""
    name = ", ".join(filter(None, (row.metric, row.model, row.label and f"class {row.label}", row.group)))
    if row.value is None:
        return Number(name, "none", remark=row.error or row.note or "")
    digits = MOST_DECIMALS if row.precision is None else decimals(protocol, row.precision or "exact")
    interval = "" if row.low is None or row.high is None else f"{row.low:.{digits}f} to {row.high:.{digits}f}"
    significance = None if row.p_value is None else f"p = {row.p_value:.2g}"
    value = with_binning(f"{row.value:.{digits}f}", row.binning, digits)
    return Number(name, value, interval, "; ".join(filter(None, (significance, row.note))))


def round_facts(result: Result) -> tuple[tuple[str, str], ...]:
    """What stands behind the figure: protocol, engine, sizes, and what is verified and hidden."""
    facts = [
        ("protocol", result.protocol),
        ("aggregator", words_of(result).aggregator),
        ("verified", verified_in_words(result)),
        ("engine", result.engine),
        ("parties", str(result.parties)),
        ("decision points", str(result.decision_points)),
    ]
    if result.confidence is not None:
        facts.append(("intervals", f"{result.confidence:.0%}, from resamples at the parties"))
    if result.hiding_bits is not None:
        facts.append(
            ("hiding", f"a denominator twice as large would show with an advantage of at most 1/{result.hiding_bits}")
        )
    return tuple(facts)


def _roles(result: Result) -> tuple[Role, ...]:
    words, sent, seconds = words_of(result), result.bytes, result.seconds
    upload, leader_upload = size(sent["party_upload"]), size(sent["leader_upload"] + sent["keys"])
    return (
        Role("each party", "its own data, and the result", upload, duration(seconds["party"])),
        Role("leader, one of them", "the same; it made the keys", leader_upload, duration(seconds["leader"])),
        Role(
            "aggregator",
            f"{result.parties} uploads of {upload}, {words.upload} only; {leader_upload} from the leader, "
            f"{words.leader_upload}; no key that opens any of it, no count, not even the result",
            size(sent["result"]),
            duration(seconds["aggregator"]),
        ),
        Role("opening the result", "the blinded result, which says what is released", "", duration(seconds["decrypt"])),
    )
