"""Secrets that do not print, randomness as an argument, streams derived from a shared seed, and boxes sealed under one.

Two sources of randomness exist: `SystemRandomness`, the operating system's generator, and `Stream`, the key
stream of AES-256 in counter mode under a key that HKDF-SHA256 derives from a seed and a list of labels. Protocol
code takes either as an argument and never reaches for one by itself.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fheval.errors import CapacityError

T = TypeVar("T")

SEED_BYTES = 32

# A derived key is used for one stream only, so the counter may start at zero.
_FROM_ZERO = modes.CTR(bytes(16))
_NO_NONCE = bytes(12)
# What key streams are laid over. Making as many zeros anew takes longer than the cipher.
_ZEROS = memoryview(bytes(1 << 20))

_SEAL_NONCE_BYTES = 12
_SEAL_LENGTH_BYTES = 4


class Secret(Generic[T]):
    """A value that must not leak by accident: it does not print, format, pickle, copy, compare or hash.

    >>> key = Secret(b"hunter2")
    >>> key
    Secret(…)
    >>> f"{key}"
    'Secret(…)'
    >>> key.reveal()
    b'hunter2'
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """Hand the value out; every call is a place to look at in a review."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __format__(self, spec: str) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        raise TypeError("Secrets are not compared; reveal both and use hmac.compare_digest.")

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError("A Secret is neither copied nor pickled; pass the one object on.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse


class Randomness(Protocol):
    """A source of uniform random bytes."""

    def draw(self, count: int) -> bytes: ...


class SystemRandomness:
    """The operating system's generator."""

    def draw(self, count: int) -> bytes:
        return os.urandom(count)


class Stream:
    """A deterministic stream of uniform bytes: all who hold the seed and say the same labels get the same."""

    __slots__ = ("_encryptor",)

    def __init__(self, key: Secret[bytes]) -> None:
        self._encryptor = Cipher(algorithms.AES(key.reveal()), _FROM_ZERO).encryptor()

    def draw(self, count: int) -> bytes:
        return self._encryptor.update(_zeros(count))

    def fill(self, array: npt.NDArray[Any]) -> None:
        """Draw what an array has room for, in its place."""
        self._encryptor.update_into(_zeros(array.nbytes), array.data.cast("B"))

    def __repr__(self) -> str:
        return "Stream(…)"


def _zeros(count: int) -> bytes | memoryview:
    return _ZEROS[:count] if count <= len(_ZEROS) else bytes(count)


def key_stream(key: Secret[bytes], count: int) -> bytes:
    """So many uniform bytes under a key that is used for nothing else, at once: half the time of a `Stream`.

    They are what GCM hides zeros under, AES-256 of the counters from 2 on, without the tag behind them.
    """
    return AESGCM(key.reveal()).encrypt(_NO_NONCE, _zeros(count), None)[:count]


def new_seed(rng: Randomness) -> Secret[bytes]:
    """Draw a seed, of which `derive` makes as many streams as are needed."""
    return Secret(rng.draw(SEED_BYTES))


def derive(seed: Secret[bytes], usage: str, *labels: str | bytes | int) -> Stream:
    """Derive the stream for one usage; different usages or labels give independent streams.

    Labels are length-prefixed and typed, so that no two lists of labels collide.

    >>> seed = Secret(bytes(32))
    >>> derive(seed, "pad", 1).draw(4) == derive(seed, "pad", 1).draw(4)
    True
    >>> derive(seed, "pad", 1).draw(4) == derive(seed, "pad", 2).draw(4)
    False
    """
    return Stream(Secret(HKDF(SHA256(), 32, salt=None, info=_info(usage, labels)).derive(seed.reveal())))


def expand(seed: Secret[bytes], usage: str, *labels: str | bytes | int) -> Secret[bytes]:
    """Derive a seed from a seed, at the price of one HMAC; for another usage or other labels an independent one.

    This is HKDF-Expand without the extraction before it, which a seed that is uniform already does not need: one block
    of HMAC-SHA256, a pseudorandom function, under it. A seed is used with this or with `derive`, never with both.
    """
    return Secret(hmac.digest(seed.reveal(), _info(usage, labels) + b"\x01", "sha256"))


