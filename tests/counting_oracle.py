"""A second, naive implementation of counting, straight from the definition, as the tests' oracle."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def naive_counts(labels: Sequence[int], scores: Sequence[float], cuts: Sequence[float]) -> tuple[list[int], list[int]]:
    """TP^n and FP^n by comparing every score with every cut; the first point counts none, the last one all."""
    tp, fp = [], []
    for n, cut in enumerate(cuts):
        if n == 0:
            positive = [False] * len(scores)
        elif n == len(cuts) - 1:
            positive = [True] * len(scores)
        else:
            positive = [float(score) > float(cut) for score in scores]
        tp.append(sum(1 for hit, label in zip(positive, labels, strict=True) if hit and label == 1))
        fp.append(sum(1 for hit, label in zip(positive, labels, strict=True) if hit and label == 0))
    return tp, fp


def naive_auc(tp: Sequence[int], fp: Sequence[int]) -> Fraction:
    """The area under the polygon through the points (FP^n/Q, TP^n/P)."""
    area = Fraction(0)
    for n in range(1, len(tp)):
        area += Fraction(tp[n] + tp[n - 1], 2) * (fp[n] - fp[n - 1])
    return area / (tp[-1] * fp[-1])
