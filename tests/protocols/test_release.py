"""The released numbers: how they are sized, that they never wrap around, and what comes out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import cos, gcd, log2, pi, prod, sin, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fheval.engines.parameters import plain_moduli, wide_moduli
from fheval.errors import CapacityError, VerificationFailed
from fheval.protocols import padded_verified, padding, paper_malicious
from fheval.protocols.release import LINE_BITS, Blinding, RoundedRelease, exact_primes, exact_ratio
from fheval.protocols.round import Denominator, Form, in_decimals
from fheval.secrets import Randomness, SystemRandomness, integer_between, log_uniform_integer
from protocols.rounds import Cast, a_round, auc_form, curve, layout_of, plain, pooled, sides_of
from protocols.statistics import looks_uniform

RNG = SystemRandomness()
DEFAULT = RoundedRelease.plan([2**47], 1e-4)
CASES = [
    pytest.param(magnitude, precision, id=f"2^{magnitude.bit_length() - 1}-{precision}")
    for magnitude in (2, 2**12, 2**47, 2**61)
    for precision in (1e-9, 1e-4, 0.25, 0.999)
]


# The plan


def test_the_defaults_are_those_of_the_design() -> None:
    assert (len(DEFAULT.primes), DEFAULT.scales[0].spare_bits, DEFAULT.hiding_bits) == (4, 68, 21)
    assert DEFAULT.scales[0].noise == 2**20 * 2**47
    assert DEFAULT.scales[0].smallest == 2**4 * DEFAULT.scales[0].noise * 10**4
    assert layout_of(a_round("padded", 3)).rounded == DEFAULT  # type: ignore[attr-defined]


@pytest.mark.parametrize(("magnitude", "precision"), CASES)
@pytest.mark.parametrize(("kinds", "lines"), [(1, 1), (1, 200), (7, 1), (20, 200)])
def test_the_plan_takes_the_fewest_primes_that_hide_enough(
    magnitude: int, precision: float, kinds: int, lines: int
) -> None:
    denominators = [Denominator(kind, line) for kind in range(kinds) for line in range(lines)]
    release = RoundedRelease.plan([magnitude] * len(denominators), precision, denominators)
    assert release.primes == wide_moduli(len(release.primes))
    needed = 6 * pi * sqrt(kinds) + (16 if lines > 1 else 0)
    # One prime fewer has 50 bits less to spare.
    assert needed <= release.scales[0].spare_bits < needed + 50
    assert release.hiding_bits >= 6


def test_counts_below_the_line_leave_more_room_than_products() -> None:
    """An AUC and twenty metrics with a denominator each hide behind the primes of one AUC; products would not."""
    release = RoundedRelease.plan([2**47, *[2**24] * 20], 1e-4)
    assert release.primes == DEFAULT.primes
    assert (release.scales[0].spare_bits, release.scales[1].spare_bits) == (68, 114)
    assert release.hiding_bits >= 6
    assert len(RoundedRelease.plan([2**47, *[2**48] * 20], 1e-4).primes) == 5


def test_the_best_test_of_all_sizes_has_no_more_of_an_advantage_than_is_said() -> None:
    """Twenty-one denominators or all twice as large: the likelihood ratio is right little more than by chance."""
    release = RoundedRelease.plan([2**47, *[2**24] * 20], 1e-4)
    kinds = [Denominator(kind) for kind in range(len(release.scales))]

    def likelihood(sizes: Sequence[float], shift: float) -> float:
        """Of the logarithms of K·den above K_0, as if den were 2^shift."""
        places = [(size - shift) / scale.spare_bits for size, scale in zip(sizes, release.scales, strict=True)]
        return prod(sin(pi * place) ** 2 if 0 < place < 1 else 0.0 for place in places)

    def right(shift: float) -> bool:
        drawn = release.draw(kinds, RNG)
        sizes = [
            log2(Fraction(one.scale, scale.smallest)) + shift for one, scale in zip(drawn, release.scales, strict=True)
        ]
        return (likelihood(sizes, 1) > likelihood(sizes, 0)) == bool(shift)

    rounds = 400
    rate = sum(right(number % 2) for number in range(rounds)) / rounds
    # Four standard deviations of so many guesses.
    assert rate < 0.5 + 0.5 / release.hiding_bits + 4 * 0.5 / sqrt(rounds)


def test_a_precision_that_sixteen_primes_do_not_carry_is_refused() -> None:
    with pytest.raises(CapacityError, match="Choose a coarser precision"):
        RoundedRelease.plan([2**47], 1e-200)


# X and Z


def draw_one(release: RoundedRelease) -> Blinding:
    (drawn,) = release.draw([Denominator(0)], RNG)
    return drawn


def released(release: RoundedRelease, blinding: Blinding, num: int, den: int) -> Fraction | None:
    """What the leader makes of X = K·num + b·den + e_1 and Z = K·den + e_2, modulo the primes."""
    x = blinding.scale * num + blinding.tilt * den + blinding.noise_x
    z = blinding.scale * den + blinding.noise_z
    return release.fraction(0, [x % prime for prime in release.primes], [z % prime for prime in release.primes])


@pytest.mark.parametrize(("magnitude", "precision"), CASES)
@pytest.mark.parametrize("num_is_zero", [True, False])
@pytest.mark.parametrize("tilted", [-1, 0, 1])
def test_the_extremes_do_not_wrap_around(magnitude: int, precision: float, num_is_zero: bool, tilted: int) -> None:
    release = RoundedRelease.plan([magnitude], precision)
    for scale in (release.scales[0].smallest, (release.scales[0].smallest << release.scales[0].spare_bits) - 1):
        half = int(scale * release.precision / 2)
        for noise in (0, release.scales[0].noise - 1):
            blinding = Blinding(
                scale=scale, tilt=tilted * half, noise_x=noise, noise_z=release.scales[0].noise - 1 - noise
            )
            num = 0 if num_is_zero else magnitude
            x = scale * num + tilted * half * magnitude + noise
            z = scale * magnitude + release.scales[0].noise - 1 - noise
            assert max(abs(x), z) < prod(release.primes)
            assert released(release, blinding, num, magnitude) == Fraction(x, z)


def test_two_octaves_more_would_wrap_around() -> None:
    """The test above can fail: the spare bits are all that there is room for."""
    for octaves, right in ((0, True), (2, False)):
        scale = (DEFAULT.scales[0].smallest << DEFAULT.scales[0].spare_bits + octaves) - 1
        blinding = Blinding(scale=scale, tilt=0, noise_x=0, noise_z=0)
        assert (released(DEFAULT, blinding, 2**45, 2**47) == Fraction(1, 4)) is right


@st.composite
def ratios(draw: st.DrawFn) -> tuple[int, float, int, int]:
    """A magnitude, a precision, and num ≤ den within it: tiny, largest and between."""
    magnitude = 1 << draw(st.integers(1, 61))
    den = draw(st.one_of(st.just(2), st.just(magnitude), st.integers(1, magnitude)))
    den = max(2, den)
    num = draw(st.one_of(st.just(0), st.just(den), st.integers(0, den)))
    return magnitude, draw(st.sampled_from([1e-6, 1e-4, 1e-2, 0.5])), num, den


@given(ratios())
@settings(max_examples=150)
def test_the_ratio_is_within_half_the_precision(case: tuple[int, float, int, int]) -> None:
    magnitude, precision, num, den = case
    release = RoundedRelease.plan([magnitude], precision)
    found = released(release, draw_one(release), num, den)
    assert found is not None
    width = Fraction(str(precision))
    told = in_decimals(found, release.digits)
    assert abs(told - Fraction(num, den)) <= width / 2
    assert (told * 10**release.digits).denominator == 1
    assert Fraction(1, 10**release.digits) <= width / 10


def test_the_rounding_is_really_there() -> None:
    errors = [float(released(DEFAULT, draw_one(DEFAULT), 300, 400) - Fraction(3, 4)) for _ in range(400)]  # type: ignore[operator]
    assert looks_uniform(errors, -0.3875e-4, 0.3875e-4)
    assert len(set(errors)) == 400


def test_a_denominator_of_zero_gives_no_ratio() -> None:
    for _ in range(50):
        assert released(DEFAULT, draw_one(DEFAULT), 0, 0) is None
    largest = Blinding(scale=DEFAULT.scales[0].smallest, tilt=0, noise_x=0, noise_z=DEFAULT.scales[0].noise - 1)
    assert released(DEFAULT, largest, 0, 0) is None
    assert released(DEFAULT, largest, 1, 2) is not None


# What is drawn


def hann(position: float) -> float:
    """How much of the density 2·sin²(π·u) lies below: what a draw looks uniform by."""
    return position - sin(2 * pi * position) / (2 * pi)


def test_k_has_smooth_ends_and_the_rest_is_uniform() -> None:
    drawn = [draw_one(DEFAULT) for _ in range(3000)]
    octaves = [log2(Fraction(each.scale, DEFAULT.scales[0].smallest)) for each in drawn]
    assert looks_uniform([hann(octave / DEFAULT.scales[0].spare_bits) for octave in octaves], 0, 1)
    assert looks_uniform([octave % 1 for octave in octaves], 0, 1)
    # A tenth of the precision is left to the last decimal and an eighth to the noise.
    assert looks_uniform([float(Fraction(each.tilt, each.scale)) for each in drawn], -0.3875e-4, 0.3875e-4)
    assert looks_uniform([each.noise_x / DEFAULT.scales[0].noise for each in drawn], 0, 1)
    assert looks_uniform([each.noise_z / DEFAULT.scales[0].noise for each in drawn], 0, 1)
    for values in zip(*((e.scale, e.tilt, e.noise_x, e.noise_z) for e in drawn), strict=True):
        assert len(set(values)) == 3000


def test_the_tests_of_k_notice_other_densities() -> None:
    mantissas = [log2(integer_between(RNG, 2**64, 2**65 - 1)) - 64 for _ in range(3000)]
    assert not looks_uniform(mantissas, 0, 1)
    sharp = [log2(log_uniform_integer(RNG, 1 << 64, 49)) - 64 for _ in range(3000)]
    assert not looks_uniform([hann(octave / 49) for octave in sharp], 0, 1)


def test_k_ends_where_the_plan_says() -> None:
    lined, kinds = ([Denominator(0, line) for line in range(2000)], [Denominator(kind) for kind in range(500)])
    for release, denominators in ((RoundedRelease.plan([2**47] * 500, 1e-4), kinds), (LINED, lined)):
        for each in release.draw(denominators, RNG):
            assert release.scales[0].smallest <= each.scale < release.scales[0].smallest << release.scales[0].spare_bits


LINED = RoundedRelease.plan([2**47] * 6, 1e-4, [Denominator(kind, line) for kind in range(2) for line in range(3)])


def test_numbers_with_one_denominator_share_its_scale_and_their_z() -> None:
    denominators = [Denominator(0), Denominator(1), Denominator(0), Denominator(0, 1), Denominator(1, 1)]
    first, second, third, fourth, fifth = LINED.draw(denominators, RNG)
    assert (first.scale, first.noise_z) == (third.scale, third.noise_z)
    assert (first.tilt, first.noise_x) != (third.tilt, third.noise_x)
    assert len({first.scale, second.scale, fourth.scale, fifth.scale}) == 4


def test_the_lines_of_a_kind_lie_near_each_other_and_kinds_do_not() -> None:
    denominators = [Denominator(kind, line) for kind in range(2) for line in range(200)]
    between = []
    for _ in range(60):
        drawn = [log2(each.scale) for each in LINED.draw(denominators, RNG)]
        for kind in (drawn[:200], drawn[200:]):
            assert max(kind) - min(kind) < LINE_BITS
        within = [hann((octave - min(drawn[:200])) / LINE_BITS) for octave in drawn[:200]]
        assert max(within) < 1
        between.append((sum(drawn[:200]) - sum(drawn[200:])) / 200)
    # A third of all pairs of kinds are this far apart; means of one kind's lines differ by fractions of an octave.
    assert max(abs(each) for each in between) > LINE_BITS / 2


def test_the_affinity_of_a_shifted_scale() -> None:
    """The lemma behind `hiding_bits`, against a sum: ∫√(f·f') = (1 − v)·cos(πv) + sin(πv)/π ≥ 1 − π²v²/2."""
    steps = 20_000
    for shift in (0.01, 0.1, 0.3, 0.7):
        places = [(each + 0.5) / steps * (1 - shift) for each in range(steps)]
        summed = sum(2 * sin(pi * (u + shift)) * sin(pi * u) for u in places) / steps * (1 - shift)
        assert summed == pytest.approx((1 - shift) * cos(pi * shift) + sin(pi * shift) / pi, abs=1e-6)
        assert summed >= 1 - (pi * shift) ** 2 / 2


# What cannot be


PROPER = Form.bounded(numerator=1, denominator=1, bound=2**47)
UP_TO_TWO = Form.bounded(numerator=1, denominator=1, bound=2**47, proper=False, most=2)
ANY = Form.bounded(numerator=1, denominator=1, bound=2**47, proper=False)


def pair(num: int, den: int) -> tuple[list[int], list[int]]:
    one = draw_one(DEFAULT)
    x, z = one.scale * num + one.tilt * den + one.noise_x, one.scale * den + one.noise_z
    return [x % prime for prime in DEFAULT.primes], [z % prime for prime in DEFAULT.primes]


@pytest.mark.parametrize(
    ("form", "num", "den", "fine"),
    [
        (PROPER, 0, 1000, True),
        (PROPER, 1000, 1000, True),
        (PROPER, 1001, 1000, False),
        (PROPER, -1, 1000, False),
        (UP_TO_TWO, 2000, 1000, True),
        (UP_TO_TWO, 2001, 1000, False),
        (ANY, 10**6, 1000, True),
        (ANY, -1, 1000, False),
    ],
)
def test_a_ratio_that_the_form_cannot_have_is_refused(form: Form, num: int, den: int, fine: bool) -> None:
    for _ in range(20):
        if fine:
            found = DEFAULT.ratio(form, 0, *pair(num, den))
            assert found is not None
            assert abs(found - Fraction(num, den)) <= Fraction(1, 2 * 10**4)
            # A ratio at the end of the range is told there or within it.
            assert 0 <= found <= form.largest
        else:
            with pytest.raises(VerificationFailed):
                DEFAULT.ratio(form, 0, *pair(num, den))


def test_the_aggregator_releases_these_two_numbers_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """X = K·num + b·den + e_1 and Z = K·den + e_2 with what was drawn, to the last digit, for every form of a batch."""
    drawn: list[Blinding] = []

    def note(release: RoundedRelease, denominators: Sequence[Denominator], rng: Randomness) -> list[Blinding]:
        drawn.extend(draw(release, denominators, rng))
        return drawn

    draw = RoundedRelease.draw
    monkeypatch.setattr(RoundedRelease, "draw", note)
    cast = Cast(a_round("padded", 3, forms=[auc_form(6, 2**24), auc_form(4, 2**10)]))
    counts = [[curve(40, 70), curve(30, 30, 4)], [curve(0, 25), curve(1, 0, 4)], [curve(9, 1), curve(5, 8, 4)]]
    own = {party: plain(*map(sides_of, both)) for party, both in zip(cast.round.parties, counts, strict=True)}
    result = cast.result_of(cast.served(own))
    layout = layout_of(cast.round)
    sums = padding.leader_decrypt(cast.engine, cast.secrets, layout.primes, layout.plan, result.ciphertexts)
    assert len(drawn) == 2
    for index, blinding in enumerate(drawn):
        whole = pooled([both[index] for both in counts])
        num, den = whole.numerator(), whole.denominator()
        x = blinding.scale * num + blinding.tilt * den + blinding.noise_x
        z = blinding.scale * den + blinding.noise_z
        for prime, answer in zip(layout.primes, sums, strict=True):
            assert answer[2 * index : 2 * index + 2] == [x % prime, z % prime]


# The exact release


FORM = auc_form(10, 2**24)
PRIMES = exact_primes(FORM.bound, wide_moduli)


def residues_of(num: int, den: int) -> list[int]:
    return [num * pow(den, -1, prime) % prime for prime in PRIMES]


@pytest.mark.parametrize(("moduli", "count"), [(wide_moduli, 2), (plain_moduli, 3)])
def test_few_primes_are_enough_for_the_default_bound(moduli: Callable[[int], tuple[int, ...]], count: int) -> None:
    primes = exact_primes(FORM.bound, moduli)
    assert len(primes) == count
    assert prod(primes[:-1]) <= 2 * FORM.bound**2 < prod(primes)


@given(st.integers(1, FORM.bound), st.data())
def test_the_exact_fraction_comes_back(den: int, data: st.DataObject) -> None:
    num = data.draw(st.integers(0, den))
    assert exact_ratio(FORM, residues_of(num, den), PRIMES) == Fraction(num, den)


@pytest.mark.parametrize(
    ("num", "den"),
    [(3, 2), (FORM.bound, 1), (FORM.bound + 1, FORM.bound + 2), (-1, 3), (2**60, 2**61 + 1)],
    ids=["above-one", "far-above-one", "beyond-the-bound", "negative", "far-beyond-the-bound"],
)
def test_what_is_no_honest_ratio_is_refused(num: int, den: int) -> None:
    with pytest.raises(VerificationFailed):
        exact_ratio(FORM, residues_of(num, den), PRIMES)


def test_primes_that_disagree_are_refused() -> None:
    honest = residues_of(1234, 5678)
    assert exact_ratio(FORM, honest, PRIMES) == Fraction(1234, 5678)
    for index in range(len(PRIMES)):
        for change in (1, PRIMES[index] - 1):
            altered = [*honest]
            altered[index] = (altered[index] + change) % PRIMES[index]
            with pytest.raises(VerificationFailed):
                exact_ratio(FORM, altered, PRIMES)


def test_a_form_that_is_not_proper_may_exceed_one() -> None:
    form = Form.bounded(numerator=1, denominator=1, bound=FORM.bound, proper=False)
    assert exact_ratio(form, residues_of(3, 2), PRIMES) == Fraction(3, 2)


# Soundness


@pytest.mark.parametrize(("points", "splits", "bits"), [(100, 4, 59.9), (100, 7, 107.6), (25, 9, 103.2)])
def test_the_papers_guessing_bound(points: int, splits: int, bits: float) -> None:
    assert paper_malicious.soundness_bits(points, splits) == bits


@pytest.mark.parametrize(("primes", "runs", "bits"), [(4, 1, 82.8), (3, 2, 82.8), (3, 3, 125.8), (5, 1, 125.8)])
def test_the_bound_of_exact_verification(primes: int, runs: int, bits: float) -> None:
    """(8/(t − 1))^((k − 2)·runs) times the nine fractions that two primes may leave open."""
    smallest = min(plain_moduli(primes))
    fooled = (primes - 2) * runs
    assert bits == pytest.approx(fooled * log2((smallest - 1) / 8) - log2(9), abs=0.06)
    assert padded_verified.soundness_bits(FORM.bound, plain_moduli(primes), runs) == bits


@pytest.mark.parametrize("max_samples", [2, 100, 2**12, 2**20, 2**24, 2**25, 2**30, 2**40, 2**62])
@pytest.mark.parametrize("runs", [1, 2, 3])
def test_a_round_has_the_fewest_primes_that_are_sound(max_samples: int, runs: int) -> None:
    bound = auc_form(10, max_samples).bound
    primes = padded_verified.enough_primes(bound, runs)
    assert padded_verified.soundness_bits(bound, primes, runs) >= 80
    fewer = primes[:-1]
    assert 2 * bound**2 >= prod(fewer) or padded_verified.soundness_bits(bound, fewer, runs) < 80


@given(st.integers(2, 60), st.sampled_from([7, 11, 31, 35, 77, 101, 1001]), st.data())
def test_few_fractions_look_alike_modulo_few_primes(bound: int, product: int, data: st.DataObject) -> None:
    """The lemma behind the bound, counted out."""
    value = data.draw(st.integers(0, product - 1))
    alike = [
        (num, den)
        for den in range(1, bound + 1)
        for num in range(bound + 1)
        if gcd(num, den) == 1 and (num - value * den) % product == 0
    ]
    assert len(alike) <= 2 * bound**2 // product + 1


def test_primes_left_alone_fix_the_fraction_or_few_are_left_alone() -> None:
    """Two of 46 bits leave a fraction of 47-bit integers open, three do not: then only the truth is accepted."""
    primes = padded_verified.enough_primes(FORM.bound, 1)
    *alone, spare = primes
    assert prod(alone[:2]) < FORM.bound**2 < prod(alone)
    *honest, truth = (1234 * pow(5678, -1, prime) % prime for prime in primes)
    for wrong in (0, 1, spare - 1):
        with pytest.raises(VerificationFailed):
            exact_ratio(FORM, [*honest, wrong], primes)
    assert exact_ratio(FORM, [*honest, truth], primes) == Fraction(1234, 5678)
