"""Guessing the anchor's slots works at toy sizes, as often as the paper's bound says."""

from __future__ import annotations

from math import log2

import numpy as np
import numpy.typing as npt
import pytest

from fheval.protocols import paper_malicious
from fheval.protocols.paper_malicious import soundness_bits
from fheval.secrets import Randomness
from fheval_lab.attacks import on_slots
from fheval_lab.attacks.guessing import GuessRate, guess_rate

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("decision_points", "splits", "tries"), [(3, 1, 360), (2, 2, 500), (3, 2, 1100)])
def test_the_anchor_is_guessed_as_often_as_the_bound_says(decision_points: int, splits: int, tries: int) -> None:
    rate = guess_rate(decision_points, splits, tries)
    assert rate.holds, rate
    # Never to succeed would be within the luck of so few tries only if the bound were far smaller.
    assert rate.forged > 0 or tries * rate.bound < 8
    assert -log2(rate.bound) == pytest.approx(soundness_bits(decision_points, splits), abs=0.06)


def test_a_permutation_that_is_known_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_order(rng: Randomness, count: int) -> npt.NDArray[np.intp]:
        return np.arange(count)

    def backwards(rng: Randomness, count: int) -> npt.NDArray[np.intp]:
        return np.arange(count)[::-1]

    monkeypatch.setattr(paper_malicious, "permutation", in_order)
    monkeypatch.setattr(on_slots, "permutation", backwards)
    rate = guess_rate(3, 2, tries=40)
    assert rate.forged == 40
    assert not rate.holds


@pytest.mark.parametrize(("forged", "holds"), [(40, True), (25, True), (85, False), (4, False)])
def test_a_rate_far_from_the_bound_does_not_hold(forged: int, holds: bool) -> None:
    assert GuessRate(decision_points=3, splits=1, tries=360, forged=forged).holds is holds
