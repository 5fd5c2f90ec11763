"""The uniform half of a key holder's ciphertext, which travels as a seed: fresh, uniform, and nothing else changed."""

from __future__ import annotations

import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from engine_roles import Roles, engine_named
from fheval.engines import Engine, container, why_unavailable
from fheval.engines.parameters import bfv_linear, plain_moduli
from fheval.field import ntt_primes
from fheval.secrets import SEED_BYTES, SystemRandomness

PARAMETERS = bfv_linear(plain_moduli(1)[0])
PRIMES = ntt_primes(bits=60, order=2 * PARAMETERS.ring, count=3)
ONE, OTHER = np.arange(1, 60, dtype=np.uint64), np.arange(2, 120, 2, dtype=np.uint64)
LIMBS = PARAMETERS.limbs


@pytest.fixture(scope="module", params=["seal", "openfhe"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if why_unavailable(request.param) is not None:
        pytest.skip(f"{request.param} is not installed here")
    return engine_named(request.param)


@pytest.fixture(scope="module")
def roles(engine: Engine) -> Roles:
    return Roles.fresh(engine, PARAMETERS)


def sent(roles: Roles, values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Seed and residues of a ciphertext as it travels."""
    payload = roles.payload(container.CIPHERTEXT, roles.holder.encrypt(values))
    return payload[:SEED_BYTES], container.unseeded(memoryview(payload), PARAMETERS, roles.primes)[0]


def test_every_ciphertext_has_a_seed_of_its_own(roles: Roles) -> None:
    made = [sent(roles, ONE) for _ in range(20)]
    assert len({seed for seed, _ in made}) == 20
    assert len(np.unique(np.stack([body for _, body in made]))) > 0.999 * 20 * LIMBS * PARAMETERS.ring


def test_a_seed_comes_from_the_system(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []

    def draw(_: SystemRandomness, count: int) -> bytes:
        drawn.append(bytes([len(drawn)]) * count)
        return drawn[-1]

    monkeypatch.setattr(SystemRandomness, "draw", draw)
    assert [sent(roles, ONE)[0] for _ in range(3)] == drawn
    assert [len(each) for each in drawn] == [SEED_BYTES] * 3


def difference_read_by_a_stranger(roles: Roles) -> list[int]:
    """The bodies of two ciphertexts subtracted from each other, opened with a key that has nothing to do with them.

    Where both have one uniform part it cancels out, and what is left needs no key at all.
    """
    stranger = Roles.fresh(roles.engine, PARAMETERS)
    primes = roles.primes
    (_, one), (_, other), (seed, nothing) = sent(roles, ONE), sent(roles, OTHER), sent(stranger, np.zeros_like(ONE))
    rows = [
        (b.astype(object) - a.astype(object) + zero.astype(object)) % prime
        for a, b, zero, prime in zip(one, other, nothing, primes, strict=True)
    ]
    packed = (container._packed(row.astype(np.uint64), prime) for row, prime in zip(rows, primes, strict=True))
    payload = seed + b"".join(packed)
    data = stranger.forged(container.CIPHERTEXT, stranger.holder.encrypt(ONE), payload)
    return list(map(int, stranger.holder.decrypt(data)[: len(ONE)]))


def test_a_seed_that_is_used_twice_shows_the_difference(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fresh seeds prevent, and what happens without them."""
    assert difference_read_by_a_stranger(roles) != (OTHER - ONE).tolist()
    monkeypatch.setattr(SystemRandomness, "draw", lambda _, count: b"\7" * count)
    assert difference_read_by_a_stranger(roles) == (OTHER - ONE).tolist()


def test_message_and_noise_stay_what_the_library_made_them() -> None:
    """b + a·s, which is all that a key holder sees, is the same before and after."""
    draw = np.random.default_rng(5)
    tables = [
        np.stack([draw.integers(0, prime, PARAMETERS.ring, dtype=np.uint64) for prime in PRIMES]) for _ in range(3)
    ]
    body, drawn, secret = tables
    payload = memoryview(container.seeded(np.stack([body, drawn]), secret, PARAMETERS, PRIMES))
    assert container.is_seeded(payload, PARAMETERS, PRIMES)
    moved, expanded = container.unseeded(payload, PARAMETERS, PRIMES)
    for b, a, key, new_b, new_a, prime in zip(body, drawn, secret, moved, expanded, PRIMES, strict=True):
        before = (b.astype(object) + a.astype(object) * key.astype(object)) % prime
        assert np.array_equal(before, (new_b.astype(object) + new_a.astype(object) * key.astype(object)) % prime)
        assert max(new_a.max(), new_b.max()) < prime


def expanded(seed: bytes, plain_modulus: int = PARAMETERS.plain_modulus) -> np.ndarray:
    payload = memoryview(seed + bytes(60 * LIMBS * PARAMETERS.ring // 8))
    found: np.ndarray = container.unseeded(payload, bfv_linear(plain_modulus), PRIMES)[1]
    return found


@pytest.mark.parametrize("bits", [60, 56, 44, 43])
def test_residues_travel_in_the_bits_of_their_prime(bits: int) -> None:
    """As one integer, plane by plane: the lower 32 bits of all residues, the next 16, the next 8, and the last four."""
    prime, count = (1 << bits) - 1, PARAMETERS.ring
    row = np.random.default_rng(bits).integers(0, prime, count, dtype=np.uint64)
    row[:4] = 0, 1, prime - 1, prime >> 1
    packed = container._packed(row, prime)
    assert len(packed) == -(-bits // 4) * count // 2
    planes, done = 0, 0
    place = 0
    for width in (32, 16, 8, 4):
        if -(-bits // 4) * 4 & width:
            for value in row.tolist():
                planes |= (value >> done & (1 << width) - 1) << place
                place += width
            done += width
    assert packed == planes.to_bytes(len(packed), "little")
    found = np.full(count, 2**64 - 1, dtype="<u8")
    container._unpack(memoryview(packed), found, prime)
    assert np.array_equal(found, row)


def test_a_seed_expands_as_it_is_specified() -> None:
    """HMAC-SHA256 of the labels, AES-256 in counter mode, 60 bits of eight bytes each: worked out once more."""
    seed, usage, labelled = bytes(range(SEED_BYTES)), b"engines/uniform part", PARAMETERS.fingerprint.encode()
    info = b"".join(b"s" + len(each).to_bytes(4, "big") + each for each in (usage, labelled))
    key = hmac.digest(seed, b"fheval/1" + info + b"\x01", "sha256")
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(8 * LIMBS * PARAMETERS.ring))
    numbers = [int.from_bytes(stream[start : start + 8], "little") % 2**60 for start in range(0, len(stream), 8)]
    assert expanded(seed).reshape(-1).tolist() == numbers


def test_what_is_not_below_its_prime_is_drawn_again() -> None:
    """Under moduli that half of all numbers exceed, which real primes are far from."""
    moduli = [2**59 + 1, 2**59 + 3]
    table = container._expanded(b"\1" * SEED_BYTES, PARAMETERS, moduli)
    assert np.all(table < np.array(moduli, dtype=np.uint64)[:, np.newaxis])
    boxes = np.bincount((table.reshape(-1) >> np.uint64(55)).astype(np.int64), minlength=16)
    assert np.all(np.abs(boxes - 1024) < 7 * 32)


def test_what_a_seed_expands_to_is_uniform_and_depends_on_everything() -> None:
    table = expanded(b"\1" * SEED_BYTES)
    assert np.array_equal(table, expanded(b"\1" * SEED_BYTES))
    for other in (expanded(b"\2" * SEED_BYTES), expanded(b"\1" * SEED_BYTES, plain_moduli(2)[1])):
        assert not np.any(table == other)
    assert len(np.unique(table)) == table.size
    # Of the upper and of the lower bits: eight thousand numbers in sixteen boxes, 512 in each, give or take 22.
    for row, prime in zip(table, PRIMES, strict=True):
        assert row.max() < prime
        for bits in (row >> np.uint64(56), row & np.uint64(15)):
            assert np.all(np.abs(np.bincount(bits.astype(np.int64), minlength=16) - 512) < 7 * 22)
