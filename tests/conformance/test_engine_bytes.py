"""Ciphertexts and keys as bytes: whole ones load again, everything else is an `EngineError`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_roles import ENGINE_NAMES, Roles, bfv_product, engine_named
from fheval.engines import Engine, Parameters, container, why_unavailable
from fheval.engines.parameters import CKKS_PAPER, bfv_linear, plain_moduli
from fheval.errors import EngineError
from fheval.secrets import Secret

VALUES = np.array([1, 2, 3], dtype=np.uint64)
many = settings(max_examples=40, deadline=None)


def rounded(values: np.ndarray) -> list[int]:
    return [int(x) for x in np.rint(values[:4].real)]


def test_dump_and_load(roles: Roles) -> None:
    first = roles.loaded(VALUES)
    data = roles.evaluator.dump(first)
    second = roles.evaluator.load(data)
    assert second.limbs == first.limbs
    assert rounded(roles.opened(second)) == [1, 2, 3, 0]
    assert roles.evaluator.dump(second) == data


def test_a_view_into_a_message_is_as_good_as_bytes(roles: Roles) -> None:
    for view in (memoryview, bytearray):
        data: bytes = view(roles.holder.encrypt(VALUES))  # type: ignore[assignment]
        assert rounded(roles.holder.decrypt(data)) == [1, 2, 3, 0]
        assert rounded(roles.opened(roles.evaluator.load(data))) == [1, 2, 3, 0]
        public: bytes = view(roles.keys.public)  # type: ignore[assignment]
        assert rounded(roles.opened(roles.engine.evaluator(roles.parameters, public).load(data))) == [1, 2, 3, 0]


def test_keys_are_bytes_that_another_role_can_take(roles: Roles) -> None:
    data = roles.holder.encrypt(VALUES)
    holder = roles.engine.key_holder(roles.parameters, roles.keys.secret)
    evaluator = roles.engine.evaluator(roles.parameters, roles.keys.public)
    doubled = evaluator.add(evaluator.load(data), evaluator.load(data))
    assert rounded(holder.decrypt(evaluator.dump(doubled))) == [2, 4, 6, 0]


# Everything that arrives, and who reads it.


Read = tuple[bytes, Callable[[bytes], object]]


def readers(roles: Roles) -> dict[str, Read]:
    ciphertext = roles.holder.encrypt(VALUES)
    return {
        "evaluator": (ciphertext, roles.evaluator.load),
        "key holder": (ciphertext, roles.holder.decrypt),
        "secret key": (
            roles.keys.secret.reveal(),
            lambda data: roles.engine.key_holder(roles.parameters, Secret(data)),
        ),
        "public keys": (roles.keys.public, lambda data: roles.engine.evaluator(roles.parameters, data)),
    }


@pytest.fixture(scope="module", params=["evaluator", "key holder", "secret key", "public keys"])
def arrival(roles: Roles, request: pytest.FixtureRequest) -> Read:
    return readers(roles)[request.param]


def test_truncated_bytes_are_refused(arrival: Read) -> None:
    data, read = arrival
    size, head = len(data), container.HEAD_BYTES
    lengths = {0, 1, 4, head - 1, head, head + 1, head + 16, size // 3, size // 2, size - 8, size - 1}
    for length in sorted(each for each in lengths if each < size):
        with pytest.raises(EngineError):
            read(data[:length])


def test_longer_bytes_are_refused(arrival: Read) -> None:
    data, read = arrival
    for more in (b"\0", b"\0" * 8, data):
        with pytest.raises(EngineError):
            read(data + more)


def test_every_bit_of_the_envelope_counts(arrival: Read) -> None:
    data, read = arrival
    # Key sets have megabytes, and each try computes a checksum over them: every fifth bit, then.
    for bit in range(0, 8 * container.HEAD_BYTES, 1 if len(data) < 1 << 21 else 5):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(EngineError):
            read(bytes(damaged))


@many
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused(arrival: Read, place: float, bit: int) -> None:
    data, read = arrival
    damaged = bytearray(data)
    damaged[int(place * len(data))] ^= 1 << bit
    with pytest.raises(EngineError):
        read(bytes(damaged))


@many
@given(noise=st.binary(max_size=200))
def test_noise_is_refused(arrival: Read, noise: bytes) -> None:
    data, read = arrival
    for damaged in (noise, data[: container.HEAD_BYTES] + noise):
        if damaged != data:
            with pytest.raises(EngineError):
                read(damaged)


def test_one_kind_is_not_taken_for_another(roles: Roles) -> None:
    each = readers(roles)
    for reader, (_, read) in each.items():
        for other, (data, _) in each.items():
            if {reader, other} != {"evaluator", "key holder"} and reader != other:
                with pytest.raises(EngineError, match="not a"):
                    read(data)


# Other keys, other engines, other parameters


def test_another_key_is_refused_by_name(roles: Roles) -> None:
    other = Roles.fresh(roles.engine, roles.parameters)
    data = other.holder.encrypt(VALUES)
    for read in (roles.evaluator.load, roles.holder.decrypt):
        with pytest.raises(EngineError, match="belongs to another key"):
            read(data)


def test_a_relabelled_ciphertext_shows_nothing(roles: Roles) -> None:
    """Whoever writes our key id over another's ciphertext gets noise out of it, never the numbers."""
    if roles.engine.name == "clear":
        pytest.skip("The plaintext twin hides nothing.")
    other = Roles.fresh(roles.engine, roles.parameters)
    payload = other.payload(container.CIPHERTEXT, other.holder.encrypt(VALUES))
    ours = roles.forged(container.CIPHERTEXT, roles.holder.encrypt(VALUES), payload)
    found = roles.holder.decrypt(ours)
    assert not np.any(np.abs(found[:3] - VALUES.astype(found.dtype)) < 1)


