"""Numbers into ciphertexts and back, and what is refused before anyone encrypts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine_roles import Roles
from fheval.engines import Evaluator, KeyHolder, Vector
from fheval.errors import CapacityError, EngineError, PrecisionError

GENERATOR = np.random.default_rng(7)


def close(found: Vector, expected: Vector) -> bool:
    """Equal up to the noise of a fresh ciphertext, which grows with the largest value through rounding of doubles."""
    tolerance = 1e-9 + 1e-13 * float(np.abs(expected).max(initial=0.0))
    return bool(np.all(np.abs(found - expected) < tolerance))


def padded(values: Vector, slots: int) -> Vector:
    return np.concatenate([values, np.zeros(slots - len(values), dtype=values.dtype)])


CKKS_VECTORS: dict[str, NDArray[np.generic]] = {
    "empty": np.zeros(0),
    "zero": np.zeros(1),
    "one float": np.array([0.5]),
    "floats": np.array([1.0, -2.0, 3.25]),
    "complex": np.array([1 + 2j, -3j, 0.5]),
    "integers": np.array([3, -4, 5]),
    "single precision": np.array([0.25, 0.125], dtype=np.float32),
    "not contiguous": np.arange(20.0)[::2],
    "full": GENERATOR.normal(size=8192) + 1j * GENERATOR.normal(size=8192),
    "tiny": np.array([2.0**-30, -(2.0**-30)]),
    "largest": np.array([1.0, -1.0]) * 2.0**58,
    "largest everywhere": np.full(8192, 2.0**58),
    "largest complex": np.array([2.0**57 * (1 + 1j)]),
}


@pytest.mark.parametrize("name", CKKS_VECTORS)
def test_ckks_round_trip(ckks: Roles, name: str) -> None:
    values = CKKS_VECTORS[name]
    found = ckks.holder.decrypt(ckks.holder.encrypt(values))
    assert found.dtype == np.complex128
    assert found.shape == (ckks.parameters.slots,)
    assert close(found, padded(values, ckks.parameters.slots))


@pytest.mark.parametrize("name", CKKS_VECTORS)
def test_ckks_round_trip_under_the_public_key(ckks: Roles, name: str) -> None:
    values = CKKS_VECTORS[name]
    ciphertext = ckks.evaluator.encrypt(values)
    assert close(ckks.opened(ciphertext), padded(values, ckks.parameters.slots))


def bfv_vectors(modulus: int) -> dict[str, NDArray[np.generic]]:
    edges = [0, 1, 2, modulus // 2 - 1, modulus // 2, modulus // 2 + 1, modulus - 2, modulus - 1]
    return {
        "empty": np.zeros(0, dtype=np.uint64),
        "zero": np.zeros(1, dtype=np.uint64),
        "signed": np.array([3, 4, 5]),
        "edges": np.array(edges, dtype=np.uint64),
        "largest everywhere": np.full(8192, modulus - 1, dtype=np.uint64),
        "full": GENERATOR.integers(0, modulus, 8192, dtype=np.uint64),
        "not contiguous": np.arange(20, dtype=np.uint64)[::2],
    }


@pytest.mark.parametrize("name", bfv_vectors(97))
@pytest.mark.parametrize("key", ["secret", "public"])
def test_bfv_round_trip(bfv: Roles, linear: Roles, name: str, key: str) -> None:
    for roles in (bfv, linear):
        values = bfv_vectors(roles.parameters.plain_modulus)[name]
        if key == "secret":
            found = roles.holder.decrypt(roles.holder.encrypt(values))
        else:
            found = roles.opened(roles.evaluator.encrypt(values))
        assert found.dtype == np.uint64
        assert np.array_equal(found, padded(values, roles.parameters.slots))


def test_encryption_is_randomised(roles: Roles) -> None:
    if roles.engine.name == "clear":
        pytest.skip("The plaintext twin hides nothing.")
    values = np.ones(3, dtype=np.uint64)
    assert roles.holder.encrypt(values) != roles.holder.encrypt(values)
    first, second = (roles.evaluator.dump(roles.evaluator.encrypt(values)) for _ in range(2))
    assert first != second


# Capacity and precision: the same refusals wherever a vector enters.


def entrances(roles: Roles) -> dict[str, KeyHolder | Evaluator]:
    return {"key holder": roles.holder, "evaluator": roles.evaluator}


def assert_refused(roles: Roles, values: Vector, error: type[EngineError]) -> None:
    ciphertext = roles.loaded(np.ones(1, dtype=np.uint64))
    for role in entrances(roles).values():
        with pytest.raises(error):
            role.encrypt(values)
    with pytest.raises(error):
        roles.evaluator.encrypt(values, ciphertext)
    with pytest.raises(error):
        roles.evaluator.add_plain(ciphertext, values)
    with pytest.raises(error):
        roles.evaluator.multiply_plain(ciphertext, values)


def test_too_many_values_are_refused(roles: Roles) -> None:
    assert_refused(roles, np.ones(roles.parameters.slots + 1, dtype=np.uint64), CapacityError)


def test_a_table_is_refused(roles: Roles) -> None:
    assert_refused(roles, np.ones((2, 2), dtype=np.uint64), CapacityError)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, complex(0, np.inf), complex(np.nan, 0)])
def test_ckks_refuses_what_is_no_number(ckks: Roles, value: complex) -> None:
    assert_refused(ckks, np.array([1.0, value]), CapacityError)


@pytest.mark.parametrize("value", [2.0**58.1, -(2.0**58.1), 1e300, 2.0**58.1 * 1j])
def test_ckks_refuses_what_would_wrap_around(ckks: Roles, value: complex) -> None:
    assert_refused(ckks, np.array([1.0, value]), CapacityError)


@pytest.mark.parametrize(("limbs", "bits"), [(2, 58), (1, 8)])
def test_ckks_refuses_below_the_top_what_would_wrap_around_there(ckks: Roles, limbs: int, bits: int) -> None:
    low = ckks.loaded(np.ones(1))
    while low.limbs > limbs:
        low = ckks.evaluator.drop_level(low)
    fits = np.full(ckks.parameters.slots, 2.0**bits)
    assert close(ckks.opened(ckks.evaluator.encrypt(fits, low)), fits)
    for values in (np.array([2.0 ** (bits + 0.1)]), np.array([-(2.0 ** (bits + 20))])):
        with pytest.raises(CapacityError):
            ckks.evaluator.encrypt(values, low)
        with pytest.raises(CapacityError):
            ckks.evaluator.add_plain(low, values)


@pytest.mark.parametrize("kind", ["O", "U1", "M8[s]"])
def test_ckks_refuses_other_types(ckks: Roles, kind: str) -> None:
    assert_refused(ckks, np.ones(2).astype(kind), PrecisionError)


def test_bfv_refuses_residues_that_are_none(bfv: Roles, linear: Roles) -> None:
    for roles in (bfv, linear):
        modulus = roles.parameters.plain_modulus
        for value in (modulus, modulus + 1, 2**63, 2**64 - 1):
            assert_refused(roles, np.array([1, value], dtype=np.uint64), CapacityError)
        assert_refused(roles, np.array([1, -1]), CapacityError)


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.5], [np.nan], [1j]])
def test_bfv_refuses_what_is_no_integer(bfv: Roles, values: list[complex]) -> None:
    assert_refused(bfv, np.array(values), PrecisionError)
