"""What does not fit is refused by name before anyone makes a key; what fits, works."""

from __future__ import annotations

from typing import Any

import pytest

from fheval.errors import CapacityError, PrecisionError
from fheval.protocols.padding import MOST_PRODUCTS
from fheval.protocols.round import Form
from fheval_lab.clear import ClearEngine
from protocols.rounds import a_round, contributions_of, curve, exact, parameters_of, plain, play, pooled

SLOTS_CKKS = 8192


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gets as far as making a key."""

    def never(*_: object) -> None:
        raise AssertionError("keys were made")

    monkeypatch.setattr(ClearEngine, "generate_keys", never)


MOST = [
    pytest.param("paper-semi-honest", {"packing": "paper"}, SLOTS_CKKS + 1, id="paper"),
    pytest.param("paper-semi-honest", {"packing": "compact"}, SLOTS_CKKS // 2, id="compact"),
    pytest.param("paper-malicious", {"splits": 4}, SLOTS_CKKS // 4, id="four-splits"),
    pytest.param("paper-malicious", {"splits": 7}, SLOTS_CKKS // 7, id="seven-splits"),
    pytest.param("padded", {}, MOST_PRODUCTS + 1, id="padded"),
    pytest.param("padded", {"precision": None}, MOST_PRODUCTS + 1, id="padded-exact"),
    pytest.param("padded-verified", {}, MOST_PRODUCTS, id="padded-verified"),
]


@pytest.mark.parametrize(("protocol", "options", "most"), MOST)
@pytest.mark.usefixtures("no_keys")
def test_one_decision_point_too_many_is_refused_before_keys_are_made(
    protocol: str, options: dict[str, Any], most: int
) -> None:
    round_ = a_round(protocol, 3, decision_points=most + 1, **options)
    with pytest.raises(CapacityError, match="Use fewer decision points"):
        play(round_, contributions_of(round_, [curve(5, 5, most + 1)] * 3))


@pytest.mark.parametrize(("protocol", "options", "most"), MOST)
def test_the_most_decision_points_work(protocol: str, options: dict[str, Any], most: int) -> None:
    counts = [curve(50, 70, most), curve(0, 30, most), curve(90, 10, most)]
    round_ = a_round(protocol, 3, decision_points=most, **options)
    outcome = play(round_, contributions_of(round_, counts))
    assert float(outcome.ratio()) == pytest.approx(float(exact(pooled(counts))), abs=1e-4)


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_two_thousand_decision_points_are_no_trouble(protocol: str) -> None:
    counts = [curve(5000, 7000, 2000), curve(0, 30, 2000), curve(90, 10, 2000)]
    round_ = a_round(protocol, 3, decision_points=2000, precision=None)
    assert play(round_, contributions_of(round_, counts)).ratio() == exact(pooled(counts))


@pytest.mark.parametrize(("protocol", "most_bits"), [("paper-semi-honest", 28), ("paper-malicious", 29)])
@pytest.mark.usefixtures("no_keys")
def test_more_samples_than_ckks_carries_are_refused_before_keys_are_made(protocol: str, most_bits: int) -> None:
    parameters_of(a_round(protocol, 3, max_samples=1 << most_bits))
    round_ = a_round(protocol, 3, max_samples=1 << most_bits + 1)
    with pytest.raises(PrecisionError, match="Lower --max-samples"):
        play(round_, contributions_of(round_, [curve(5, 5)] * 3))


@pytest.mark.parametrize("protocol", ["paper-semi-honest", "paper-malicious"])
def test_the_default_bound_on_samples_is_carried(protocol: str) -> None:
    counts = [curve(1 << 22, 1 << 22)] * 2 + [curve(0, 0)]
    round_ = a_round(protocol, 3, max_samples=1 << 24)
    assert play(round_, contributions_of(round_, counts)).ratio() == pytest.approx(pooled(counts).auc(), abs=1e-6)


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_any_number_of_samples_that_counts_can_hold_is_carried_by_more_primes(protocol: str) -> None:
    counts = [curve(1 << 40, 3), curve(0, 1 << 41), curve(0, 0)]
    round_ = a_round(protocol, 3, max_samples=1 << 62, precision=None)
    assert play(round_, contributions_of(round_, counts)).ratio() == exact(pooled(counts))


@pytest.mark.parametrize(
    ("protocol", "precision", "bits"), [("padded", 1e-4, 376), ("padded", None, 400), ("padded-verified", None, 368)]
)
@pytest.mark.usefixtures("no_keys")
def test_larger_numbers_than_sixteen_primes_carry_are_refused(
    protocol: str, precision: float | None, bits: int
) -> None:
    form = Form.bounded(numerator=5, denominator=1, bound=1 << bits)
    round_ = a_round(protocol, 3, forms=[form], precision=precision)
    with pytest.raises(CapacityError, match="more than 16 primes"):
        play(round_, contributions_of(round_, [curve(5, 5)] * 3))


@pytest.mark.parametrize("packing", ["paper", "compact"])
def test_a_denominator_of_more_products_than_the_numerator_gets_its_rotation_keys(packing: str) -> None:
    form = Form(numerator=1, denominator=5, magnitude=1 << 20)
    round_ = a_round("paper-semi-honest", 3, forms=[form], packing=packing)
    own = [plain(([1, 2, 3, 4, 5, party], [7, 1, 1, 1, 1, 1])) for party in range(3)]
    outcome = play(round_, dict(zip(round_.parties, own, strict=True)))
    den = 3 * 3 * (2 + 3 + 4 + 5) + 3 * (0 + 1 + 2)
    assert outcome.ratio() == pytest.approx(3 * 21 / den, abs=1e-9)


@pytest.mark.usefixtures("no_keys")
def test_a_denominator_that_does_not_fit_is_refused_too() -> None:
    form = Form(numerator=1, denominator=SLOTS_CKKS + 1, magnitude=1 << 20)
    round_ = a_round("paper-semi-honest", 3, forms=[form])
    nothing = plain(([0] * form.terms, [0] * form.terms))
    with pytest.raises(CapacityError):
        play(round_, dict.fromkeys(round_.parties, nothing))
