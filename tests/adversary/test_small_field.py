"""The algebra of `padded-verified` in fields of about 100 and 1,000 elements accepts forgeries at a rate of 1/p."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fheval.field import Residues
from fheval.protocols import padded_verified
from fheval.protocols.padded_verified import SecretMaps
from fheval.secrets import Randomness, Stream
from fheval_lab.attacks import small_field
from fheval_lab.attacks.small_field import (
    DEVIATIONS,
    Acceptance,
    Answer,
    Mapped,
    acceptance_rates,
    scale_all,
    scale_all_but_one,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("prime", small_field.PRIMES)
def test_every_deviation_is_accepted_at_a_rate_of_one_in_p_for_every_extra_run(prime: int) -> None:
    rates = acceptance_rates(prime)
    assert len(rates) == 2 * len(DEVIATIONS)
    assert [rate for rate in rates if not rate.holds] == []
    # The pairs must be many enough to show a rate: a deviation that is never accepted measures nothing.
    assert all(rate.agreed > 30 for rate in rates if rate.runs == 2)


def test_an_honest_answer_is_accepted_always() -> None:
    """Agreement on the truth is not counted, so that what is left is none."""

    def honest(rng: Randomness, prime: int, slots: int) -> Answer:
        return lambda run: (7 * run.x, 7 * run.y)

    assert [rate.agreed for rate in acceptance_rates(101, rounds=3, deviations=[honest])] == [0, 0]


def test_without_mixing_the_anchor_is_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def mix(t: Residues, f: Residues, prime: int, stream: Stream) -> tuple[Residues, Residues]:
        return t, f

    def scale_all_but_the_last(rng: Randomness, prime: int, slots: int) -> Answer:
        half = pow(2, -1, prime)

        def answer(run: Mapped) -> tuple[int, int]:
            return half * (run.x + int(run.t[-1]) * int(run.f[-1])), run.y

        return answer

    caught, _ = acceptance_rates(101, rounds=30, deviations=[scale_all_but_the_last])
    assert caught.rate < 0.02
    monkeypatch.setattr(padded_verified, "mix", mix)
    forged, _ = acceptance_rates(101, rounds=30, deviations=[scale_all_but_the_last])
    assert forged.rate > 0.9
    assert not forged.holds


def test_with_equal_units_scaling_forges(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = small_field._secret_maps

    def equal_units(prime: int, stream: Stream) -> SecretMaps:
        maps = honest(prime, stream)
        return replace(maps, units=(maps.units[0],) * 6)

    monkeypatch.setattr(small_field, "_secret_maps", equal_units)
    forged, _ = acceptance_rates(101, rounds=20, deviations=[scale_all])
    # The factor is drawn once a round, and may leave the ratio what it was.
    assert forged.rate > 0.8
    unmoved, _ = acceptance_rates(101, rounds=20, deviations=[scale_all_but_one])
    assert unmoved.rate < 0.02


@pytest.mark.parametrize(
    ("agreed", "holds"), [(1000, True), (1150, True), (1300, False), (850, True), (700, False), (0, False)]
)
def test_a_rate_far_from_one_in_p_does_not_hold(agreed: int, holds: bool) -> None:
    rate = Acceptance(name="any", prime=100, runs=2, compared=100_000, agreed=agreed, spread=1000**0.5)
    assert rate.holds is holds
