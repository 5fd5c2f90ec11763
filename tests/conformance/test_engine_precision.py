"""How much the parameter sets carry: BFV exactly, CKKS to the digits that the protocols promise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine_roles import Roles, bfv_product, engine_named
from fheval import field
from fheval.engines import Engine, Vector
from fheval.engines.parameters import CKKS_PAPER, bfv_linear, plain_moduli
from fheval.field import Residues

GENERATOR = np.random.default_rng(23)
SLOTS = 8192


def random_residues(modulus: int) -> Residues:
    return GENERATOR.integers(0, modulus, SLOTS, dtype=np.uint64)


# All slots t − 1 is the largest vector but a tiny polynomial (the constant −1); random slots are a large polynomial.
PLAINTEXTS: dict[str, Callable[[int], Residues]] = {
    "all t-1": lambda modulus: np.full(SLOTS, modulus - 1, dtype=np.uint64),
    "all t/2": lambda modulus: np.full(SLOTS, modulus // 2, dtype=np.uint64),
    "0 and t-1 in turns": lambda modulus: np.tile(np.array([0, modulus - 1], dtype=np.uint64), SLOTS // 2),
    "random": random_residues,
    "one slot": lambda modulus: np.array([modulus - 1], dtype=np.uint64),
}


@pytest.mark.parametrize("prime", range(8))
def test_linear_work_is_exact_down_to_the_last_prime(engine: Engine, prime: int) -> None:
    """Σ ciphertext·plaintext + Enc(0), then down to one prime, for every plain modulus that a round may use."""
    modulus = plain_moduli(8)[prime]
    roles = Roles.fresh(engine, bfv_linear(modulus))
    names = list(PLAINTEXTS) if prime == 0 else ["all t-1", "random"]
    for name in names:
        inputs, factors = [[PLAINTEXTS[name](modulus) for _ in range(4)] for _ in range(2)]
        inputs[0] = random_residues(modulus)[: len(inputs[0])]
        prepared = [roles.evaluator.factor(values) for values in factors]
        result = roles.evaluator.linear([roles.loaded(values) for values in inputs], prepared)
        result = roles.evaluator.add(result, roles.evaluator.encrypt(np.zeros(1, dtype=np.uint64), result))
        while result.limbs > 1:
            result = roles.evaluator.drop_level(result)
        expected = np.zeros(len(factors[0]), dtype=np.uint64)
        for values, factor in zip(inputs, factors, strict=True):
            expected = field.add(expected, field.multiply(values, factor, modulus), modulus)
        assert np.array_equal(roles.opened(result)[: len(expected)], expected), name


@pytest.mark.parametrize("prime", [0, 7])
@pytest.mark.parametrize("name", ["all t-1", "random"])
def test_a_product_and_a_plain_product_are_exact(engine: Engine, prime: int, name: str) -> None:
    """Sums of pads in, one product, a plaintext vector, Enc(0), then as far down as the set goes."""
    modulus = plain_moduli(8)[prime]
    roles = Roles.fresh(engine, bfv_product(modulus))
    left, right, pad, factor = (PLAINTEXTS[name](modulus) for _ in range(4))
    unpadded = [roles.evaluator.add_plain(roles.loaded(values), pad) for values in (left, right)]
    result = roles.evaluator.multiply_plain(roles.evaluator.multiply(*unpadded), factor)
    result = roles.evaluator.add(result, roles.evaluator.encrypt(np.zeros(1, dtype=np.uint64)))
    while result.limbs > 2:
        result = roles.evaluator.drop_level(result)
    left, right = (field.add(values, pad, modulus) for values in (left, right))
    expected = field.multiply(field.multiply(left, right, modulus), factor, modulus)
    assert np.array_equal(roles.opened(result), expected)


@pytest.mark.parametrize("size", [30.0, 44.0, 58.0])
def test_ratios_survive_two_ckks_products(ckks: Roles, size: float) -> None:
    """Numbers up to 2^58 that went the same way through two products: their ratio keeps seven digits."""
    counts = np.rint(2.0 ** GENERATOR.uniform(0, 12, (2, SLOTS)))
    products = counts[0] * counts[1]
    blinding = 2.0**size / products.max()
    first = ckks.evaluator.multiply(ckks.loaded(counts[0]), ckks.loaded(counts[1]))
    result = ckks.evaluator.multiply_plain(first, np.full(SLOTS, blinding))
    assert result.limbs == 2
    found = ckks.opened(result).real
    assert found.max() == pytest.approx(2.0**size, rel=1e-7)
    reference = int(np.argmax(products))
    large = products > products.max() / 2**10
    ratios = found[large] / found[reference]
    assert large.sum() > 100
    assert np.abs(ratios / (products[large] / products[reference]) - 1).max() < 1e-7


def test_the_largest_numbers_survive_a_slot_sum_and_a_mask(ckks: Roles) -> None:
    """The way of a result: product, slot sum, blinding, mask; the answer's slot is exact to seven digits."""
    left, right = np.rint(GENERATOR.uniform(0, 2**20, (2, 8)))
    total = float(left @ right)
    product = ckks.evaluator.multiply(ckks.loaded(left), ckks.loaded(right))
    summed = ckks.evaluator.slot_sum(product, 8)
    blinding = 2.0**57.9 / total
    result = ckks.evaluator.multiply_plain(summed, np.array([blinding]))
    mask = GENERATOR.uniform(-(2.0**16), 2.0**16, SLOTS)
    mask[0] = 0
    result = ckks.evaluator.add(result, ckks.evaluator.encrypt(mask, result))
    found = ckks.opened(result)
    assert found[0].real == pytest.approx(total * blinding, rel=1e-7)


def ckks_path(roles: Roles, left: Vector, right: Vector) -> Vector:
    product = roles.evaluator.multiply(roles.loaded(left), roles.loaded(right))
    summed = roles.evaluator.slot_sum(roles.evaluator.add_plain(product, left), 4)
    mixed = roles.evaluator.linear([summed, product], [roles.evaluator.factor(each) for each in (right, left)])
    return roles.opened(roles.evaluator.add(mixed, roles.evaluator.encrypt(left, mixed)))


def bfv_path(roles: Roles, left: Vector, right: Vector) -> Vector:
    total = roles.loaded(left)
    roles.evaluator.accumulate(total, roles.evaluator.encrypt(right))
    product = roles.evaluator.multiply(total, roles.loaded(right))
    mixed = roles.evaluator.linear([product, product], [roles.evaluator.factor(each) for each in (left, right)])
    return roles.opened(roles.evaluator.drop_level(roles.evaluator.add_plain(mixed, left)))


def test_engines_agree_on_a_longer_computation(engine: Engine) -> None:
    twin = engine_named("clear")
    parameters = CKKS_PAPER.with_slot_sums(4)
    left, right = GENERATOR.uniform(-3, 3, (2, SLOTS)) + 1j * GENERATOR.uniform(-3, 3, (2, SLOTS))
    expected, found = (ckks_path(Roles.fresh(each, parameters), left, right) for each in (twin, engine))
    assert np.abs(found - expected).max() < 1e-6
    for modulus in plain_moduli(2):
        a, b = random_residues(modulus), random_residues(modulus)
        exact, residues = (bfv_path(Roles.fresh(each, bfv_product(modulus)), a, b) for each in (twin, engine))
        assert np.array_equal(residues, exact)
