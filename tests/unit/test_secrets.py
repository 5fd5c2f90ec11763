"""Samplers: exact ranges, exact uniformity, real rejection; streams: the same for the same labels and for no others."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import permutations
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from chi_square import fits
from fheval import secrets
from fheval.secrets import Randomness, Secret, Stream, SystemRandomness, derive, expand

VECTORS = Path(__file__).parents[1] / "vectors" / "derive.json"


def stream(name: str) -> Stream:
    return derive(Secret(bytes(32)), "test", name)


class ScriptEnded(Exception):  # noqa: N818
    """The sampler wanted more than the script has."""


class Script:
    """Randomness that is written down beforehand."""

    def __init__(self, *blocks: bytes) -> None:
        self._blocks = list(blocks)

    def draw(self, count: int) -> bytes:
        if not self._blocks:
            raise ScriptEnded
        block = self._blocks.pop(0)
        assert len(block) == count
        return block


class Counting:
    """Randomness that says how much was drawn."""

    def __init__(self, source: Randomness) -> None:
        self._source = source
        self.drawn = 0

    def draw(self, count: int) -> bytes:
        self.drawn += count
        return self._source.draw(count)


# Integers: for small bounds, every possible first draw.


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 8, 100, 127, 128, 129, 255, 256])
def test_integer_below_is_exactly_uniform(bound: int) -> None:
    """Of all first bytes, each value is reached by equally many, and the rest are rejected."""
    reached: Counter[int] = Counter()
    for byte in range(256):
        script = Script(bytes([byte])) if bound > 1 else Script(b"")
        try:
            reached[secrets.integer_below(script, bound)] += 1
        except ScriptEnded:
            reached[-1] += 1
    rejected = reached.pop(-1, 0)
    assert set(reached) == set(range(bound))
    assert len(set(reached.values())) == 1
    assert (rejected > 0) == (bound & (bound - 1) != 0)


def test_integer_below_goes_on_after_a_rejection() -> None:
    assert secrets.integer_below(Script(b"\x07", b"\x06", b"\x04"), 5) == 4


@pytest.mark.parametrize("bound", [10**30 + 57, 2**64, 2**64 + 1, 3 * 2**100])
def test_large_integers_are_uniform(bound: int) -> None:
    rng = stream(f"large {bound}")
    drawn = [secrets.integer_below(rng, bound) for _ in range(4000)]
    assert max(drawn) < bound
    assert fits(np.bincount([value * 12 // bound for value in drawn], minlength=12), [1] * 12)
    assert fits(np.bincount([value % 7 for value in drawn], minlength=7), [1] * 7)


@pytest.mark.parametrize("bound", [0, -1])
def test_integer_below_refuses_an_empty_range(bound: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        secrets.integer_below(stream("none"), bound)


@given(low=st.integers(-(2**70), 2**70), width=st.integers(0, 3))
def test_integer_between_includes_both_ends(low: int, width: int) -> None:
    rng = stream("between")
    drawn = {secrets.integer_between(rng, low, low + width) for _ in range(60)}
    assert drawn == set(range(low, low + width + 1))


def test_integer_between_refuses_an_empty_range() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        secrets.integer_between(stream("empty"), 3, 2)


def test_nonzero_residue_is_uniform_on_the_units() -> None:
    rng = stream("units")
    drawn = Counter(secrets.nonzero_residue(rng, 11) for _ in range(5000))
    assert set(drawn) == set(range(1, 11))
    assert fits([drawn[value] for value in range(1, 11)], [1] * 10)


# Residues


@pytest.mark.parametrize("modulus", [1, 2, 3, 70368743669761, 2**46 + 1, 3 * 2**61, 2**63 - 1])
def test_residues_are_uniform(modulus: int) -> None:
    drawn = secrets.residues(stream(f"residues {modulus}"), modulus, 20_000)
    assert drawn.dtype == np.uint64
    assert drawn.shape == (20_000,)
    assert int(drawn.max()) < modulus
    buckets = min(modulus, 24)
    if modulus > 1:
        places = [int(value) * buckets // modulus for value in drawn]
        assert fits(np.bincount(places, minlength=buckets), [1] * buckets)
    if modulus > 1000:
        assert fits(np.bincount((drawn % np.uint64(16)).astype(np.int64), minlength=16), [1] * 16)


def test_the_statistics_see_a_remainder_taken_without_rejection() -> None:
    """Reducing 63 bits modulo 3·2^61 gives the first third twice as often: the test above would not pass."""
    modulus = 3 * 2**61
    words = np.frombuffer(stream("biased").draw(8 * 20_000), dtype="<u8") >> np.uint64(1)
    places = [int(value) * 3 // modulus for value in words % np.uint64(modulus)]
    assert not fits(np.bincount(places, minlength=3), [1] * 3)


def test_residues_reject_and_draw_again() -> None:
    source = Counting(stream("rejection"))
    secrets.residues(source, 2**46 + 1, 1000)
    assert source.drawn > 8 * 1900, "a modulus just above a power of two rejects about every second word"
    source = Counting(stream("no rejection"))
    secrets.residues(source, 2**46, 1000)
    assert source.drawn == 8 * 1000


def test_residues_skip_what_is_rejected_and_keep_the_order() -> None:
    def word(value: int) -> bytes:
        return value.to_bytes(8, "little")

    script = Script(word(6) + word(1) + word(5) + word(2), word(7) + word(3), word(4))
    assert secrets.residues(script, 5, 4).tolist() == [1, 2, 3, 4]


def test_residues_of_nothing() -> None:
    assert secrets.residues(Script(), 97, 0).shape == (0,)


@pytest.mark.parametrize("modulus", [0, -5, 2**63, 2**64])
def test_residues_refuse_a_modulus_out_of_range(modulus: int) -> None:
    with pytest.raises(ValueError, match="modulus"):
        secrets.residues(stream("bad"), modulus, 1)


# Floats


def test_ternary_numbers_are_even_bytes_modulo_three() -> None:
    drawn = secrets.ternary(stream("ternary"), 30_000)
    assert stats.chisquare(np.bincount(drawn + 1)).pvalue > 1e-8
    # The last byte would favour a number, and is drawn again.
    assert secrets.ternary(Script(bytes([0, 255, 254]), bytes([4])), 3).tolist() == [-1, 1, 0]
    assert secrets.ternary(Script(b""), 0).shape == (0,)


def test_centred_binomial_numbers_are_differences_of_ones() -> None:
    drawn = secrets.centred_binomial(stream("noise"), 200_000)
    values = np.arange(-24, 25)
    expected = stats.binom(48, 0.5).pmf(values + 24) * len(drawn)
    counted = np.bincount(drawn + 24, minlength=49)
    # The ends, which are rare, go together.
    middle = np.abs(values) <= 12
    observed = [*counted[middle], counted[~middle].sum()]
    assert stats.chisquare(observed, [*expected[middle], expected[~middle].sum()]).pvalue > 1e-8
    assert secrets.centred_binomial(Script(b"\xff\x00" * 3), 1).tolist() == [24]
    assert secrets.centred_binomial(Script(b"\x00\xff" * 3), 1).tolist() == [-24]


def test_symmetric_floats_are_uniform() -> None:
    drawn = secrets.symmetric_floats(stream("floats"), 3.0, 20_000)
    assert drawn.min() >= -3.0
    assert drawn.max() < 3.0
    assert fits(np.bincount(((drawn + 3.0) * 4).astype(np.int64), minlength=24), [1] * 24)


def test_symmetric_floats_reach_from_one_end_to_just_below_the_other() -> None:
    assert secrets.symmetric_floats(Script(bytes(8) + b"\xff" * 8), 2.0, 2).tolist() == [-2.0, 2.0 - 2.0**-51]
    assert secrets.symmetric_floats(Script(b""), 2.0, 0).shape == (0,)


OCTAVE = [log2((9 + i) / (8 + i)) for i in range(8)]


def within_octave(values: Iterable[float]) -> list[int]:
    """How many mantissas lie in each eighth of [1, 2)."""
    counts: list[int] = np.bincount([int((value - 1) * 8) for value in values], minlength=8).tolist()
    return counts


def test_log_uniform_float_has_density_one_over_x() -> None:
    rng = stream("log uniform")
    drawn = [secrets.log_uniform_float(rng, -5, 7) for _ in range(12_000)]
    assert min(drawn) >= 2.0**-5
    assert max(drawn) < 2.0**7
    exponents = [int(np.floor(log2(value))) for value in drawn]
    assert fits(np.bincount(np.array(exponents) + 5, minlength=12), [1] * 12)
    mantissas = within_octave(value / 2.0**exponent for value, exponent in zip(drawn, exponents, strict=True))
    assert fits(mantissas, OCTAVE)


def test_the_statistics_see_a_mantissa_that_is_uniform() -> None:
    uniform = 1.5 + secrets.symmetric_floats(stream("uniform mantissa"), 0.5, 12_000)
    assert not fits(within_octave(uniform), OCTAVE)


def test_log_uniform_float_takes_one_octave_and_refuses_none() -> None:
    rng = stream("octave")
    assert all(8 <= secrets.log_uniform_float(rng, 3, 4) < 16 for _ in range(50))
    with pytest.raises(ValueError, match="at least 1"):
        secrets.log_uniform_float(rng, 3, 3)


@pytest.mark.parametrize("low", [2**20, 2**64, 2**64 + 1, 5 * 2**64 - 1, 2**130 + 3])
def test_log_uniform_integer_has_density_one_over_x(low: int) -> None:
    rng, spare = stream(f"integer {low}"), 6
    drawn = [secrets.log_uniform_integer(rng, low, spare) for _ in range(6000)]
    assert low <= min(drawn)
    assert max(drawn) < low << spare
    octaves = [(value // low).bit_length() - 1 for value in drawn]
    assert fits(np.bincount(octaves, minlength=spare), [1] * spare)
    mantissas = within_octave(value / (low << octave) for value, octave in zip(drawn, octaves, strict=True))
    assert fits(mantissas, OCTAVE)


def test_log_uniform_integer_leaves_no_integer_out() -> None:
    """On a grid of multiples of a power of two, large numbers would end in zeros."""
    rng = stream("every integer")
    last = [secrets.log_uniform_integer(rng, 2**90, 40) % 8 for _ in range(4000)]
    assert fits(np.bincount(last, minlength=8), [1] * 8)


def test_log_uniform_integer_is_exact_on_small_integers() -> None:
    rng = stream("small")
    drawn = Counter(secrets.log_uniform_integer(rng, 1, 4) for _ in range(8000))
    octaves = [range(start, 2 * start) for start in (1, 2, 4, 8)]
    weights = [1 / value / sum(1 / other for other in octave) for octave in octaves for value in octave]
    assert set(drawn) == set(range(1, 16))
    assert fits([drawn[value] for value in range(1, 16)], weights)


@pytest.mark.parametrize(("low", "spare"), [(0, 5), (-1, 5), (7, 0), (7, -1)])
def test_log_uniform_integer_refuses_an_empty_range(low: int, spare: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        secrets.log_uniform_integer(stream("bad"), low, spare)


# Permutations and bits


@pytest.mark.parametrize("count", [2, 3, 4])
def test_permutations_are_uniform(count: int) -> None:
    rng = stream(f"permutation {count}")
    drawn = Counter(tuple(secrets.permutation(rng, count).tolist()) for _ in range(4000))
    possible = list(permutations(range(count)))
    assert set(drawn) == set(possible)
    assert fits([drawn[order] for order in possible], [1] * len(possible))


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_a_permutation_holds_everything_once(count: int) -> None:
    assert sorted(secrets.permutation(stream("all"), count).tolist()) == list(range(count))


def test_a_permutation_of_equal_keys_is_drawn_again() -> None:
    tie, distinct = bytes(24), b"".join(value.to_bytes(8, "little") for value in (3, 1, 2))
    assert secrets.permutation(Script(tie, distinct), 3).tolist() == [1, 2, 0]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 20_000])
def test_bits_are_fair(count: int) -> None:
    drawn = secrets.bits(stream("bits"), count)
    assert drawn.dtype == np.bool_
    assert drawn.shape == (count,)
    if count > 100:
        pairs = np.packbits(drawn.reshape(-1, 2), axis=1).ravel() >> 6
        assert fits(np.bincount(pairs, minlength=4), [1] * 4)


# Sources


def test_system_randomness_is_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: b"\x2a" * count)
    assert SystemRandomness().draw(3) == b"***"


def test_new_seed_has_256_bits_of_the_source() -> None:
    assert secrets.new_seed(Script(bytes(range(32)))).reveal() == bytes(range(32))


def test_a_stream_goes_on_where_it_stopped() -> None:
    whole, parts = stream("one"), stream("one")
    assert whole.draw(100) == b"".join(parts.draw(count) for count in (0, 1, 15, 16, 17, 51))


def test_an_array_is_filled_with_what_would_be_drawn() -> None:
    table = np.zeros((2, 3, 5), dtype="<u8")
    filled, drawn = stream("one"), stream("one")
    filled.fill(table[1])
    assert table[1].tobytes() == drawn.draw(8 * 15)
    assert not table[0].any()
    assert filled.draw(7) == drawn.draw(7)
    with pytest.raises(TypeError, match="contiguous"):
        filled.fill(table[:, 1])


@pytest.mark.parametrize("count", [1 << 20, (1 << 20) + 1, 3 << 20])
def test_more_than_the_kept_zeros_is_drawn_as_in_parts(count: int) -> None:
    whole, parts = stream("long"), stream("long")
    assert whole.draw(count) == parts.draw(1000) + parts.draw(count - 1000)
    key = Secret(bytes(range(32)))
    assert secrets.key_stream(key, count)[:1000] == secrets.key_stream(key, 1000)


def test_a_stream_does_not_print() -> None:
    assert repr(stream("shy")) == "Stream(…)"


# Derivation

Labels = tuple[str | bytes | int, ...]

label = st.one_of(st.text(max_size=6), st.binary(max_size=6), st.integers(-(2**127), 2**127 - 1))


def labels_of(case: dict[str, Any]) -> Labels:
    read: dict[str, Callable[[str], str | bytes | int]] = {"str": str, "bytes": bytes.fromhex, "int": int}
    return tuple(read[kind](value) for each in case["labels"] for kind, value in each.items())


@pytest.mark.parametrize("case", json.loads(VECTORS.read_text()), ids=lambda case: case["stream"][:8])
def test_derive_gives_the_known_answers(case: dict[str, Any]) -> None:
    expected = bytes.fromhex(case["stream"])
    found = derive(Secret(bytes.fromhex(case["seed"])), case["usage"], *labels_of(case)).draw(len(expected))
    assert found == expected
    assert (
        expand(Secret(bytes.fromhex(case["seed"])), case["usage"], *labels_of(case)).reveal().hex() == case["expanded"]
    )


@given(first=st.lists(label, max_size=4), second=st.lists(label, max_size=4))
def test_different_labels_give_different_streams(first: list[Any], second: list[Any]) -> None:
    typed = [[(type(each), each) for each in labels] for labels in (first, second)]
    seed = Secret(bytes(32))
    same = derive(seed, "u", *first).draw(16) == derive(seed, "u", *second).draw(16)
    assert same == (typed[0] == typed[1])


COLLIDING: list[tuple[tuple[str, Labels], tuple[str, Labels]]] = [
    (("a", ("bc",)), ("ab", ("c",))),
    (("a", ("b", "c")), ("a", ("bc",))),
    (("a", ("",)), ("a", ())),
    (("", ("a",)), ("a", ("",))),
    (("a", ("1",)), ("a", (1,))),
    (("a", ("1",)), ("a", (b"1",))),
    (("a", (b"\x00" * 15 + b"\x01",)), ("a", (1,))),
    (("a", (1,)), ("a", (-1,))),
    (("a", (1, 2)), ("a", (2, 1))),
    (("a", ("b" + "s\x00\x00\x00\x01c",)), ("a", ("b", "c"))),
    (("a", ("é",)), ("a", ("e\u0301",))),
]


@pytest.mark.parametrize(("first", "second"), COLLIDING)
def test_labels_that_look_alike_do_not_collide(first: tuple[str, Labels], second: tuple[str, Labels]) -> None:
    seed = Secret(bytes(32))
    assert derive(seed, first[0], *first[1]).draw(16) != derive(seed, second[0], *second[1]).draw(16)


def test_different_seeds_give_different_streams() -> None:
    seeds = [Secret(bytes(31) + bytes([last])) for last in range(50)]
    assert len({derive(seed, "u").draw(16) for seed in seeds}) == 50


@pytest.mark.parametrize("number", [2**127, -(2**127) - 1])
def test_a_number_too_large_to_be_a_label_is_refused(number: int) -> None:
    with pytest.raises(OverflowError):
        derive(Secret(bytes(32)), "u", number)


def test_seeds_that_are_expanded_together_are_those_expanded_alone() -> None:
    seed = Secret(bytes(range(32)))
    labels: list[str | bytes | int] = ["a", "party-1", b"a", 1, ""]
    together = [each.reveal() for each in secrets.expand_all(seed, "usage", labels)]
    assert together == [expand(seed, "usage", label).reveal() for label in labels]
    assert len({*together}) == len(labels)
