"""Exact arithmetic in prime fields of up to 50 bits, vectorised, and integers put together from residues.

A product of two 46-bit residues has 92 bits. `multiply` gets it exactly out of 64-bit words: the quotient
a·b/t is estimated in double precision, where it is off by less than one for t below 2^50, so that the remainder
a·b − q·t is right modulo 2^64 and lies within (−t, 2t); two comparisons put it into [0, t).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, isqrt, prod

import numpy as np
import numpy.typing as npt

Residues = npt.NDArray[np.uint64]

LARGEST_MODULUS = 1 << 50


def multiply(a: Residues, b: Residues | int, modulus: int) -> Residues:
    """a·b mod modulus, elementwise, for operands below the modulus.

    >>> multiply(np.array([2**45], dtype=np.uint64), 2**45, 2**46 - 57)
    array([17592186045214], dtype=uint64)
    >>> 2**90 % (2**46 - 57)
    17592186045214
    """
    if modulus >= LARGEST_MODULUS:
        raise ValueError("The modulus must be below 2^50.")
    right = np.asarray(b, dtype=np.uint64)
    quotient = (a.astype(np.float64) * right.astype(np.float64) / modulus).astype(np.uint64)
    # The quotient is off by one at most. What is below zero wraps around, so of two candidates the smaller is right.
    with np.errstate(over="ignore"):
        remainder = a * right - quotient * np.uint64(modulus)
        remainder = np.minimum(remainder, remainder + np.uint64(modulus))
        reduced: Residues = np.minimum(remainder, remainder - np.uint64(modulus))
    return reduced


def add(a: Residues, b: Residues, modulus: int) -> Residues:
    """a + b mod modulus, elementwise."""
    return (a + b) % np.uint64(modulus)


def subtract(a: Residues, b: Residues, modulus: int) -> Residues:
    """a − b mod modulus, elementwise."""
    return (a + (np.uint64(modulus) - b)) % np.uint64(modulus)


def negate(a: Residues, modulus: int) -> Residues:
    """−a mod modulus, elementwise."""
    return (np.uint64(modulus) - a) % np.uint64(modulus)


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
