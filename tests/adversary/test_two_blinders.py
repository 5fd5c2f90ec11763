"""What one of two blinders can rule out with X and Z in hand: nothing; without κ or without β every wrong guess.

The coalition has the first blinder's half, X and Z. A guess at (num, den) is refuted where no numbers that the other
could have drawn explain X and Z.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from fheval.protocols.round import Denominator
from fheval.protocols.two_blinders import HalfBlinding, HalfScale, TwoBlinders
from fheval.secrets import SystemRandomness
from fheval_lab.attacks.released_pair import candidate_denominators

RNG = SystemRandomness()
RELEASE = TwoBlinders.plan([2**47], 1e-4)
# Of so many samples it is known how many there are, and not how many are positive.
SAMPLES, POSITIVES = 40_000, 15_000
DEN = 2 * POSITIVES * (SAMPLES - POSITIVES)
NUM = DEN * 8123 // 10_000
TRIES = 20


def scale() -> HalfScale:
    (found,) = RELEASE.scales
    assert isinstance(found, HalfScale)
    return found


def halves() -> tuple[HalfBlinding, HalfBlinding]:
    """A chooses the largest scale there is, whose multiples are farthest apart; B draws."""
    (mine,), (other,) = (RELEASE.draw_half([Denominator(0)], RNG) for _ in range(2))
    return replace(mine, scale=(scale().least << scale().spare_bits) - 1), other


def released(a: HalfBlinding, b: HalfBlinding) -> tuple[int, int]:
    """X and Z."""
    k = a.scale * b.scale + a.fill_scale + b.fill_scale
    tilt = a.scale * b.tilt + b.scale * a.tilt + a.fill_tilt + b.fill_tilt
    return k * NUM + tilt * DEN + a.noise_x + b.noise_x, k * DEN + a.noise_z + b.noise_z


def stands(a: HalfBlinding, x: int, z: int, num: int, den: int, fill: int, fill_tilt: int) -> bool:
    """Whether any K_B, κ_B < fill, b_B, β_B < fill_tilt and noise of B explain X and Z for this guess."""
    public, step = scale(), a.scale * den
    z, x = z - a.noise_z, x - a.noise_x
    least, most = z - (fill - 1 + a.fill_scale) * den - public.noise, z - a.fill_scale * den
    for k_b in range(max(public.least, -(-least // step)), min(public.least << public.spare_bits, most // step) + 1):
        below, base = a.scale * k_b + a.fill_scale, k_b * a.tilt + a.fill_tilt
        k_low = max(-(-(z - public.noise) // den), below)
        k_high = min(z // den, below + fill - 1)
        low = -(-(x - k_high * num - public.noise) // den) - base - (fill_tilt - 1)
        high = (x - k_low * num) // den - base
        half = int(k_b * RELEASE.precision / 4)
        if k_low <= k_high and max(-half, -(-low // a.scale)) <= min(half, high // a.scale):
            return True
    return False


def standing(*missing: str) -> tuple[bool, float]:
    """Whether the truth stands in every round, and the share of wrong guesses that do, where B draws less."""
    fills = [1 if name in missing else scale().fill for name in ("fill_scale", "fill_tilt")]
    wrong = [each for each in candidate_denominators(SAMPLES) if 0.9 < each / DEN < 1.1 and each != DEN]
    truth, found = True, []
    for _ in range(TRIES):
        a, b = halves()
        x, z = released(a, replace(b, **dict.fromkeys(missing, 0)))
        truth = truth and stands(a, x, z, NUM, DEN, *fills)
        guesses = [(round(Fraction(x, z) * den), den) for den in wrong[:: len(wrong) // 50]]
        found += [stands(a, x, z, *guess, *fills) for guess in guesses]
    return truth, sum(found) / len(found)


def test_every_guess_stands() -> None:
    truth, share = standing()
    assert truth
    assert share > 0.99


@pytest.mark.parametrize("missing", ["fill_scale", "fill_tilt"], ids=["without κ", "without β"])
def test_without_what_fills_the_gaps_only_the_truth_stands(missing: str) -> None:
    truth, share = standing(missing)
    assert truth
    assert share < 0.01


def test_both_halves_give_num_and_den() -> None:
    """Which is why the study's order says who the two are, and not the aggregator."""
    a, b = halves()
    x, z = released(a, b)
    scale_of_both = a.scale * b.scale + a.fill_scale + b.fill_scale
    tilt = a.scale * b.tilt + b.scale * a.tilt + a.fill_tilt + b.fill_tilt
    assert (z - a.noise_z - b.noise_z) // scale_of_both == DEN
    assert (x - a.noise_x - b.noise_x - tilt * DEN) // scale_of_both == NUM
