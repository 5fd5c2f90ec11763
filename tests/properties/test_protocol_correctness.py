"""Every protocol gives the ratio of the pooled counts, whatever the split; on the plaintext engine."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fheval.errors import UndefinedMetric
from fheval.protocols.round import Form, Round
from protocols.rounds import Cast, a_round, contributions_of, counts_of, exact, plain, play, pooled, sides_of

Sample = tuple[int, float]
PUBLIC_BOUND = 1 << 12

# Ties, both ends, points of the grid and what lies between them.
SCORES = st.one_of(st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.75, 1.0]), st.floats(0, 1))
SAMPLES = st.lists(st.tuples(st.integers(0, 1), SCORES), max_size=6)

VARIANTS = [
    pytest.param("padded", {}, id="padded"),
    pytest.param("padded", {"precision": 0.3}, id="padded-coarse"),
    pytest.param("padded", {"precision": None}, id="padded-exact"),
    pytest.param("padded-verified", {}, id="padded-verified"),
    pytest.param("padded-verified", {"runs": 2}, id="padded-verified-2-runs"),
    pytest.param("paper-semi-honest", {"packing": "paper"}, id="paper-semi-honest"),
    pytest.param("paper-semi-honest", {"packing": "compact"}, id="paper-semi-honest-compact"),
    pytest.param("paper-semi-honest", {"packing": "paper", "precision": 1e-2}, id="paper-semi-honest-rounded"),
    pytest.param("paper-semi-honest", {"packing": "compact", "precision": 1e-2}, id="compact-rounded"),
    pytest.param("paper-malicious", {}, id="paper-malicious"),
    pytest.param("paper-malicious", {"splits": 1}, id="paper-malicious-1-split"),
]


@st.composite
def consortia(draw: st.DrawFn) -> tuple[int, list[list[Sample]]]:
    """A number of decision points, and the samples of each of three to six parties."""
    return draw(st.integers(2, 12)), draw(st.lists(SAMPLES, min_size=3, max_size=6))


def error_allowed(round_: Round) -> float:
    """How far the released ratio may be from the true one; zero where it must be the very fraction."""
    if round_.protocol == "padded-verified" or (round_.protocol, round_.precision) == ("padded", None):
        return 0
    if round_.precision is not None:
        # Half of it, and in `padded` a hundred and twenty-eighth of that for the noise terms.
        return round_.precision / 2 * (1 + 2**-7)
    # Doubles only: the masks of the malicious setting cost some digits.
    return 1e-7 if round_.protocol == "paper-malicious" else 1e-10


@pytest.mark.parametrize(("protocol", "options"), VARIANTS)
@given(consortium=consortia())
@settings(max_examples=25)
def test_the_released_ratio_is_that_of_the_pooled_counts(
    protocol: str, options: dict[str, Any], consortium: tuple[int, list[list[Sample]]]
) -> None:
    decision_points, parties = consortium
    counts = [counts_of(samples, decision_points) for samples in parties]
    whole = pooled(counts)
    round_ = a_round(
        protocol,
        len(parties),
        decision_points=decision_points,
        max_samples=PUBLIC_BOUND,
        leader="hospital-3",
        **options,
    )
    contributions = contributions_of(round_, counts)
    if not whole.denominator():
        with pytest.raises(UndefinedMetric):
            play(round_, contributions)
        return
    outcome = play(round_, contributions)
    assert abs(Fraction(outcome.ratio()) - exact(whole)) <= error_allowed(round_)
    assert float(exact(whole)) == whole.auc()
    assert outcome.roster == round_.parties


@pytest.mark.parametrize("protocol", ["padded-verified", "paper-malicious"])
@given(
    samples=st.lists(st.tuples(st.integers(0, 1), SCORES), min_size=2, max_size=12),
    random=st.randoms(use_true_random=False),
)
@settings(max_examples=10)
def test_neither_the_split_nor_the_order_of_arrival_changes_the_result(
    protocol: str, samples: list[Sample], random: Random
) -> None:
    assume(len({label for label, _ in samples}) == 2)
    results = []
    for parties in (3, 5):
        owners = [random.randrange(parties) for _ in samples]
        split = [
            [sample for sample, owner in zip(samples, owners, strict=True) if owner == me] for me in range(parties)
        ]
        cast = Cast(a_round(protocol, parties, decision_points=5, max_samples=PUBLIC_BOUND))
        contributions = contributions_of(cast.round, [counts_of(own, 5) for own in split])
        arrival = list(contributions)
        random.shuffle(arrival)
        served = cast.served({party: contributions[party] for party in arrival})
        outcome = cast.open(cast.result_of(served))
        assert outcome.roster == tuple(arrival)
        results.append(Fraction(outcome.ratio()))
    assert abs(results[0] - results[1]) <= (0 if protocol == "padded-verified" else 1e-7)


# Left and right factors.
Sides = tuple[list[int], list[int]]


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Form], list[list[Sides]]]:
    """Several forms of different shapes, and what each of three parties contributes to each."""
    shapes = draw(st.lists(st.tuples(st.integers(2, 5), SAMPLES, SAMPLES, SAMPLES), min_size=2, max_size=4))
    forms: list[Form] = []
    parties: list[list[Sides]] = [[], [], []]
    for points, *of_party in shapes:
        forms.append(Form(numerator=points - 1, denominator=1, magnitude=draw(st.sampled_from([2**12, 2**30]))))
        for party, samples in zip(parties, of_party, strict=True):
            party.append(sides_of(counts_of(samples, points)))
    return forms, parties


@pytest.mark.parametrize(
    ("protocol", "precision"), [("padded", 1e-3), ("padded", None), ("padded-verified", None)], ids=str
)
@given(batch=batches())
@settings(max_examples=12)
def test_a_batch_gives_each_form_its_own_ratio(
    protocol: str, precision: float | None, batch: tuple[list[Form], list[list[Sides]]]
) -> None:
    forms, parties = batch
    expected = [ratio_of(form, [party[index] for party in parties]) for index, form in enumerate(forms)]
    round_ = a_round(protocol, 3, forms=forms, precision=precision)
    contributions = {name: plain(*own) for name, own in zip(round_.parties, parties, strict=True)}
    if not any(ratio is not None for ratio in expected):
        with pytest.raises(UndefinedMetric):
            play(round_, contributions)
        return
    for found, ratio in zip(play(round_, contributions).ratios, expected, strict=True):
        assert (found is None) == (ratio is None)
        if found is not None and ratio is not None:
            assert abs(Fraction(found) - ratio) <= (precision or 0) / 2 * (1 + 2**-7)


def ratio_of(form: Form, of_parties: list[Sides]) -> Fraction | None:
    """num/den in Python integers, straight from the definition of a form."""
    left = [sum(values) for values in zip(*(left for left, _ in of_parties), strict=True)]
    right = [sum(values) for values in zip(*(right for _, right in of_parties), strict=True)]
    products = [x * y for x, y in zip(left, right, strict=True)]
    den = sum(products[form.numerator :])
    return Fraction(sum(products[: form.numerator]), den) if den else None
