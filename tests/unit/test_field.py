"""Field arithmetic against Python's integers, at the edges of words and moduli above all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import gcd, isqrt, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fheval import field
from fheval.engines.parameters import plain_moduli
from fheval.field import LARGEST_MODULUS, Residues

# The smallest, the ones in use, the largest below the bound, and some that are no primes.
MODULI = (1, 2, 3, 17, 2**32 - 5, *plain_moduli(2), 2**46, 2**49 + 1, 2**50 - 27, LARGEST_MODULUS - 1)


@st.composite
def operands(draw: st.DrawFn, vectors: int = 2) -> tuple[int, list[list[int]]]:
    """A modulus and vectors of residues, many of them next to 0, to the middle or to the modulus."""
    modulus = draw(st.one_of(st.sampled_from(MODULI), st.integers(1, LARGEST_MODULUS - 1)))
    edges = st.sampled_from([0, 1, 2, modulus // 2, modulus // 2 + 1, modulus - 2, modulus - 1])
    residue = st.one_of(edges.map(lambda x: x % modulus), st.integers(0, modulus - 1))
    size = draw(st.integers(0, 6))
    return modulus, [draw(st.lists(residue, min_size=size, max_size=size)) for _ in range(vectors)]


def words(values: Sequence[int]) -> Residues:
    return np.array(values, dtype=np.uint64)


Binary = tuple[Callable[[Residues, Residues, int], Residues], Callable[[int, int], int]]

BINARY: dict[str, Binary] = {
    "multiply": (field.multiply, lambda a, b: a * b),
    "add": (field.add, lambda a, b: a + b),
    "subtract": (field.subtract, lambda a, b: a - b),
}


@pytest.mark.parametrize("name", BINARY)
@given(case=operands())
def test_elementwise(name: str, case: tuple[int, list[list[int]]]) -> None:
    ours, theirs = BINARY[name]
    modulus, (left, right) = case
    found = ours(words(left), words(right), modulus)
    assert found.dtype == np.uint64
    assert found.tolist() == [theirs(a, b) % modulus for a, b in zip(left, right, strict=True)]


@given(case=operands())
def test_multiply_by_one_number(case: tuple[int, list[list[int]]]) -> None:
    modulus, (left, right) = case
    for factor in right:
        assert field.multiply(words(left), factor, modulus).tolist() == [a * factor % modulus for a in left]


@given(case=operands())
def test_negate_total_and_dot(case: tuple[int, list[list[int]]]) -> None:
    modulus, (left, right) = case
    assert field.negate(words(left), modulus).tolist() == [-a % modulus for a in left]
    assert field.total(words(left), modulus) == sum(left) % modulus
    expected = sum(a * b for a, b in zip(left, right, strict=True)) % modulus
    assert field.dot(words(left), words(right), modulus) == expected


def prime_from(number: int) -> int:
    return next(candidate for candidate in range(number, 2 * number) if field.is_prime(candidate))


# The estimate of a quotient can be too low only for moduli that are not just below a power of two.
BETWEEN_POWERS = [prime_from(int(fraction * 2**bits)) for fraction in (0.55, 0.75, 0.9) for bits in (30, 46, 50)]


@pytest.mark.parametrize("modulus", [3, 17, 2**32 - 5, *plain_moduli(2), 2**50 - 27, *BETWEEN_POWERS])
def test_multiply_where_the_quotient_is_next_to_an_integer(modulus: int) -> None:
    """Products that are small modulo a prime, positive or negative: there an estimate in doubles is off by one."""
    draw = np.random.default_rng(modulus)
    left = [int(a) for a in draw.integers(modulus - min(modulus - 1, 2**48), modulus, 500)]
    remainders = [int(r) % modulus for r in draw.integers(-(2**20), 2**20, 500)]
    right = [r * pow(a, -1, modulus) % modulus for a, r in zip(left, remainders, strict=True)]
    assert field.multiply(words(left), words(right), modulus).tolist() == remainders


def test_multiply_leaves_its_operands_alone() -> None:
    left, right = words([5, 6]), words([7, 8])
    field.multiply(left, right, 97)
    assert (left.tolist(), right.tolist()) == ([5, 6], [7, 8])


@pytest.mark.parametrize("modulus", [LARGEST_MODULUS, LARGEST_MODULUS + 1, 2**64])
def test_multiply_refuses_a_modulus_it_cannot_be_exact_for(modulus: int) -> None:
    with pytest.raises(ValueError, match="below 2\\^50"):
        field.multiply(words([1]), words([1]), modulus)


def test_total_is_exact_for_as_many_as_it_takes_and_refuses_more() -> None:
    modulus = LARGEST_MODULUS - 1
    most = np.full((1 << 14) - 1, modulus - 1, dtype=np.uint64)
    assert field.total(most, modulus) == (modulus - 1) * len(most) % modulus
    with pytest.raises(ValueError, match="16,383"):
        field.total(np.zeros(1 << 14, dtype=np.uint64), modulus)


@given(
    values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6),
    modulus=st.one_of(st.sampled_from(MODULI), st.integers(1, LARGEST_MODULUS - 1)),
)
def test_from_integers(values: list[int], modulus: int) -> None:
    assert field.from_integers(values, modulus).tolist() == [value % modulus for value in values]


def test_from_integers_refuses_more_than_64_bits() -> None:
    with pytest.raises(OverflowError):
        field.from_integers([2**63], 97)


# Chinese remainders


@given(st.data())
def test_combine_gives_back_the_integer(data: st.DataObject) -> None:
    moduli = data.draw(st.sampled_from([(2, 3, 5), (7,), plain_moduli(1), plain_moduli(4), plain_moduli(8)]))
    value = data.draw(st.integers(0, prod(moduli) - 1))
    assert field.combine([value % prime for prime in moduli], moduli) == value


@pytest.mark.parametrize("value", [0, 1, -1])
def test_combine_at_the_edges(value: int) -> None:
    moduli = plain_moduli(4)
    assert field.combine([value % prime for prime in moduli], moduli) == value % prod(moduli)


def test_combine_refuses_what_does_not_fit_together() -> None:
    with pytest.raises(ValueError, match="zip"):
        field.combine([1], [3, 5])
    with pytest.raises(ValueError, match="invertible"):
        field.combine([1, 1], [6, 4])


# Rational reconstruction


def fractions_up_to(bound: int) -> list[tuple[int, int]]:
    return [(n, d) for n in range(bound + 1) for d in range(1, bound + 1) if gcd(n, d) == 1]


@pytest.mark.parametrize("modulus", [11, 97, 101, 105, 128, 243, 1001, 1155])
def test_rational_against_trying_all_fractions(modulus: int) -> None:
    """For every residue: the one small fraction that it stands for, or None, composite moduli included."""
    bound = isqrt((modulus - 1) // 2)
    meanings: dict[int, tuple[int, int]] = {}
    for n, d in fractions_up_to(bound):
        if gcd(d, modulus) == 1:
            residue = n * pow(d, -1, modulus) % modulus
            assert meanings.setdefault(residue, (n, d)) == (n, d), "the bound does not make fractions unique"
    assert {value: field.rational(value, modulus, bound) for value in range(modulus)} == {
        value: meanings.get(value) for value in range(modulus)
    }


@given(st.data())
def test_rational_gives_back_the_fraction(data: st.DataObject) -> None:
    moduli = data.draw(st.sampled_from([plain_moduli(2), plain_moduli(4)]))
    modulus = prod(moduli)
    bound = isqrt((modulus - 1) // 2)
    edges = st.sampled_from([bound, bound - 1, 1])
    numerator = data.draw(st.one_of(st.just(0), edges, st.integers(0, bound)))
    denominator = data.draw(st.one_of(edges, st.integers(1, bound)).filter(lambda d: gcd(d, modulus) == 1))
    value = numerator * pow(denominator, -1, modulus) % modulus
    lowest = Fraction(numerator, denominator)
    assert field.rational(value, modulus, bound) == (lowest.numerator, lowest.denominator)


@given(value=st.integers(0, 2**92), bound=st.integers(1, 2**20))
def test_rational_never_gives_a_fraction_that_is_wrong(value: int, bound: int) -> None:
    modulus = prod(plain_moduli(2))
    found = field.rational(value, modulus, bound)
    if found is not None:
        numerator, denominator = found
        assert 0 <= numerator <= bound
        assert 0 < denominator <= bound
        assert gcd(numerator, denominator) == 1
        assert (numerator - value * denominator) % modulus == 0


def test_rational_finds_nothing_in_noise() -> None:
    """A random element is a fraction of small numbers with a chance of about 2·bound²/modulus: 2^-51 here."""
    modulus, draw = prod(plain_moduli(2)), np.random.default_rng(1)
    values = [int.from_bytes(draw.bytes(12), "little") % modulus for _ in range(200)]
    assert [field.rational(value, modulus, 1 << 20) for value in values] == [None] * 200


@pytest.mark.parametrize(("modulus", "bound"), [(8, 2), (97, 7), (2 * 1000**2, 1000), (2**92, 2**46)])
def test_rational_refuses_bounds_that_leave_fractions_ambiguous(modulus: int, bound: int) -> None:
    with pytest.raises(ValueError, match="not unique"):
        field.rational(1, modulus, bound)


def test_rational_takes_the_largest_bound_that_does_not() -> None:
    assert field.rational(1, 2 * 1000**2 + 1, 1000) == (1, 1)


# Primes


def test_is_prime_against_a_sieve() -> None:
    limit = 20_000
    sieve = np.ones(limit, dtype=bool)
    sieve[:2] = False
    for number in range(2, isqrt(limit) + 1):
        sieve[number * number :: number] = False
    assert [field.is_prime(number) for number in range(limit)] == sieve.tolist()


@pytest.mark.parametrize("number", [-7, -1, 0, 1])
def test_numbers_below_two_are_not_prime(number: int) -> None:
    assert not field.is_prime(number)


@pytest.mark.parametrize(
    "number",
    [
        561, 1105, 1729, 825265, 321197185,  # Carmichael numbers, which fool Fermat's test
        2047, 1373653, 25326001, 3215031751,  # strong pseudoprimes to the first bases
        3474749660383, 341550071728321, 3825123056546413051,
        318665857834031151167461,  # to the first 12 prime bases: the last base decides
        (2**31 - 1) ** 2, (2**23 + 9) * (2**23 + 15),
    ],
)  # fmt: skip
def test_numbers_that_look_prime_are_not(number: int) -> None:
    assert not field.is_prime(number)


@pytest.mark.parametrize("number", [2**31 - 1, 2**61 - 1, 2**50 - 27, 67280421310721])
def test_large_primes(number: int) -> None:
    assert field.is_prime(number)


@pytest.mark.parametrize(("bits", "order", "count"), [(46, 16384, 8), (20, 2048, 3), (10, 2, 5), (5, 1, 11)])
def test_ntt_primes_are_the_largest_there_are(bits: int, order: int, count: int) -> None:
    found = field.ntt_primes(bits=bits, order=order, count=count)
    assert len(found) == count
    assert all(field.is_prime(prime) and prime % order == 1 % order for prime in found)
    between = range(found[-1], 1 << bits, order)
    assert [number for number in reversed(between) if field.is_prime(number)] == list(found)


def test_ntt_primes_says_when_there_are_too_few() -> None:
    assert field.ntt_primes(bits=8, order=64, count=1) == (193,)
    with pytest.raises(ValueError, match="only 1 primes below 2\\^8"):
        field.ntt_primes(bits=8, order=64, count=2)
