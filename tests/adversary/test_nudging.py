"""A nudge below the fifth decimal: how often `paper-malicious` accepts it, and that `padded-verified` never does."""

from __future__ import annotations

import numpy as np
import pytest

from fheval.protocols.paper_malicious import CommonRandomness
from fheval.secrets import new_seed
from fheval_lab.attacks import Consortium, run_suite
from fheval_lab.attacks.chance import IMPLAUSIBLE, binomial_tails, same_distribution
from fheval_lab.attacks.consortium import fresh_stream
from fheval_lab.attacks.nudging import SHIFTS, accepted_nudges, multiplier_ratios, nudge_rates
from fheval_lab.attacks.on_slots import NUDGE, Nudge
from fheval_lab.clear import ClearEngine

pytestmark = pytest.mark.slow


def drawn_by_the_protocol(count: int) -> list[float]:
    rng = fresh_stream()
    consortium = Consortium(protocol="paper-malicious", decision_points=3, options={"splits": 1})
    round_, seed = consortium.round(ClearEngine(), rng), new_seed(rng)
    runs = (CommonRandomness.derive(seed, round_, run) for run in range(count))
    return [one.r7 * one.r8 / (one.r3 * one.r4) for one in runs]


def test_the_model_draws_what_the_protocol_draws() -> None:
    model = multiplier_ratios(fresh_stream(), 20_000)
    protocol = drawn_by_the_protocol(2_000)
    assert same_distribution(model, protocol) > IMPLAUSIBLE
    assert same_distribution(np.sqrt(model), protocol) < IMPLAUSIBLE


def test_the_protocol_accepts_nudges_as_often_as_the_model_says() -> None:
    rng, rounds = fresh_stream(), 200_000
    ratios = multiplier_ratios(rng, rounds), multiplier_ratios(rng, rounds)
    expected = accepted_nudges(float(NUDGE), 0.0, *ratios) / rounds
    tries = 300
    consortium = Consortium(protocol="paper-malicious", parties=2, decision_points=4, options={"splits": 1})
    (tally,) = run_suite(consortium, ClearEngine(), [Nudge], tries=tries)
    accepted = tally.tries - tally.caught
    assert 0.05 < expected < 0.5
    assert min(binomial_tails(accepted, tries, expected)) > IMPLAUSIBLE
    assert not tally.claimed


def test_the_rate_falls_as_the_shift_grows_and_never_to_nothing() -> None:
    """What the documentation states: a shift of s is accepted with a probability of about 5·10^-7/s."""
    rates = nudge_rates(rounds=400_000)
    assert [rate.shift for rate in rates] == list(SHIFTS)
    for rate in rates[:5]:
        assert rate.accepted / rate.rounds == pytest.approx(4.8e-7 / rate.shift, rel=0.4)


def test_exact_algebra_catches_every_nudge() -> None:
    (tally,) = run_suite(Consortium(protocol="padded-verified"), ClearEngine(), [Nudge], tries=60)
    assert (tally.caught, tally.claimed) == (60, True)
