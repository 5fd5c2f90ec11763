"""Exact arithmetic in prime fields of up to 62 bits, vectorised, integers put together from residues, and linear maps.

A product of two 46-bit residues has 92 bits. `multiply` gets it exactly out of 64-bit words: the quotient
a·b/t is estimated in double precision, where it is off by less than one for t below 2^50, so that the remainder
a·b − q·t is right modulo 2^64 and lies within (−t, 2t); two comparisons put it into [0, t).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, isqrt, prod
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Residues = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
# One, or as many as go with the operands by NumPy's rules.
Modulus = int | Residues

LARGEST_MODULUS = 1 << 50


def multiply(a: Residues, b: Residues | int, modulus: Modulus) -> Residues:
    """a·b mod modulus, elementwise, for operands below the modulus.

    >>> multiply(np.array([2**45], dtype=np.uint64), 2**45, 2**46 - 57)
    array([17592186045214], dtype=uint64)
    >>> 2**90 % (2**46 - 57)
    17592186045214
    """
    if (modulus if isinstance(modulus, int) else modulus.max()) >= LARGEST_MODULUS:
        raise ValueError("The modulus must be below 2^50.")
    return _multiply(a, np.asarray(b, dtype=np.uint64), modulus)


def multiply_large(a: Residues, b: Residues, modulus: int) -> Residues:
    """The same for a modulus of up to 62 bits, as the primes of ciphertexts are: b is taken in two halves.

    >>> multiply_large(np.array([2**59], dtype=np.uint64), np.array([2**59], dtype=np.uint64), 2**60 - 93)
    array([288230376151713883], dtype=uint64)
    >>> 2**118 % (2**60 - 93)
    288230376151713883
    """
    if modulus >= 1 << 2 * _HALF:
        raise ValueError("The modulus must be below 2^62.")
    upper = _multiply(a, b >> np.uint64(_HALF), modulus)
    return add(
        _multiply(upper, np.asarray(1 << _HALF, dtype=np.uint64), modulus),
        _multiply(a, b & np.uint64((1 << _HALF) - 1), modulus),
        modulus,
    )


_HALF = 31


def _multiply(a: Residues, right: Residues, modulus: Modulus) -> Residues:
    """a·right mod modulus, where a is below the modulus, that below 2^62, and `right` below 2^50."""
    quotient = (a.astype(np.float64) * right.astype(np.float64) / modulus).astype(np.uint64)
    # The quotient is off by one at most. What is below zero wraps around, so of two candidates the smaller is right.
    remainder = a * right - quotient * _word(modulus)
    remainder = np.minimum(remainder, remainder + _word(modulus))
    reduced: Residues = np.minimum(remainder, remainder - _word(modulus))
    return reduced


def _word(modulus: Modulus) -> Any:
    return np.uint64(modulus) if isinstance(modulus, int) else modulus


def add(a: Residues, b: Residues, modulus: Modulus) -> Residues:
    """a + b mod modulus, elementwise."""
    return np.asarray((a + b) % _word(modulus))


def subtract(a: Residues, b: Residues, modulus: Modulus) -> Residues:
    """a − b mod modulus, elementwise."""
    return np.asarray((a + (_word(modulus) - b)) % _word(modulus))


def negate(a: Residues, modulus: Modulus) -> Residues:
    """−a mod modulus, elementwise."""
    return np.asarray((_word(modulus) - a) % _word(modulus))


def total(a: Residues, modulus: int) -> int:
    """The sum of all elements mod modulus; safe for up to 2^14 elements below 2^50."""
    if a.size >= 1 << 14:
        raise ValueError("At most 16,383 elements are added at once.")
    return int(a.sum(dtype=np.uint64)) % modulus


def dot(a: Residues, b: Residues, modulus: int) -> int:
    """The inner product mod modulus."""
    return total(multiply(a, b, modulus), modulus)


def from_integers(values: Sequence[int] | npt.NDArray[np.int64], modulus: int) -> Residues:
    """Reduce signed 64-bit integers into [0, modulus)."""
    return np.mod(np.asarray(values, dtype=np.int64), np.int64(modulus)).astype(np.uint64)


def from_large_integers(values: Sequence[int], modulus: int) -> Residues:
    """Reduce integers of any size into [0, modulus)."""
    return np.array([value % modulus for value in values], dtype=np.uint64)


def combine(residues: Sequence[int], moduli: Sequence[int]) -> int:
    """The integer in [0, Π moduli) with these residues (Chinese remainder theorem)."""
    modulus = prod(moduli)
    value = 0
    for residue, prime in zip(residues, moduli, strict=True):
        cofactor = modulus // prime
        value += residue * cofactor * pow(cofactor, -1, prime)
    return value % modulus


def rational(value: int, modulus: int, bound: int) -> tuple[int, int] | None:
    """The fraction n/d ≡ value (mod modulus) with 0 ≤ n ≤ bound and 0 < d ≤ bound, in lowest terms, or None.

    It is unique when 2·bound² < modulus, which is required (Wang's condition).
    """
    if 2 * bound * bound >= modulus:
        raise ValueError(f"Fractions up to {bound} are not unique modulo a number of {modulus.bit_length()} bits.")
    r0, r1 = modulus, value % modulus
    s0, s1 = 0, 1
    while r1 > bound:
        quotient = r0 // r1
        r0, r1 = r1, r0 - quotient * r1
        s0, s1 = s1, s0 - quotient * s1
    numerator, denominator = (r1, s1) if s1 > 0 else (-r1, -s1)
    if not 0 < denominator <= bound or not 0 <= numerator <= bound:
        return None
    # A common factor is one of the modulus too: cancelling it would leave a fraction that is not ≡ value.
    if gcd(numerator, denominator) > 1:
        return None
    return numerator, denominator


@lru_cache
def ntt_primes(*, bits: int, order: int, count: int) -> tuple[int, ...]:
    """The `count` largest primes below 2^bits that are 1 modulo `order`."""
    found: list[int] = []
    candidate = ((1 << bits) - 2) // order * order + 1
    while len(found) < count:
        if candidate < 2:
            raise ValueError(f"There are only {len(found)} primes below 2^{bits} that are 1 modulo {order}.")
        if is_prime(candidate):
            found.append(candidate)
        candidate -= order
    return tuple(found)


def is_prime(number: int) -> bool:
    """Whether `number` is prime: Miller–Rabin with bases that decide every number below 3.3·10^24."""
    if number < 1 << 10:
        return number > 1 and all(number % d for d in range(2, isqrt(number) + 1))
    if number % 2 == 0:
        return False
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


class LinearMap(msgspec.Struct, frozen=True, array_like=True, cache_hash=True):
    """An integer matrix whose rows add up few stretches of a vector, made by `stretches`, `+`, `-`, `*` and `stack`.

    With C_j the sum of the first j numbers of the vector, an entry is a coefficient of C at some place, so that a sum
    over any stretch, C_stop − C_start, takes two entries, and a curve of running totals no more than two a row. Entries
    are sorted by row and place, and no two are of the same: equal maps are equal bytes. `ends` has the entry behind
    each row.

    >>> positives = LinearMap.stretches(range(3), range(1, 4))
    >>> total = LinearMap.stretches([0], [3])
    >>> LinearMap.stack([positives, 2 * total - positives[0]]).of_integers(np.array([[1, 20, 300]])).tolist()
    [[1, 20, 300, 641]]
    """

    ends: bytes
    places: bytes
    coefficients: bytes

    @classmethod
    def stretches(cls, starts: Sequence[int], stops: Sequence[int]) -> LinearMap:
        """A row for each stretch: the sum of the numbers from start to stop, the last one not included."""
        rows = np.arange(len(starts))
        ones = np.ones(len(starts), dtype=np.int64)
        return cls._of(
            len(starts), np.append(rows, rows), np.concatenate([stops, starts]).astype(np.int64), np.append(ones, -ones)
        )

    @classmethod
    def stack(cls, maps: Sequence[LinearMap]) -> LinearMap:
        """The rows of all of them, one below the other."""
        firsts = np.cumsum([0, *(len(each) for each in maps)])
        rows = [each._rows + first for each, first in zip(maps, firsts, strict=False)]
        return cls._of(
            int(firsts[-1]),
            np.concatenate(rows),
            np.concatenate([each._places for each in maps]),
            np.concatenate([each._coefficients for each in maps]),
        )

    @classmethod
    def _of(cls, count: int, rows: Integers, places: Integers, coefficients: Integers) -> LinearMap:
        """Sort entries and add up those of one row and place; a row without any gets a zero, so that none is empty."""
        rows = np.append(rows, np.arange(count))
        places = np.append(places, np.zeros(count, dtype=np.int64))
        # C_0 is always zero.
        coefficients = np.append(np.where(places[:-count] == 0, 0, coefficients), np.zeros(count, dtype=np.int64))
        order = np.lexsort((places, rows))
        rows, places, coefficients = rows[order], places[order], coefficients[order]
        first = np.append(True, (np.diff(rows) != 0) | (np.diff(places) != 0))
        sums = np.add.reduceat(coefficients, np.flatnonzero(first))
        rows, places = rows[first], places[first]
        alone = np.bincount(rows[sums != 0], minlength=count)[rows] == 0
        kept = (sums != 0) | (alone & (places == 0))
        ends = np.cumsum(np.bincount(rows[kept], minlength=count))
        return cls(_packed(ends), _packed(places[kept]), _packed(sums[kept]))

    def __len__(self) -> int:
        return len(self.ends) // 8

    def __getitem__(self, row: int) -> LinearMap:
        mine = self._rows == row % len(self)
        return self._of(1, np.zeros(int(mine.sum()), dtype=np.int64), self._places[mine], self._coefficients[mine])

    def __add__(self, other: LinearMap) -> LinearMap:
        if len(self) != len(other):
            raise ValueError(f"Maps of {len(self)} and of {len(other)} rows cannot be added.")
        return self._of(
            len(self),
            np.append(self._rows, other._rows),
            np.append(self._places, other._places),
            np.append(self._coefficients, other._coefficients),
        )

    def __rmul__(self, factor: int) -> LinearMap:
        return self._of(len(self), self._rows, self._places, factor * self._coefficients)

    def __neg__(self) -> LinearMap:
        return -1 * self

    def __sub__(self, other: LinearMap) -> LinearMap:
        return self + -other

    def of_integers(self, vectors: Integers) -> Integers:
        """The map of every line of a table of integers, exact even where running totals wrap around."""
        totals = np.zeros((*vectors.shape[:-1], vectors.shape[-1] + 1), dtype=np.int64)
        np.cumsum(vectors, axis=-1, out=totals[..., 1:])
        mapped: Integers = np.add.reduceat(totals[..., self._places] * self._coefficients, self._starts, axis=-1)
        return mapped

    def of_residues(self, vectors: Residues, moduli: tuple[int, ...]) -> Residues:
        """The map of every line of tables of residues, one table for each modulus."""
        each = np.array(moduli, dtype=np.uint64)[:, np.newaxis, np.newaxis]
        totals = np.zeros((*vectors.shape[:-1], vectors.shape[-1] + 1), dtype=np.uint64)
        # So many residues, and what is before them, are added up without an overflow.
        most = (1 << 64) // max(moduli) - 1
        for start in range(0, vectors.shape[-1], most):
            sums = np.cumsum(vectors[..., start : start + most], axis=-1)
            totals[..., start + 1 : start + 1 + most] = (sums + totals[..., start, np.newaxis]) % each
        places, coefficients, starts = _entries_modulo(self, moduli)
        entries = multiply(totals[..., places], coefficients, each)
        mapped: Residues = np.add.reduceat(entries, starts, axis=-1) % each
        return mapped

    @property
    def reach(self) -> int:
        """How long a vector is at least that it maps."""
        return int(self._places.max())

    def reads_whole(self, stretches: Sequence[tuple[int, int]]) -> bool:
        """Whether every row adds up nothing but these stretches, each of them as a whole; they do not overlap.

        >>> positives, negatives = (0, 3), (3, 6)
        >>> LinearMap.stretches([0], [6]).reads_whole([positives, negatives])
        True
        >>> LinearMap.stretches([0], [2]).reads_whole([positives, negatives])
        False
        >>> LinearMap.stretches([3], [6]).reads_whole([positives])
        False
        """
        edges = {0, *(edge for stretch in stretches for edge in stretch)}
        if not edges.issuperset(self._places.tolist()):
            return False
        # Between two edges a row has one coefficient: zero, where no stretch begins at the first of them.
        outside = sorted(edges.difference(start for start, _ in stretches))
        probes = np.zeros((len(outside), max(*outside, self.reach) + 1), dtype=np.int64)
        probes[range(len(outside)), outside] = 1
        return not self.of_integers(probes).any()

    @property
    def _places(self) -> Integers:
        return _unpacked(self.places)

    @property
    def _coefficients(self) -> Integers:
        return _unpacked(self.coefficients)

    @property
    def _starts(self) -> Integers:
        return np.append(0, _unpacked(self.ends)[:-1])

    @property
    def _rows(self) -> Integers:
        return np.repeat(np.arange(len(self)), np.diff(_unpacked(self.ends), prepend=0))


@lru_cache(maxsize=256)
def _entries_modulo(mapping: LinearMap, moduli: tuple[int, ...]) -> tuple[Integers, Residues, Integers]:
    """Where a map's entries are, what they are modulo primes, and where each row begins: the same in every round."""
    coefficients = np.stack([from_integers(mapping._coefficients, modulus) for modulus in moduli])
    return mapping._places, coefficients[:, np.newaxis], mapping._starts


def _packed(values: npt.NDArray[Any]) -> bytes:
    return values.astype("<i8").tobytes()


def _unpacked(data: bytes) -> Integers:
    return np.frombuffer(data, dtype="<i8")
