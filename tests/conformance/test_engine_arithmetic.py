"""What evaluators compute, level by level, against the same computation in the clear."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine_roles import Roles
from fheval import field
from fheval.engines import Ciphertext, Vector
from fheval.errors import EngineError

GENERATOR = np.random.default_rng(11)


def sample(roles: Roles, count: int | None = None) -> Vector:
    """Values that fill all slots, or the first `count`."""
    size = roles.parameters.slots if count is None else count
    if roles.parameters.scheme == "ckks":
        return GENERATOR.uniform(-4, 4, size) + 1j * GENERATOR.uniform(-4, 4, size)
    return GENERATOR.integers(0, roles.parameters.plain_modulus, size, dtype=np.uint64)


def plus(roles: Roles, left: Vector, right: Vector) -> Vector:
    return left + right if roles.parameters.scheme == "ckks" else field.add(left, right, roles.parameters.plain_modulus)


def times(roles: Roles, left: Vector, right: Vector) -> Vector:
    if roles.parameters.scheme == "ckks":
        return left * right
    return field.multiply(left, right, roles.parameters.plain_modulus)


def agrees(found: Vector, expected: Vector) -> bool:
    """Exact in BFV; in CKKS up to noise."""
    if found.dtype == np.uint64:
        return bool(np.array_equal(found, expected))
    return bool(np.all(np.abs(found - expected) < 1e-6))


def lowest(roles: Roles, ciphertext: Ciphertext) -> Ciphertext:
    """Drop levels until the engine refuses."""
    while True:
        try:
            ciphertext = roles.evaluator.drop_level(ciphertext)
        except EngineError:
            return ciphertext


def test_add(roles: Roles) -> None:
    left, right = sample(roles), sample(roles)
    first, second = roles.loaded(left), roles.loaded(right)
    total = roles.evaluator.add(first, second)
    assert total.limbs == first.limbs
    assert agrees(roles.opened(total), plus(roles, left, right))
    assert agrees(roles.opened(first), left)
    assert agrees(roles.opened(second), right)


def test_accumulate_changes_the_total_and_not_the_term(roles: Roles) -> None:
    expected = sample(roles)
    total = roles.loaded(expected)
    for _ in range(10):
        values = sample(roles)
        term = roles.loaded(values)
        roles.evaluator.accumulate(total, term)
        assert agrees(roles.opened(term), values)
        expected = plus(roles, expected, values)
    assert agrees(roles.opened(total), expected)


def test_add_plain(roles: Roles) -> None:
    left, right = sample(roles), sample(roles)
    ciphertext = roles.loaded(left)
    total = roles.evaluator.add_plain(ciphertext, right)
    assert total.limbs == ciphertext.limbs
    assert agrees(roles.opened(total), plus(roles, left, right))
    assert agrees(roles.opened(ciphertext), left)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_short_plaintext_adds_zeros(roles: Roles, count: int) -> None:
    left, right = sample(roles), sample(roles, count)
    expected = left.copy()
    expected[:count] = plus(roles, left[:count], right)
    assert agrees(roles.opened(roles.evaluator.add_plain(roles.loaded(left), right)), expected)


@pytest.mark.parametrize("name", ["ckks", "bfv"])
def test_multiply(key_set: Callable[[str], Roles], name: str) -> None:
    roles = key_set(name)
    left, right = sample(roles), sample(roles)
    first, second = roles.loaded(left), roles.loaded(right)
    product = roles.evaluator.multiply(first, second)
    assert product.limbs == first.limbs - (name == "ckks")
    assert agrees(roles.opened(product), times(roles, left, right))
    assert agrees(roles.opened(first), left)
    assert agrees(roles.opened(roles.evaluator.multiply(first, first)), times(roles, left, left))


def test_multiply_plain(roles: Roles) -> None:
    left, right = sample(roles), sample(roles)
    ciphertext = roles.loaded(left)
    product = roles.evaluator.multiply_plain(ciphertext, right)
    assert product.limbs == ciphertext.limbs - (roles.parameters.scheme == "ckks")
    assert agrees(roles.opened(product), times(roles, left, right))
    assert agrees(roles.opened(ciphertext), left)


def test_a_short_factor_clears_the_other_slots(roles: Roles) -> None:
    left, right = sample(roles), sample(roles, 3)
    expected = np.zeros_like(left)
    expected[:3] = times(roles, left[:3], right)
    assert agrees(roles.opened(roles.evaluator.multiply_plain(roles.loaded(left), right)), expected)


def test_a_product_and_then_a_plain_product(bfv: Roles) -> None:
    left, right, factor = sample(bfv), sample(bfv), sample(bfv)
    product = bfv.evaluator.multiply(bfv.loaded(left), bfv.loaded(right))
    found = bfv.opened(bfv.evaluator.add_plain(bfv.evaluator.multiply_plain(product, factor), factor))
    assert agrees(found, plus(bfv, times(bfv, times(bfv, left, right), factor), factor))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_linear(roles: Roles, count: int) -> None:
    inputs, factors = [[sample(roles) for _ in range(count)] for _ in range(2)]
    expected = times(roles, inputs[0], factors[0])
    for values, factor in zip(inputs[1:], factors[1:], strict=True):
        expected = plus(roles, expected, times(roles, values, factor))
    prepared = [roles.evaluator.factor(values) for values in factors]
    ciphertexts = [roles.loaded(values) for values in inputs]
    # What is prepared serves again, and so do ciphertexts.
    for _ in range(2):
        assert agrees(roles.opened(roles.evaluator.linear(ciphertexts, prepared)), expected)
    assert agrees(roles.opened(ciphertexts[0]), inputs[0])


def test_linear_wants_one_factor_for_each_ciphertext(roles: Roles) -> None:
    values = sample(roles)
    ciphertext = roles.loaded(values)
    with pytest.raises(ValueError, match="zip"):
        roles.evaluator.linear([ciphertext, ciphertext], [roles.evaluator.factor(values)])


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_rotate_moves_slots_to_the_left_and_around(ckks: Roles, steps: int) -> None:
    values = sample(ckks)
    rotated = ckks.evaluator.rotate(ckks.loaded(values), steps)
    assert agrees(ckks.opened(rotated), np.roll(values, -steps))


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
def test_slot_sum(ckks: Roles, width: int) -> None:
    values = sample(ckks)
    span = 1 << (width - 1).bit_length()
    expected = np.sum([np.roll(values, -i) for i in range(span)], axis=0)
    assert agrees(ckks.opened(ckks.evaluator.slot_sum(ckks.loaded(values), width)), expected)


@pytest.mark.parametrize("steps", [3, 8, 0, -1])
def test_a_rotation_without_a_key_is_refused(ckks: Roles, steps: int) -> None:
    with pytest.raises(EngineError, match="rotation key"):
        ckks.evaluator.rotate(ckks.loaded(np.ones(1)), steps)


def test_bfv_does_not_rotate(bfv: Roles, linear: Roles) -> None:
    for roles in (bfv, linear):
        with pytest.raises(EngineError, match="rotation key"):
            roles.evaluator.rotate(roles.loaded(np.ones(1, dtype=np.uint64)), 1)


def test_a_slot_sum_wider_than_its_keys_is_refused(ckks: Roles) -> None:
    with pytest.raises(EngineError, match="rotation key"):
        ckks.evaluator.slot_sum(ckks.loaded(np.ones(1)), 9)


# Levels


def test_dropping_levels_keeps_the_content_and_saves_bytes(roles: Roles) -> None:
    values = sample(roles)
    ciphertext = roles.loaded(values)
    sizes = [len(roles.evaluator.dump(ciphertext))]
    while True:
        before = ciphertext.limbs
        try:
            ciphertext = roles.evaluator.drop_level(ciphertext)
        except EngineError:
            break
        assert ciphertext.limbs == before - 1
        assert agrees(roles.opened(ciphertext), values)
        sizes.append(len(roles.evaluator.dump(ciphertext)))
    assert len(sizes) >= 3
    if roles.engine.name != "clear":
        assert sizes == sorted(set(sizes), reverse=True)


def test_one_prime_is_left_where_it_exceeds_the_plain_modulus(ckks: Roles, linear: Roles) -> None:
    for roles in (ckks, linear):
        assert lowest(roles, roles.loaded(sample(roles))).limbs == 1


def at_each_level(roles: Roles, values: Vector) -> list[Ciphertext]:
    found = [roles.loaded(values)]
    while found[-1].limbs > 1:
        try:
            found.append(roles.evaluator.drop_level(found[-1]))
        except EngineError:
            break
    return found


def test_sums_at_each_level(roles: Roles) -> None:
    left, right = sample(roles), sample(roles)
    expected = plus(roles, left, right)
    for ciphertext in at_each_level(roles, left):
        like = roles.evaluator.encrypt(right, ciphertext)
        assert like.limbs == ciphertext.limbs
        assert agrees(roles.opened(roles.evaluator.add(ciphertext, like)), expected)
        assert agrees(roles.opened(roles.evaluator.add_plain(ciphertext, right)), expected)
        reloaded = roles.evaluator.load(roles.evaluator.dump(ciphertext))
        assert agrees(roles.opened(roles.evaluator.add(reloaded, like)), expected)
        assert agrees(roles.opened(roles.evaluator.add_plain(reloaded, right)), expected)
        roles.evaluator.accumulate(reloaded, like)
        assert agrees(roles.opened(reloaded), expected)


def test_an_encryption_like_a_product_adds_to_it(ckks: Roles) -> None:
    left, right = sample(ckks), sample(ckks)
    product = ckks.evaluator.multiply(ckks.loaded(left), ckks.loaded(left))
    found = ckks.evaluator.add(product, ckks.evaluator.encrypt(right, product))
    assert agrees(ckks.opened(found), left * left + right)
    assert agrees(ckks.opened(ckks.evaluator.add_plain(product, right)), left * left + right)


def test_ckks_levels_run_out_after_three_products(ckks: Roles) -> None:
    values = GENERATOR.uniform(0.5, 1, ckks.parameters.slots)
    ciphertext = ckks.loaded(values)
    for depth in range(1, ckks.parameters.depth + 1):
        ciphertext = ckks.evaluator.multiply(ciphertext, ciphertext)
        assert agrees(ckks.opened(ciphertext), values ** (2**depth))
        ciphertext = ckks.evaluator.load(ckks.evaluator.dump(ciphertext))
    assert ciphertext.limbs == 1
    with pytest.raises(EngineError, match="no level left"):
        ckks.evaluator.multiply(ciphertext, ciphertext)
    with pytest.raises(EngineError, match="no level left"):
        ckks.evaluator.multiply_plain(ciphertext, values)
    with pytest.raises(EngineError):
        ckks.evaluator.drop_level(ciphertext)


def test_rotations_and_products_below_the_top(ckks: Roles) -> None:
    values = sample(ckks)
    for ciphertext in at_each_level(ckks, values):
        assert agrees(ckks.opened(ckks.evaluator.rotate(ciphertext, 2)), np.roll(values, -2))
        if ciphertext.limbs > 1:
            assert agrees(ckks.opened(ckks.evaluator.multiply(ciphertext, ciphertext)), values * values)
            assert agrees(ckks.opened(ckks.evaluator.multiply_plain(ciphertext, values)), values * values)


def test_bfv_multiplies_before_it_drops_levels(bfv: Roles, linear: Roles) -> None:
    for roles in (bfv, linear):
        values = sample(roles)
        for dropped in at_each_level(roles, values)[1:]:
            with pytest.raises(EngineError):
                roles.evaluator.multiply_plain(dropped, values)
            with pytest.raises(EngineError):
                roles.evaluator.linear([dropped], [roles.evaluator.factor(values)])
            with pytest.raises(EngineError):
                roles.evaluator.multiply(dropped, dropped)


def test_the_linear_set_has_no_product(linear: Roles) -> None:
    ciphertext = linear.loaded(sample(linear))
    with pytest.raises(EngineError, match="no ciphertext product"):
        linear.evaluator.multiply(ciphertext, ciphertext)


def test_different_levels_do_not_combine(roles: Roles) -> None:
    values = sample(roles)
    top = roles.loaded(values)
    below = roles.evaluator.drop_level(top)
    operations: list[Callable[[], object]] = [
        lambda: roles.evaluator.add(top, below),
        lambda: roles.evaluator.add(below, top),
        lambda: roles.evaluator.accumulate(top, below),
        lambda: roles.evaluator.accumulate(below, top),
        lambda: roles.evaluator.multiply(top, below),
        lambda: roles.evaluator.linear([top, below], [roles.evaluator.factor(values)] * 2),
    ]
    for operation in operations:
        with pytest.raises(EngineError):
            operation()
    assert agrees(roles.opened(top), values)
    assert agrees(roles.opened(below), values)


def test_a_factor_of_zeros_is_refused(roles: Roles) -> None:
    ciphertext = roles.loaded(sample(roles))
    for zeros in (np.zeros(0, dtype=np.uint64), np.zeros(5, dtype=np.uint64)):
        with pytest.raises(EngineError, match="hides nothing"):
            roles.evaluator.multiply_plain(ciphertext, zeros)
        with pytest.raises(EngineError, match="hides nothing"):
            roles.evaluator.factor(zeros)
