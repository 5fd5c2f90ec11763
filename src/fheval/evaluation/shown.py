"""How a result is shown: what results need of the pages above them, and numbers by flat names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fheval.errors import LocalProtocolError

if TYPE_CHECKING:
    from fheval.evaluation.result import Result, Row


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """Pictures on a page of their own, which needs nothing from elsewhere."""

    page: str

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page."""
        Path(path).write_text(self.page, encoding="utf-8")

    def _repr_html_(self) -> str:
        # A page within a page, so that neither's style reaches the other's.
        return f'<iframe srcdoc="{escape(self.page)}" style="width: 100%; height: 40em; border: 0"></iframe>'


class Presenter(Protocol):
    """Shows results to people; it lies above this room and says so with `present_with`."""

    def text(self, result: Result) -> str: ...

    def html(self, result: Result) -> str: ...

    def page(self, result: Result) -> str: ...

    def plot(self, result: Result, kind: str | None) -> Drawing: ...


_presenters: list[Presenter] = []


def present_with(presenter: Presenter) -> None:
    """Let results be shown by this."""
    _presenters[:] = [presenter]


def presenter() -> Presenter:
    """What shows results."""
    if not _presenters:
        raise LocalProtocolError("Nobody shows results yet. Import fheval, whose `evaluate` brings pages along.")
    return _presenters[0]


# MLflow takes letters, digits and _ - . : / or a blank in the name of a metric, and refuses anything else.
_SPELT = {"@": ":", "=": ":", "+": "plus", "<": "lt", ">": "gt"}
_REFUSED = re.compile(r"[^\w\-.:/ ]")


def flat_metrics(rows: Iterable[Row]) -> dict[str, float]:
    """Numbers by flat names, in characters that loggers of experiments take.

    >>> from fheval import Row
    >>> flat_metrics([Row(metric="auc", model="new", value=0.8, low=0.7, high=0.9)])
    {'auc/new': 0.8, 'auc/new.low': 0.7, 'auc/new.high': 0.9}
    >>> flat_metrics([Row(metric="f1@0.3", group="age=<50", value=0.8)])
    {'f1:0.3/age:lt50': 0.8}
    """
    found = {}
    for row in rows:
        name = "/".join(filter(None, (row.metric, row.model, row.label, row.group)))
        name = _REFUSED.sub(lambda sign: _SPELT.get(sign[0], f"_{ord(sign[0]):x}"), name)
        for ending, number in (("", row.value), (".low", row.low), (".high", row.high)):
            if number is not None:
                found[name + ending] = number
    return found
