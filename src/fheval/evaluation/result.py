"""What an evaluation gives: one row for each number that was asked for, and what the round cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from fheval.errors import ConfigError, UndefinedMetric
from fheval.metrics.curves import Curve
from fheval.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number, or why there is none.

    `label` is the class that was told from the rest, "macro" for the mean over classes. `precision` is how wide the
    rounding of the release leaves the value, "exact" where nothing was rounded. `p_value` is there for the difference
    of two models. `error` says why a metric is undefined, `note` that it was suppressed or what else to know.
    """

    metric: str
    model: str | None = None
    label: str | None = None
    group: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    precision: float | Literal["exact"] | None = None
    p_value: float | None = None
    note: str | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row of the JSON; `precision`, `p_value`, `note` and `error` only where there are any."""
        fields: dict[str, Any] = {
            "metric": self.metric,
            "model": self.model,
            "class": self.label,
            "group": self.group,
            "value": self.value,
            "low": self.low,
            "high": self.high,
        }
        extra = {name: getattr(self, name) for name in ("precision", "p_value", "note", "error")}
        return fields | {name: value for name, value in extra.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an evaluation gives; `to_dict` is the JSON of the command line.

    `precision` is the width of the rounding that was released, or "exact". `confidence` is the level of the intervals,
    if any. `curves` has the global counts where the parties consented to learn them. `seconds` has the mean over the
    parties under "party", and the work of the leader (set-up included), the aggregator and one decryption. `bytes` has
    one party's upload (mean), the leader's, and the aggregator's answer.
    """

    protocol: str
    engine: str
    parties: int
    decision_points: int
    results: tuple[Row, ...]
    precision: float | Literal["exact"]
    confidence: float | None = None
    verified: bool | None
    soundness_bits: float | None
    hiding_bits: int | None
    seconds: dict[str, float]
    bytes: dict[str, int]
    curves: tuple[Curve, ...] = ()
    fheval: str = __version__

    @property
    def auc(self) -> float:
        """The AUC, where the round gave one over all samples of one model."""
        row = only_auc(self.results)
        if row is None or row.value is None:
            raise ConfigError("This result has no single AUC. Look into its rows, `results`.")
        return row.value

    def value(
        self, metric: str, *, model: str | None = None, label: str | None = None, group: str | None = None
    ) -> float:
        """One number of the result; `UndefinedMetric` says why there is none."""
        for row in self.results:
            if (row.metric, row.model, row.label, row.group) == (metric, model, label, group):
                if row.value is None:
                    raise UndefinedMetric(row.error or f"{metric} has no value: {row.note}.")
                return row.value
        raise ConfigError(f"The round was not asked for {metric} (model {model}, class {label}, group {group}).")

    def to_dict(self) -> dict[str, Any]:
        """The fields of the JSON contract, plain values only; some of them only where there is something to say."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        fields["results"] = [row.to_dict() for row in self.results]
        fields["curves"] = [_curve_fields(curve) for curve in self.curves]
        for name in ("hiding_bits", "confidence", "curves"):
            if not fields[name]:
                del fields[name]
        row = only_auc(self.results)
        return fields if row is None else {**fields, "auc": row.value}


def only_auc(rows: Iterable[Row]) -> Row | None:
    """The row of the AUC, where there is one over all samples of one model."""
    found = [row for row in rows if row.metric == "auc" and row.label is None and row.group is None]
    return found[0] if len(found) == 1 else None


def _curve_fields(curve: Curve) -> dict[str, Any]:
    where = {"model": curve.where.model or None, "class": curve.where.label, "group": curve.where.group}
    return where | curve.to_dict()
