"""Every protocol with real encryption, on every engine that loads here: the pooled ratio, or that there is none."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from fheval import Counts
from fheval.engines import available_engines, load_engine
from fheval.errors import UndefinedMetric
from fheval.metrics.registry import auc_batch
from fheval.protocols import paper_malicious, paper_semi_honest
from fheval.protocols.round import Verdict
from protocols.rounds import Cast, a_round, contributions_of, curve, exact, pooled

ENGINES = available_engines()
POINTS = 6
COUNTS = [curve(40, 70, POINTS), curve(0, 25, POINTS), Counts.zero(POINTS), curve(9, 1, POINTS)]

# The options of each variant, and how far its result may be off: half the precision that was asked for, and noise.
VARIANTS: dict[str, tuple[str, dict[str, Any], float]] = {
    "padded": ("padded", {}, 0.51e-4),
    "padded-exact": ("padded", {"precision": None}, 0),
    "padded-verified": ("padded-verified", {}, 0),
    "paper": ("paper-semi-honest", {"packing": "paper"}, 1e-6),
    "compact": ("paper-semi-honest", {"packing": "compact"}, 1e-6),
    "paper-rounded": ("paper-semi-honest", {"packing": "paper", "precision": 1e-2}, 0.51e-2),
    "compact-rounded": ("paper-semi-honest", {"packing": "compact", "precision": 1e-2}, 0.51e-2),
    "paper-malicious": ("paper-malicious", {}, 5e-6),
}


@cache
def cast_of(engine: str, variant: str) -> Cast:
    """One set of keys for each protocol and packing; every use is a new round."""
    if variant.endswith("-rounded"):
        return cast_of(engine, variant.removesuffix("-rounded")).next(precision=VARIANTS[variant][1]["precision"])
    protocol, options, _ = VARIANTS[variant]
    loaded = load_engine(engine)
    return Cast(a_round(protocol, 4, decision_points=POINTS, engine=loaded, **options), loaded)


@cache
def played(engine: str, variant: str) -> Verdict:
    cast = cast_of(engine, variant).next()
    return cast.open(cast.result_of(cast.served(contributions_of(cast.round, COUNTS))))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_result_is_that_of_the_pooled_counts(engine: str, variant: str) -> None:
    outcome = played(engine, variant)
    assert abs(Fraction(outcome.ratio()) - exact(pooled(COUNTS))) <= VARIANTS[variant][2]
    assert outcome.roster == cast_of(engine, variant).round.parties
    assert outcome.verified is (True if variant in ("padded-verified", "paper-malicious") else None)


@pytest.mark.skipif(len(ENGINES) < 2, reason="there is one engine here")
@pytest.mark.parametrize("variant", ["padded-exact", "padded-verified", "paper", "compact", "paper-malicious"])
def test_results_agree_across_engines(variant: str) -> None:
    for one, other in combinations(ENGINES, 2):
        difference = Fraction(played(one, variant).ratio()) - Fraction(played(other, variant).ratio())
        assert abs(difference) <= 2 * VARIANTS[variant][2]


# One class only: there is no value, and noise must not be taken for one.

ONE_CLASS: dict[str, Callable[[int], Counts]] = {
    "positives-only": lambda count: curve(count, 0, POINTS),
    "negatives-only": lambda count: curve(0, count, POINTS),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", ["padded", "padded-exact", "padded-verified"])
@pytest.mark.parametrize("one_class", ONE_CLASS)
def test_one_class_only_is_undefined(engine: str, variant: str, one_class: str) -> None:
    cast = cast_of(engine, variant).next()
    counts = [ONE_CLASS[one_class](200)] * 4
    with pytest.raises(UndefinedMetric):
        cast.open(cast.result_of(cast.served(contributions_of(cast.round, counts))))


def noisiest(cast: Cast, one_class: str, max_samples: int, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """As many samples of one class as the round allows, and the largest c: what noise there is, shows."""
    for module in (paper_semi_honest, paper_malicious):
        monkeypatch.setattr(module, "draw_blinding", lambda _, exponents: 2.0 ** exponents[1] * 0.999)
    loud = cast.next(max_samples=max_samples, batch=auc_batch(POINTS, max_samples))
    counts = [ONE_CLASS[one_class](max_samples // 4)] * 4
    return loud.open(loud.result_of(loud.served(contributions_of(loud.round, counts))))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", ["paper", "compact", "paper-malicious"])
@pytest.mark.parametrize("one_class", ONE_CLASS)
@pytest.mark.parametrize("max_samples", [1 << 4, 1 << 24])
def test_noise_is_not_taken_for_a_class(
    engine: str, variant: str, one_class: str, max_samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UndefinedMetric):
        noisiest(cast_of(engine, variant), one_class, max_samples, monkeypatch)


@pytest.mark.parametrize("engine", ENGINES)
def test_with_the_widest_blinding_noise_would_be_taken_for_a_class(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: without the bound on c a ratio of noise comes out."""
    monkeypatch.setattr(paper_semi_honest, "ZERO_NOISE", 0.0)
    noisiest(cast_of(engine, "paper"), "positives-only", 1 << 4, monkeypatch)