def expand_each(
    seeds: Iterable[Secret[bytes]], usage: str, common: tuple[str | bytes | int, ...], own: Iterable[str | bytes | int]
) -> Iterator[Secret[bytes]]:
    """`expand(seed, usage, *common, label)` for each seed and its own label; what is common is put together once."""
    start = _info(usage, common)
    for seed, label in zip(seeds, own, strict=False):
        yield Secret(hmac.digest(seed.reveal(), start + _labelled(label) + b"\x01", "sha256"))


def expand_all(seed: Secret[bytes], usage: str, labels: Iterable[str | bytes | int]) -> Iterator[Secret[bytes]]:
    """`expand(seed, usage, label)` for each label; what HMAC makes of the seed and the usage is worked out once."""
    started = hmac.new(seed.reveal(), _info(usage, ()), "sha256")
    for label in labels:
        one = started.copy()
        one.update(_labelled(label) + b"\x01")
        yield Secret(one.digest())


def _info(usage: str, labels: tuple[str | bytes | int, ...]) -> bytes:
    return b"fheval/1" + b"".join([_labelled(label) for label in (usage, *labels)])


def _labelled(label: str | bytes | int) -> bytes:
    if isinstance(label, str):
        kind, raw = b"s", label.encode()
    elif isinstance(label, bytes):
        kind, raw = b"b", label
    else:
        kind, raw = b"i", label.to_bytes(16, "big", signed=True)
    return kind + len(raw).to_bytes(4, "big") + raw


def integer_below(rng: Randomness, bound: int) -> int:
    """Draw an integer uniformly from [0, bound), exactly, by rejection."""
    if bound < 1:
        raise ValueError("The bound must be at least 1.")
    bits = (bound - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        value = int.from_bytes(rng.draw(size), "little") & ((1 << bits) - 1)
        if value < bound:
            return value


def integer_between(rng: Randomness, low: int, high: int) -> int:
    """Draw an integer uniformly from [low, high], exactly."""
    return low + integer_below(rng, high - low + 1)


def residues(rng: Randomness, modulus: int, count: int) -> npt.NDArray[np.uint64]:
    """Draw `count` elements of Z/modulus, each exactly uniform, by vectorised rejection (modulus below 2^63)."""
    if not 1 <= modulus < 1 << 63:
        raise ValueError("The modulus must be at least 1 and below 2^63.")
    mask = np.uint64((1 << (modulus - 1).bit_length()) - 1)
    parts: list[npt.NDArray[np.uint64]] = []
    missing = count
    while missing:
        # Draw in blocks of what is missing: fewer than one in two are rejected, so a few rounds do.
        drawn = np.frombuffer(rng.draw(8 * missing), dtype="<u8") & mask
        kept = drawn[drawn < np.uint64(modulus)]
        parts.append(kept)
        missing -= len(kept)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


def nonzero_residue(rng: Randomness, modulus: int) -> int:
    """Draw a unit of the prime field F_modulus, exactly uniformly."""
    return integer_between(rng, 1, modulus - 1)


def ternary(rng: Randomness, count: int) -> npt.NDArray[np.int8]:
    """Draw `count` numbers from −1, 0 and 1, each exactly as likely as the others: bytes modulo 3, all but the last."""
    parts: list[npt.NDArray[np.uint8]] = []
    missing = count
    while missing:
        drawn = np.frombuffer(rng.draw(missing), dtype=np.uint8)
        parts.append(drawn[drawn != 255])
        missing -= len(parts[-1])
    numbers: npt.NDArray[np.int8] = _RESIDUES_OF_THREE[np.concatenate([*parts, np.zeros(0, dtype=np.uint8)])]
    return numbers


_RESIDUES_OF_THREE = (np.arange(255) % 3 - 1).astype(np.int8)


def centred_binomial(rng: Randomness, count: int) -> npt.NDArray[np.int8]:
    """Draw `count` times the difference of two numbers of ones among 24 fair bits: a deviation of √12 ≈ 3.46."""
    drawn = np.frombuffer(rng.draw(6 * count), dtype="<u2").reshape(3, count)
    numbers: npt.NDArray[np.int8] = np.add.reduce(np.take(_differences(), drawn), axis=0, dtype=np.int8)
    return numbers


@lru_cache(maxsize=1)
def _differences() -> npt.NDArray[np.int8]:
    """For every 16 bits the ones of the lower half less those of the upper one."""
    ones = np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1).sum(axis=1).astype(np.int8)
    differences: npt.NDArray[np.int8] = (ones[np.newaxis, :] - ones[:, np.newaxis]).reshape(-1)
    return differences


