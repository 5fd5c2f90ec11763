"""Running sums: uploads that are read, added and forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from engine_roles import Roles
from fheval.engines import Vector
from fheval.errors import EngineError


def opened(roles: Roles, total: object) -> Vector:
    return np.rint(roles.opened(total)[:3].real).astype(np.int64)  # type: ignore[arg-type]


def upload(roles: Roles, number: int) -> bytes:
    return roles.holder.encrypt(np.array([number, 2 * number, 1], dtype=np.uint64))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_the_sum_of_several_uploads(roles: Roles, count: int) -> None:
    total = roles.evaluator.running_sum()
    for number in range(count):
        total.add(total.read(upload(roles, number)))
    ones = sum(range(count))
    assert opened(roles, total.total()).tolist() == [ones, 2 * ones, count]


def test_a_sum_goes_on_after_its_total_was_asked_for(roles: Roles) -> None:
    total = roles.evaluator.running_sum()
    for number in range(1, 6):
        total.add(total.read(upload(roles, 1)))
        assert opened(roles, total.total()).tolist() == [number, 2 * number, number]


def test_the_total_goes_on_through_the_circuit(ckks: Roles) -> None:
    total = ckks.evaluator.running_sum()
    for number in (2, 3, 4):
        total.add(total.read(upload(ckks, number)))
    square = ckks.evaluator.multiply(total.total(), total.total())
    assert opened(ckks, square).tolist() == [81, 324, 9]


def test_reading_changes_no_sum(roles: Roles) -> None:
    total = roles.evaluator.running_sum()
    total.add(total.read(upload(roles, 5)))
    total.read(upload(roles, 6))
    good = upload(roles, 7)
    for bad in (b"", good[:-1], good[:-9] + bytes([good[-9] ^ 1]) + good[-8:]):
        with pytest.raises(EngineError):
            total.read(bad)
    assert opened(roles, total.total()).tolist() == [5, 10, 1]


def test_uploads_are_fresh(roles: Roles) -> None:
    total = roles.evaluator.running_sum()
    dropped = roles.evaluator.dump(roles.evaluator.drop_level(roles.loaded(np.ones(3, dtype=np.uint64))))
    with pytest.raises(EngineError, match="not fresh"):
        total.read(dropped)


def test_a_sum_of_nothing_is_refused(roles: Roles) -> None:
    with pytest.raises(EngineError, match="no ciphertext in this sum"):
        roles.evaluator.running_sum().total()
