"""Curves of a round whose counts were released: ROC, precision-recall, calibration and decision curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import sqrt

from fheval.drawing.figures import Trace, calibration, decision_curve, precision_recall, roc
from fheval.drawing.markup import Element
from fheval.errors import UndefinedMetric
from fheval.evaluation.curves import Curve
from fheval.evaluation.noisy_curves import NoisyCurve
from fheval.metrics.fixed_point import Floats
from fheval.report.wording import fixed

# As many lines in one picture stay apart by colour and marker.
_MOST_LINES = 5
_Z = 1.959964  # of a 95 % interval


# What can be drawn of counts.
KINDS = ("roc", "precision-recall", "calibration", "decision")


def curve_figures(curves: Sequence[Curve], kinds: Sequence[str] = KINDS) -> tuple[Element, ...]:
    """All pictures of these kinds; those of models over all rows first, then those of groups."""
    return tuple(figure for title, part in _panels(curves) for figure in _figures(title, part, kinds))


def _panels(curves: Sequence[Curve]) -> Iterator[tuple[str, Sequence[Curve]]]:
    """What goes into one picture: the models of a class, or the groups of a model, and what to call it."""

    def kind(curve: Curve) -> tuple[bool, str, str]:
        where = curve.where
        return where.group is not None, where.label or "", where.model if where.group is not None else ""

    for (_, label, model), part in groupby(sorted(curves, key=kind), key=kind):
        lines = list(part)
        title = ", ".join(filter(None, (model, label and f"class {label}", "groups" if model else "")))
        for first in range(0, len(lines), _MOST_LINES):
            yield title, lines[first : first + _MOST_LINES]


def _figures(title: str, curves: Sequence[Curve], kinds: Sequence[str]) -> Iterator[Element]:
    of = f", {title}" if title else ""
    if "roc" in kinds and (traces := _traces(curves, roc_trace)):
        yield roc(traces, title=f"ROC{of}", caption=_banded(curves))
    if "precision-recall" in kinds and (traces := _traces(curves, precision_recall_trace)):
        yield precision_recall(traces, prevalence=_prevalence(curves), title=f"Precision and recall{of}")
    if "calibration" in kinds and (traces := _traces(curves, calibration_trace)):
        yield calibration(
            traces,
            title=f"Calibration{of}",
            caption="On the dashed line, as many are positive as predicted; above it, more are. "
            f"Bars: {_intervals(curves)}.",
        )
    if "decision" in kinds and (traces := _traces(curves, net_benefit_trace)):
        yield decision_curve(traces, treat_all=_acting_on_all(curves), title=f"Decision curve{of}")


def _banded(curves: Sequence[Curve]) -> str | None:
    """What the band of a curve under noise is; None where there is none."""
    levels = {curve.level for curve in curves if isinstance(curve, NoisyCurve)} - {0.0}
    if not levels:
        return None
    return (
        f"Towards the upper left is better. Bands: at each decision point the true positive rate lies within with "
        f"{100 * levels.pop():g} % confidence, noise and chance included."
    )


def _intervals(curves: Sequence[Curve]) -> str:
    """What the bars of a calibration are."""
    levels = {curve.level for curve in curves if isinstance(curve, NoisyCurve)}
    return f"{100 * levels.pop():g} % intervals, noise included" if levels else "95 % intervals (Wilson)"


def _traces(curves: Sequence[Curve], trace: Callable[[Curve], Trace]) -> list[Trace]:
    drawn = []
    for curve in curves:
        try:
            drawn.append(trace(curve))
        except UndefinedMetric:
            continue
    return drawn


def name_of(curve: Curve) -> str:
    """What tells a line from the others of its picture."""
    where = curve.where
    return where.group or where.model or "all rows"


def roc_trace(curve: Curve) -> Trace:
    """The ROC curve, with its area in its name."""
    false_rate, true_rate = curve.roc()
    name = f"{name_of(curve)}, AUC {fixed(curve.auc(), 3)}"
    return Trace(name, false_rate.tolist(), true_rate.tolist(), *_band(curve, NoisyCurve.roc_band))


def precision_recall_trace(curve: Curve) -> Trace:
    """Precision against recall, with the average precision in its name."""
    precision, recall = curve.precision_recall()
    average = fixed(curve.average_precision(), 3)
    band = _band(curve, NoisyCurve.precision_band)
    return Trace(f"{name_of(curve)}, average precision {average}", recall.tolist(), precision.tolist(), *band)


def calibration_trace(curve: Curve) -> Trace:
    """Shares of positives against predicted probabilities, each share with its interval: Wilson's, or under noise."""
    means, shares, samples = curve.reliability()
    if isinstance(curve, NoisyCurve):
        return Trace(name_of(curve), means.tolist(), shares.tolist(), *_band(curve, NoisyCurve.reliability_band))
    ends = [_wilson(share, count) for share, count in zip(shares.tolist(), samples.tolist(), strict=True)]
    lows, highs = zip(*ends, strict=True)
    return Trace(name_of(curve), means.tolist(), shares.tolist(), lows, highs)


def net_benefit_trace(curve: Curve) -> Trace:
    """Net benefit against the threshold, lowest threshold first."""
    points, benefit, _ = curve.net_benefit()
    low, high = _band(curve, NoisyCurve.net_benefit_band)
    return Trace(name_of(curve), points[::-1].tolist(), benefit[::-1].tolist(), low[::-1], high[::-1])


def _band(curve: Curve, band: Callable[[NoisyCurve], tuple[Floats, Floats]]) -> tuple[Sequence[float], Sequence[float]]:
    """Between what a curve under noise lies; nothing of one that is as it is."""
    if not isinstance(curve, NoisyCurve) or not curve.level:
        return (), ()
    low, high = band(curve)
    return low.tolist(), high.tolist()


def _acting_on_all(curves: Sequence[Curve]) -> Trace | None:
    """The net benefit of acting on everybody, where all lines are of the same rows."""
    if _prevalence(curves) is None:
        return None
    points, _, all_of_them = curves[0].net_benefit()
    return Trace("act on all", points[::-1].tolist(), all_of_them[::-1].tolist())


def _prevalence(curves: Sequence[Curve]) -> float | None:
    """The share of positives, where all lines of a picture are of the same rows; under noise, as the first has it."""
    found = {(int(curve.tp[-1]), int(curve.fp[-1])) for curve in curves}
    noisy = all(isinstance(curve, NoisyCurve) and curve.where.group is None for curve in curves)
    positives, negatives = int(curves[0].tp[-1]), int(curves[0].fp[-1])
    return None if (len(found) > 1 and not noisy) or not positives + negatives else positives / (positives + negatives)


def _wilson(share: float, samples: int) -> tuple[float, float]:
    """The interval of a share of so many samples.

    >>> tuple(round(end, 3) for end in _wilson(0.5, 100))
    (0.404, 0.596)
    """
    weight = _Z * _Z / samples
    middle = (share + weight / 2) / (1 + weight)
    half = _Z / (1 + weight) * sqrt(share * (1 - share) / samples + weight / (4 * samples))
    return max(0.0, middle - half), min(1.0, middle + half)