def symmetric_floats(rng: Randomness, bound: float, count: int) -> npt.NDArray[np.float64]:
    """Draw `count` numbers uniformly from [-bound, bound), on a grid of 2^-52 of the bound."""
    drawn = np.frombuffer(rng.draw(8 * count), dtype="<u8") >> np.uint64(11)
    return (drawn.astype(np.float64) * 2.0**-52 - 1.0) * bound


def log_uniform_float(rng: Randomness, low_exponent: int, high_exponent: int) -> float:
    """Draw from [2^low, 2^high) with density proportional to 1/x.

    The exponent is uniform, and the mantissa a log-uniform integer of 53 bits.
    """
    exponent = integer_between(rng, low_exponent, high_exponent - 1)
    return float(np.ldexp(log_uniform_integer(rng, 1 << 52, 1), exponent - 52))


def log_uniform_integer(rng: Randomness, low: int, spare_bits: int) -> int:
    """Draw an integer with density proportional to 1/x from [low, low·2^spare_bits), exactly.

    The octave is uniform; an integer of it is kept with probability start/integer, decided in integers. Every integer
    can come out: a coarser grid, such as multiples of a power of two, would tell a multiple of the result from others.
    """
    if low < 1:
        raise ValueError("The lower end must be at least 1.")
    start = low << integer_below(rng, spare_bits)
    while True:
        value = start + integer_below(rng, start)
        if integer_below(rng, value) < start:
            return value


def permutation(rng: Randomness, count: int) -> npt.NDArray[np.intp]:
    """Draw a uniform permutation of range(count): sort random 64-bit keys, and draw again if two are equal."""
    while True:
        keys = np.frombuffer(rng.draw(8 * count), dtype="<u8")
        order = np.argsort(keys)
        if not np.any(keys[order][1:] == keys[order][:-1]):
            return order


def bits(rng: Randomness, count: int) -> npt.NDArray[np.bool_]:
    """Draw `count` fair bits."""
    drawn = np.frombuffer(rng.draw((count + 7) // 8), dtype=np.uint8)
    return np.unpackbits(drawn, count=count).astype(np.bool_)


class SealBroken(Exception):  # noqa: N818 (the seal, not this program, is broken)
    """The box was altered, or sealed under another secret or for another purpose."""


def seal(
    secret: Secret[bytes], usage: str, *labels: str | bytes | int, plain: bytes, rng: Randomness, room: int = 0
) -> bytes:
    """Close a box, filled up to `room` bytes; content that is longer than a given room is refused.

    >>> box = seal(Secret(bytes(32)), "example", 1, plain=b"hello", rng=SystemRandomness(), room=100)
    >>> len(box), unseal(Secret(bytes(32)), "example", 1, box=box)
    (132, b'hello')
    """
    if room and len(plain) > room:
        raise CapacityError(f"{len(plain)} bytes do not fit a box of {room}. Ask for less in one round.")
    filled = len(plain).to_bytes(_SEAL_LENGTH_BYTES, "big") + plain.ljust(room, b"\0")
    nonce = rng.draw(_SEAL_NONCE_BYTES)
    return nonce + _cipher(secret, usage, labels).encrypt(nonce, filled, None)


def unseal(secret: Secret[bytes], usage: str, *labels: str | bytes | int, box: bytes) -> bytes:
    """Open a box, or raise `SealBroken`."""
    nonce, sealed = bytes(box[:_SEAL_NONCE_BYTES]), bytes(box[_SEAL_NONCE_BYTES:])
    try:
        filled = _cipher(secret, usage, labels).decrypt(nonce, sealed, None)
    except (InvalidTag, ValueError):
        raise SealBroken from None
    length = int.from_bytes(filled[:_SEAL_LENGTH_BYTES], "big")
    return filled[_SEAL_LENGTH_BYTES : _SEAL_LENGTH_BYTES + length]


def _cipher(secret: Secret[bytes], usage: str, labels: tuple[str | bytes | int, ...]) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(secret, usage, *labels).draw(32))
