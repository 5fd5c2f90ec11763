"""The AUC straight from its meaning, as the tests' oracle: how often a positive outranks a negative."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction


def pairwise_auc(parties: Iterable[tuple[Sequence[int], Sequence[float]]]) -> Fraction:
    """Compare every positive with every negative of all parties; a tie counts one half."""
    samples = [pair for labels, scores in parties for pair in zip(labels, scores, strict=True)]
    positives = [score for label, score in samples if label == 1]
    negatives = [score for label, score in samples if label == 0]
    halves = sum((high > low) * 2 + (high == low) for high in positives for low in negatives)
    return Fraction(halves, 2 * len(positives) * len(negatives))
