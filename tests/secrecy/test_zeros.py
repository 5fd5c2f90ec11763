"""Encryptions of zero under a public key whose randomness SEAL does not draw itself: fresh, noisy, and wiped."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine_roles import Roles, engine_named
from fheval.engines import Ciphertext, container, why_unavailable
from fheval.engines.parameters import bfv_linear, wide_moduli
from fheval.errors import EngineError
from fheval.secrets import SEED_BYTES, SystemRandomness

pytestmark = pytest.mark.skipif(why_unavailable("seal") is not None, reason="seal is not installed here")

PARAMETERS = bfv_linear(wide_moduli(1)[0])
BELOW = PARAMETERS.limbs - 1
ONE, OTHER = np.arange(1, 60, dtype=np.uint64), np.arange(2, 120, 2, dtype=np.uint64)


@pytest.fixture(scope="module")
def roles() -> Roles:
    return Roles.fresh(engine_named("seal"), PARAMETERS)


def library() -> Any:
    return importlib.import_module("fheval.engines.seal")


def polynomials(roles: Roles, values: np.ndarray) -> np.ndarray:
    """Both polynomials of an encryption below the first level, a row for each prime."""
    return written(roles, roles.evaluator.encrypt(values, dropped=1))


def written(roles: Roles, ciphertext: Ciphertext) -> np.ndarray:
    data = roles.evaluator.dump(ciphertext)
    return np.asarray(library()._residues(roles.payload(container.CIPHERTEXT, data), 2, BELOW, PARAMETERS.ring))


def test_no_two_encryptions_are_alike(roles: Roles) -> None:
    made = np.stack([polynomials(roles, ONE) for _ in range(20)])
    assert len(np.unique(made)) > 0.999 * made.size


def test_they_open_and_are_as_noisy_as_those_of_seal(roles: Roles) -> None:
    evaluator: Any = roles.evaluator
    holder: Any = roles.holder
    ours, seals = set(), set()
    for _ in range(20):
        made = evaluator.encrypt(ONE, dropped=1)
        assert np.array_equal(roles.opened(made)[: len(ONE)], ONE)
        ours.add(holder._decryptor.invariant_noise_budget(made.handle))
        theirs = roles.evaluator.drop_level(evaluator.encrypt(ONE))
        seals.add(holder._decryptor.invariant_noise_budget(theirs.handle))
    # Of 120 bits of modulus and 50 of plaintext; the one that was dropped has the rounding of that drop instead.
    assert ours <= {57, 58, 59}
    assert max(seals) - 4 <= min(ours)


def test_both_polynomials_have_noise(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one u for all, two encryptions differ by their noise alone: √2 times √12."""
    monkeypatch.setattr(library(), "ternary", lambda _, count: np.eye(1, count, dtype=np.int8)[0])
    one, other = polynomials(roles, ONE), polynomials(roles, ONE)
    for prime, rows, others in zip(roles.primes, one.swapaxes(0, 1), other.swapaxes(0, 1), strict=False):
        noise = (rows.astype(np.int64) - others.astype(np.int64) + prime // 2) % prime - prime // 2
        assert np.all(np.abs(noise) <= 48)
        assert np.all(np.abs(noise.std(axis=1) - 24**0.5) < 0.3)
        assert not np.array_equal(*noise)


def test_the_randomness_is_the_systems(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def draw(_: SystemRandomness, count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    monkeypatch.setattr(SystemRandomness, "draw", draw)
    assert np.array_equal(polynomials(roles, ONE), polynomials(roles, ONE))
    assert asked == [SEED_BYTES] * 2


def test_randomness_that_is_used_twice_shows_the_difference(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fresh seeds prevent: the second polynomials are equal, so that the first ones tell m − m' without a key."""
    monkeypatch.setattr(SystemRandomness, "draw", lambda _, count: bytes(count))
    one, other = polynomials(roles, ONE), polynomials(roles, OTHER)
    assert np.array_equal(one[1], other[1])
    monkeypatch.undo()
    one, other = polynomials(roles, ONE), polynomials(roles, OTHER)
    assert (one[1] == other[1]).mean() < 0.001


def test_an_encryption_without_randomness_is_refused(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library(), "ternary", lambda _, count: np.zeros(count, dtype=np.int8))
    with pytest.raises(EngineError):
        roles.evaluator.encrypt(ONE, dropped=1)


def test_nothing_is_left_of_what_was_drawn(roles: Roles) -> None:
    evaluator: Any = roles.evaluator
    evaluator.encrypt(ONE, dropped=1)
    assert not evaluator._zeros._u.any()
    assert not evaluator._zeros._noise.any()


def test_where_files_are_on_a_disk_seal_draws_by_itself(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was wiped may have been written down before."""
    monkeypatch.setattr(container, "IN_MEMORY", False)
    evaluator: Any = roles.engine.evaluator(PARAMETERS, roles.keys.public)
    assert evaluator._zeros is None
    data = evaluator.dump(evaluator.encrypt(ONE, dropped=1))
    assert np.array_equal(roles.holder.decrypt(data)[: len(ONE)], ONE)


def test_threads_do_not_share_what_is_drawn(roles: Roles) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: roles.evaluator.encrypt(ONE, dropped=1), range(40)))
    firsts = {int(written(roles, each)[1, 0, 0]) for each in made}
    assert len(firsts) == len(made)