def test_another_engine_is_refused(engine: Engine, roles: Roles) -> None:
    for name in ENGINE_NAMES:
        if name == engine.name or (name != "clear" and why_unavailable(name) is not None):
            continue
        other = Roles.fresh(engine_named(name), roles.parameters)
        theirs = readers(other)
        for reader, (_, read) in readers(roles).items():
            with pytest.raises(EngineError, match="another engine"):
                read(theirs[reader][0])


KINDS = {
    "evaluator": container.CIPHERTEXT,
    "key holder": container.CIPHERTEXT,
    "secret key": container.SECRET_KEY,
    "public keys": container.PUBLIC_KEYS,
}


def other_parameters() -> list[Parameters]:
    first, second = plain_moduli(2)
    return [
        CKKS_PAPER,
        bfv_product(first),
        bfv_product(second),
        bfv_linear(first),
        replace(CKKS_PAPER, scale_bits=49),
        replace(bfv_linear(first), modulus_bits=(60, 60, 59, 38)),
    ]


def test_other_parameters_are_refused(roles: Roles) -> None:
    for reader, (data, _) in readers(roles).items():
        for parameters in other_parameters():
            if parameters == replace(roles.parameters, rotations=()):
                continue
            with pytest.raises(EngineError, match="other parameters"):
                container.unpack(KINDS[reader], roles.engine.name, parameters, None, data)
    with pytest.raises(EngineError, match="other parameters"):
        roles.engine.key_holder(bfv_product(plain_moduli(2)[1]), roles.keys.secret)
    with pytest.raises(EngineError, match="other parameters"):
        roles.engine.evaluator(bfv_product(plain_moduli(2)[1]), roles.keys.public)


def test_rotation_keys_do_not_change_what_a_ciphertext_belongs_to(ckks: Roles) -> None:
    holder = ckks.engine.key_holder(CKKS_PAPER, ckks.keys.secret)
    assert rounded(holder.decrypt(ckks.holder.encrypt(VALUES))) == [1, 2, 3, 0]


def test_keys_do_not_print(roles: Roles) -> None:
    shown = repr(roles.keys)
    assert "Secret(…)" in shown
    assert "\\x" not in shown
    assert len(shown) < 500
    assert "handle" not in repr(roles.loaded(VALUES))
