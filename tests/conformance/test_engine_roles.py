"""Two rounds or two roles in one process do not mix, whatever a library keeps per process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from engine_roles import Roles, bfv_product
from fheval.engines import Engine, Evaluator, container
from fheval.engines.parameters import CKKS_PAPER, plain_moduli
from fheval.errors import EngineError

ONES = np.ones(3, dtype=np.uint64)


def first(roles: Roles, ciphertext: Any) -> int:
    return int(np.rint(roles.opened(ciphertext)[0].real))


@pytest.fixture(scope="module")
def rounds(engine: Engine) -> tuple[Roles, Roles]:
    """Two rounds under the same parameters, each with its own keys."""
    parameters = CKKS_PAPER.with_slot_sums(2)
    return Roles.fresh(engine, parameters), Roles.fresh(engine, parameters)


def test_two_rounds_in_turns(rounds: tuple[Roles, Roles]) -> None:
    operands = [roles.loaded(ONES * value) for roles, value in zip(rounds, (2, 3), strict=True)]
    products = [roles.evaluator.multiply(x, x) for roles, x in zip(rounds, operands, strict=True)]
    sums = [roles.evaluator.slot_sum(x, 2) for roles, x in zip(reversed(rounds), reversed(products), strict=True)]
    again = [roles.evaluator.multiply(x, x) for roles, x in zip(rounds, reversed(sums), strict=True)]
    assert [first(roles, x) for roles, x in zip(rounds, products, strict=True)] == [4, 9]
    assert [first(roles, x) for roles, x in zip(rounds, again, strict=True)] == [64, 324]


def test_one_rounds_evaluator_does_not_read_the_others_ciphertexts(rounds: tuple[Roles, Roles]) -> None:
    for ours, theirs in (rounds, rounds[::-1]):
        with pytest.raises(EngineError, match="another key"):
            ours.evaluator.load(theirs.holder.encrypt(ONES))
        with pytest.raises(EngineError, match="another key"):
            ours.holder.decrypt(theirs.evaluator.dump(theirs.evaluator.encrypt(ONES)))


def test_two_rounds_in_two_threads(rounds: tuple[Roles, Roles]) -> None:
    found: list[list[int]] = [[], []]

    def play(index: int) -> None:
        roles, value = rounds[index], index + 2
        for _ in range(3):
            x = roles.loaded(ONES * value)
            found[index].append(first(roles, roles.evaluator.slot_sum(roles.evaluator.multiply(x, x), 2)))

    threads = [threading.Thread(target=play, args=(index,)) for index in range(2)]
    patience = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(patience)
    assert found == [[8] * 3, [18] * 3]


def stripped(roles: Roles) -> Evaluator:
    """An evaluator under the same encryption key that was not given any evaluation keys."""
    parts = msgspec.msgpack.decode(roles.payload(container.PUBLIC_KEYS, roles.keys.public))
    bare = [False, []] if roles.engine.name == "clear" else [parts[0], b"", b""]
    public = roles.forged(container.PUBLIC_KEYS, roles.keys.public, msgspec.msgpack.encode(bare))
    return roles.engine.evaluator(roles.parameters, public)


def test_a_role_without_evaluation_keys_cannot_borrow_them(rounds: tuple[Roles, Roles]) -> None:
    roles, _ = rounds
    poor = stripped(roles)
    data = roles.holder.encrypt(ONES)
    rich_ciphertext, poor_ciphertext = roles.evaluator.load(data), poor.load(data)
    for _ in range(2):
        assert first(roles, roles.evaluator.multiply(rich_ciphertext, rich_ciphertext)) == 1
        with pytest.raises(EngineError):
            poor.multiply(poor_ciphertext, poor_ciphertext)
        assert first(roles, roles.evaluator.rotate(rich_ciphertext, 1)) == 1
        with pytest.raises(EngineError):
            poor.rotate(poor_ciphertext, 1)
    assert first(roles, poor.add(poor_ciphertext, poor.encrypt(ONES))) == 2


def test_parameters_do_not_conjure_up_rotation_keys(engine: Engine) -> None:
    few = Roles.fresh(engine, CKKS_PAPER.with_slot_sums(2))
    data = few.holder.encrypt(ONES)

    def rotate_by(steps: int) -> None:
        evaluator = engine.evaluator(CKKS_PAPER.with_slot_sums(8), few.keys.public)
        evaluator.rotate(evaluator.load(data), steps)

    with pytest.raises(EngineError):
        rotate_by(4)
    plain = engine.evaluator(CKKS_PAPER, few.keys.public)
    with pytest.raises(EngineError, match="rotation key"):
        plain.rotate(plain.load(data), 1)


# OpenFHE keeps evaluation keys in maps of the whole process.


@pytest.fixture
def key_maps(engine: Engine) -> Iterator[Callable[[], list[Any]]]:
    if engine.name != "openfhe":
        pytest.skip("Only OpenFHE keeps keys per process.")
    import openfhe

    def all_maps() -> list[Any]:
        context = openfhe.CryptoContext
        return [
            *context.GetAllEvalMultKeys(),
            *context.GetAllEvalAutomorphismKeys(),
            *context.GetAllEvalSumKeys(),
        ]

    yield all_maps
    openfhe.ClearEvalMultKeys()
    openfhe.CryptoContext.ClearEvalAutomorphismKeys()


def test_key_maps_are_empty_after_everything(engine: Engine, key_maps: Callable[[], list[Any]]) -> None:
    parameters = CKKS_PAPER.with_slot_sums(2)
    keys = engine.generate_keys(parameters)
    assert key_maps() == []
    holder = engine.key_holder(parameters, keys.secret)
    evaluator = engine.evaluator(parameters, keys.public)
    assert key_maps() == []
    x = evaluator.load(holder.encrypt(ONES))
    operations: list[Callable[[], object]] = [
        lambda: evaluator.encrypt(ONES, x),
        lambda: evaluator.add(x, x),
        lambda: evaluator.add_plain(x, ONES),
        lambda: evaluator.multiply(x, x),
        lambda: evaluator.multiply_plain(x, ONES),
        lambda: evaluator.linear([x], [evaluator.factor(ONES)]),
        lambda: evaluator.rotate(x, 1),
        lambda: evaluator.slot_sum(x, 2),
        lambda: evaluator.drop_level(x),
        lambda: holder.decrypt(evaluator.dump(x)),
    ]
    for operation in operations:
        operation()
        assert key_maps() == []


def test_key_maps_are_empty_after_a_failure(rounds: tuple[Roles, Roles], key_maps: Callable[[], list[Any]]) -> None:
    roles, _ = rounds
    low = roles.loaded(ONES)
    while low.limbs > 1:
        low = roles.evaluator.drop_level(low)
    poor = stripped(roles)
    x = poor.load(roles.holder.encrypt(ONES))
    failures: list[Callable[[], object]] = [
        lambda: roles.evaluator.multiply(low, low),
        lambda: poor.rotate(x, 1),
        lambda: roles.engine.evaluator(roles.parameters, roles.keys.public[:-1]),
        lambda: roles.engine.evaluator(CKKS_PAPER.with_slot_sums(4), roles.keys.public),
    ]
    for failure in failures:
        with pytest.raises(EngineError):
            failure()
        assert key_maps() == []


def test_keys_that_others_left_behind_are_not_used(
    rounds: tuple[Roles, Roles], key_maps: Callable[[], list[Any]]
) -> None:
    """Some other code in the process filled the maps, under the very tag of our key."""
    import openfhe

    roles, _ = rounds
    poor = stripped(roles)
    x = poor.load(roles.holder.encrypt(ONES))
    tag = x.handle.GetKeyTag()
    openfhe.CryptoContext.InsertEvalMultKey(roles.evaluator._relinearisation, tag)  # type: ignore[attr-defined]
    openfhe.CryptoContext.InsertEvalAutomorphismKey(roles.evaluator._rotation, tag)  # type: ignore[attr-defined]
    assert key_maps() != []
    with pytest.raises(EngineError):
        poor.rotate(x, 1)
    assert key_maps() == []
    openfhe.CryptoContext.InsertEvalMultKey(roles.evaluator._relinearisation, tag)  # type: ignore[attr-defined]
    with pytest.raises(EngineError):
        poor.multiply(x, x)


def test_another_thread_waits_while_keys_are_in_the_maps(
    rounds: tuple[Roles, Roles], key_maps: Callable[[], list[Any]]
) -> None:
    ours, theirs = rounds
    x = theirs.loaded(ONES * 3)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(first(theirs, theirs.evaluator.multiply(x, x))))
    with ours.evaluator._keys_in_place():  # type: ignore[attr-defined]
        before = key_maps()
        thread.start()
        thread.join(timeout=0.3)
        assert thread.is_alive()
        assert key_maps() == before != []
    thread.join()
    assert found == [9]
    assert key_maps() == []


def test_a_set_without_products_makes_no_product_keys(linear: Roles, bfv: Roles) -> None:
    assert len(linear.keys.public) < len(bfv.keys.public) or linear.engine.name == "clear"
    with pytest.raises(EngineError, match="no ciphertext product"):
        linear.evaluator.multiply(linear.loaded(ONES), linear.loaded(ONES))


def test_rounds_over_different_primes_live_side_by_side(engine: Engine) -> None:
    several = [Roles.fresh(engine, bfv_product(prime)) for prime in plain_moduli(3)]
    operands = [roles.loaded(np.array([roles.parameters.plain_modulus - 1], dtype=np.uint64)) for roles in several]
    products = [roles.evaluator.multiply(x, x) for roles, x in zip(several, operands, strict=True)]
    assert [roles.opened(x)[0] for roles, x in zip(several, products, strict=True)] == [1, 1, 1]
