"""What a metric is called in a request: `auc`, `accuracy@0.5`, `log-loss`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

from fheval.counting import Grid
from fheval.errors import ConfigError
from fheval.metrics.registry import METRICS, Metric, Setting

DEFAULT_THRESHOLD = 0.5

_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Spec:
    """A metric's name and, where it has one, the threshold above which a score is called positive."""

    name: str
    threshold: float | None = None

    @property
    def metric(self) -> Metric:
        return METRICS[self.name]

    def __str__(self) -> str:
        return self.name if self.threshold is None else f"{self.name}@{self.threshold!r}"

    def setting(self, grid: Grid, targets: tuple[float, float] | None) -> Setting:
        """Check that threshold, scores and targets go with the metric, and put them together."""
        metric = self.metric
        if metric.probabilities and grid.scores == "any":
            raise ConfigError(
                f"{self} needs probabilities or logits, and listed decision points take any score. Use an even grid."
            )
        if metric.targets and targets is None:
            raise ConfigError(f"{self} needs the public range of the true and predicted values. Give a target range.")
        return Setting(
            grid=grid,
            cut=0.0 if self.threshold is None else _cut(self, self.threshold, grid),
            targets=targets or (0.0, 1.0),
        )


def parse_spec(text: str) -> Spec:
    """Read a metric's name, with a threshold behind an @ where it takes one.

    >>> parse_spec("f1@0.3")
    Spec(name='f1', threshold=0.3)
    >>> str(parse_spec("accuracy"))
    'accuracy@0.5'
    """
    name, at, behind = text.strip().partition("@")
    if name not in METRICS:
        raise ConfigError(f"There is no metric {name!r}. Choose among: {', '.join(METRICS)}.")
    if not METRICS[name].threshold:
        if at:
            raise ConfigError(f"{name} takes no threshold. Leave out what follows the @.")
        return Spec(name)
    try:
        threshold = float(behind) if at else DEFAULT_THRESHOLD
    except ValueError:
        raise ConfigError(f"{behind!r} in {text!r} is not a threshold. Use a number, such as {name}@0.5.") from None
    if not math.isfinite(threshold):
        raise ConfigError(f"{behind!r} in {text!r} is not a finite threshold. Use a number, such as {name}@0.5.")
    return Spec(name, threshold + 0.0)  # + 0.0 makes one zero of two


def _cut(spec: Spec, threshold: float, grid: Grid) -> float:
    """The threshold on the scale of the scores: for logits its own logit, the same on every platform."""
    if grid.scores == "any":
        return threshold
    if not 0.0 <= threshold <= 1.0:
        raise ConfigError(f"The threshold of {spec} is no probability. Use one between 0 and 1.")
    if grid.scores == "probability":
        return threshold
    if threshold in (0.0, 1.0):
        return math.inf if threshold else -math.inf
    with localcontext() as context:
        context.prec = _DIGITS
        exact = Decimal(threshold)
        return float((exact / (1 - exact)).ln())
