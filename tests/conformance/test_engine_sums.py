"""Running sums: uploads that are read, added and forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from engine_roles import Roles
from fheval.engines import Vector, container
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


def test_many_uploads_add_up_to_what_adding_them_one_by_one_gives(roles: Roles) -> None:
    """More than fit a word of 64 bits unreduced: sixteen of 60 bits do."""
    uploads = [upload(roles, number) for number in range(3)]
    total = roles.evaluator.running_sum()
    expected = roles.evaluator.load(uploads[0])
    total.add(total.read(uploads[0]))
    for number in range(1, 50):
        data = uploads[number % 3]
        total.add(total.read(data))
        roles.evaluator.accumulate(expected, roles.evaluator.load(data))
    assert roles.evaluator.dump(total.total()) == roles.evaluator.dump(expected)


def test_the_largest_residues_do_not_overflow_a_sum(roles: Roles) -> None:
    if roles.engine.name != "openfhe":
        pytest.skip("only openfhe's sums are sums of bare residues")
    honest = upload(roles, 1)
    total = roles.evaluator.running_sum()
    primes = total._frame.primes  # type: ignore[attr-defined]
    words = np.broadcast_to(primes - 1, (len(primes), roles.parameters.ring)).astype("<u8")
    largest = roles.forged(container.CIPHERTEXT, honest, words.tobytes())
    for _ in range(40):
        total.add(total.read(largest))
    found = roles.payload(container.CIPHERTEXT, roles.evaluator.dump(total.total()))
    assert (np.frombuffer(found, dtype="<u8").reshape(words.shape) == primes - 40).all()


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
