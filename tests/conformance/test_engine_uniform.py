"""Keys whose uniform part is a hash of public data, and keys and ciphertexts that would hide nothing."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pytest

from engine_roles import Roles, engine_named
from fheval.engines import Engine, Keys, Parameters, container
from fheval.engines.container import PublicKeys
from fheval.engines.parameters import bfv_linear, plain_moduli
from fheval.errors import ConfigError, EngineError

PARAMETERS = bfv_linear(plain_moduli(1)[0])
DATA = b"a round, and whose key it is"
VALUES = np.arange(1, 50, dtype=np.uint64)


@pytest.fixture(scope="module", params=["seal", "openfhe"])
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        return engine_named(request.param)
    except (ConfigError, EngineError):
        pytest.skip(f"{request.param} is not installed here")


@pytest.fixture(scope="module")
def keys(engine: Engine) -> Keys:
    return engine.generate_keys(PARAMETERS, DATA)


def body_of(engine: Engine, keys: Keys) -> np.ndarray:
    _, public = container.unpack_public(engine.name, PARAMETERS, keys.public, PublicKeys)
    return np.frombuffer(public.encryption, dtype="<u8").reshape(-1, PARAMETERS.ring)


def forged(engine: Engine, keys: Keys, encryption: bytes) -> bytes:
    """The same public keys with another encryption key in them."""
    key_id, public = container.unpack_public(engine.name, PARAMETERS, keys.public, PublicKeys)
    content = msgspec.msgpack.encode(msgspec.structs.replace(public, encryption=encryption))
    return container.pack(container.PUBLIC_KEYS, engine.name, PARAMETERS, key_id, 0, content)


def opened(engine: Engine, keys: Keys, data: bytes) -> list[int]:
    """What the key holder reads of numbers that somebody encrypted who took the key's uniform part from `data`."""
    evaluator = engine.evaluator(PARAMETERS, keys.public, data)
    written = evaluator.dump(evaluator.encrypt(VALUES, dropped=1))
    return list(map(int, engine.key_holder(PARAMETERS, keys.secret).decrypt(written)[: len(VALUES)]))


def test_a_key_with_a_uniform_part_out_of_a_hash_is_as_good_as_any(engine: Engine, keys: Keys) -> None:
    assert opened(engine, keys, DATA) == VALUES.tolist()
    assert len(keys.public) < 0.6 * len(engine.generate_keys(PARAMETERS).public)


def test_a_product_has_the_noise_that_it_has_under_other_keys(engine: Engine, keys: Keys) -> None:
    """Switched down to one prime, where little room is left."""
    evaluator, holder = engine.evaluator(PARAMETERS, keys.public, DATA), engine.key_holder(PARAMETERS, keys.secret)
    modulus = np.uint64(PARAMETERS.plain_modulus)
    full = np.arange(PARAMETERS.slots, dtype=np.uint64) * np.uint64(8_589_934_583) % modulus
    result = evaluator.drop_level(evaluator.multiply_plain(evaluator.load(holder.encrypt(full)), np.full(8192, 3)))
    evaluator.accumulate(result, evaluator.encrypt(full, dropped=1))
    while result.limbs > 1:
        result = evaluator.drop_level(result)
    assert np.array_equal(holder.decrypt(evaluator.dump(result)), full * np.uint64(4) % modulus)


def test_under_other_public_data_the_key_is_another(engine: Engine, keys: Keys) -> None:
    assert opened(engine, keys, DATA + b"'s friend") != VALUES.tolist()


def test_keys_are_read_in_the_form_they_were_made_in(engine: Engine, keys: Keys) -> None:
    with pytest.raises(EngineError):
        engine.evaluator(PARAMETERS, keys.public)
    with pytest.raises(EngineError):
        engine.evaluator(PARAMETERS, engine.generate_keys(PARAMETERS).public, DATA)


def test_the_uniform_part_is_uniform_and_depends_on_everything() -> None:
    primes = plain_moduli(3)
    table = container.uniform_part(DATA, PARAMETERS, primes)
    others = (
        container.uniform_part(DATA + b"\0", PARAMETERS, primes),
        container.uniform_part(DATA, bfv_linear(plain_moduli(2)[1]), primes),
    )
    assert np.array_equal(table, container.uniform_part(DATA, PARAMETERS, primes))
    for other in others:
        assert not np.any(table == other)
    assert not np.any(table[0] == table[1])
    # Eight thousand numbers in sixteen boxes: each holds 512, give or take 22.
    for row, prime in zip(table, primes, strict=True):
        boxes = np.bincount((row >> np.uint64(42)).astype(np.int64), minlength=16)
        assert row.max() < prime
        assert np.all(np.abs(boxes - 512) < 7 * 22)


BODIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "zero": np.zeros_like,
    "one prime zero": lambda body: np.concatenate([np.zeros_like(body[:1]), body[1:]]),
    "constant": lambda body: np.full_like(body, 5),
    "few values": lambda body: body % np.uint64(100),
    "a period": lambda body: np.tile(body[:, :256], body.shape[1] // 256),
    "above the primes": lambda body: body | np.uint64(1 << 63),
    "a prime too few": lambda body: body[1:],
    "a prime too many": lambda body: np.concatenate([body, body[:1]]),
    "cut": lambda body: body[:, 1:],
    "nothing": lambda body: body[:0],
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_degenerate_key_is_refused(engine: Engine, keys: Keys, kind: str) -> None:
    changed = np.ascontiguousarray(BODIES[kind](body_of(engine, keys)), dtype="<u8").tobytes()
    with pytest.raises(EngineError):
        engine.evaluator(PARAMETERS, forged(engine, keys, changed), DATA)
    assert engine.evaluator(PARAMETERS, forged(engine, keys, body_of(engine, keys).tobytes()), DATA)


def transparent(engine: Engine, roles: Roles, limbs: int) -> bytes:
    """A ciphertext whose second polynomial is zero: what it holds is there for everyone to read."""
    words = np.zeros((2, limbs, PARAMETERS.ring), dtype="<u8")
    words[0] = 7
    payload = words.tobytes()
    if engine.name == "seal":
        from fheval.engines import seal

        level = b"".join(word.to_bytes(8, "little") for word in seal._setting(PARAMETERS).level(limbs))
        numbers = seal._headed(words.size.to_bytes(8, "little") + payload, 0)
        payload = seal._headed(level + struct.pack("<?QQQdQ", False, 2, PARAMETERS.ring, limbs, 1.0, 1) + numbers, 0)
    return roles.forged(container.CIPHERTEXT, roles.holder.encrypt(VALUES), payload, limbs)


@pytest.mark.parametrize("limbs", [1, 3])
def test_a_transparent_ciphertext_is_refused(engine: Engine, limbs: int) -> None:
    roles = Roles.fresh(engine, PARAMETERS)
    data = transparent(engine, roles, limbs)
    with pytest.raises(EngineError, match=r"transparent|not of the form"):
        roles.evaluator.load(data)
    with pytest.raises(EngineError, match=r"transparent|not of the form"):
        roles.holder.decrypt(data)


def test_without_both_guards_a_key_hides_nothing(engine: Engine, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero, and a constant for the uniform part: what anybody encrypts under such a key can be read with any other."""
    zero = forged(engine, keys, np.zeros_like(body_of(engine, keys)).tobytes())
    stranger = engine.generate_keys(PARAMETERS, DATA)
    with pytest.raises(EngineError, match="degenerate"):
        engine.evaluator(PARAMETERS, zero, DATA)

    def read_by_a_stranger() -> list[int]:
        evaluator = engine.evaluator(PARAMETERS, zero, DATA)
        _, limbs, payload = container.unpack(
            container.CIPHERTEXT,
            engine.name,
            PARAMETERS,
            None,
            evaluator.dump(evaluator.encrypt(VALUES, dropped=1)),
        )
        their_id, *_ = container.unpack(container.PUBLIC_KEYS, engine.name, PARAMETERS, None, stranger.public)
        data = container.pack(container.CIPHERTEXT, engine.name, PARAMETERS, their_id, limbs, bytes(payload))
        return list(map(int, engine.key_holder(PARAMETERS, stranger.secret).decrypt(data)[: len(VALUES)]))

    monkeypatch.setattr(container, "require_unlike", lambda _: None)
    assert read_by_a_stranger() != VALUES.tolist()
    place = "fheval.engines.seal" if engine.name == "seal" else "fheval.engines.openfhe.setting"

    def constant(_: bytes, chosen: Parameters, primes: Sequence[int]) -> np.ndarray:
        """Small beside the modulus; SEAL divides by a prime of 60 bits, and must not be left with nothing."""
        value = 1 << (61 if engine.name == "seal" else 40)
        return np.array([[value % prime] for prime in primes], dtype=np.uint64).repeat(chosen.ring, axis=1)

    monkeypatch.setattr(f"{place}.uniform_part", constant)
    assert read_by_a_stranger() == VALUES.tolist()
