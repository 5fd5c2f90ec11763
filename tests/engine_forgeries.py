"""Feed one engine with bytes of an adversary who can compute checksums; run in a process of its own.

Prints one line of JSON: for each forgery what became of it, "refused" or "read", or the name of an exception that
should not have come through. A crash shows as the exit status of the process.
"""

from __future__ import annotations

import faulthandler
import json
import re
import resource
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from engine_roles import Roles, bfv_product, engine_named
from fheval.engines import Evaluator, container
from fheval.engines.parameters import CKKS_PAPER, Parameters, bfv_linear, plain_moduli
from fheval.errors import EngineError
from fheval.secrets import SEED_BYTES, Secret

# A length field that was forged must run into this, and not into the memory of the machine.
MEMORY_LIMIT = 8 << 30

Forgery = tuple[str, bytes]

SETS = {
    "ckks": CKKS_PAPER.with_slot_sums(4),
    "bfv": bfv_product(plain_moduli(1)[0]),
    "linear": bfv_linear(plain_moduli(1)[0]),
}


def generic(payload: bytes, count: int) -> Iterator[Forgery]:
    """Flips, overwritten words, cuts and insertions, most of them near the start, where structure is."""
    draw = np.random.default_rng(3)
    for index in range(count):
        reach = min(len(payload), 2000 if index % 3 else len(payload))
        place = int(draw.integers(0, max(reach, 1)))
        forged = bytearray(payload)
        if index % 5 == 0:
            forged[place : place + 8] = b"\xff" * 8
        elif index % 5 == 1:
            forged[place : place + 8] = draw.bytes(8)
        elif index % 5 == 2:
            del forged[place:]
        elif index % 5 == 3:
            forged[place:place] = draw.bytes(8)
        elif forged:
            forged[place] ^= 1 << int(draw.integers(0, 8))
        yield f"generic {index} at {place}", bytes(forged)
    yield "nothing", b""
    yield "zeros", bytes(len(payload))
    yield "ones", b"\xff" * len(payload)
    yield "twice", payload * 2


class SealForger:
    """Writes ciphertexts in SEAL's format, not compressed, with any field of the head replaced."""

    def __init__(self, roles: Roles) -> None:
        honest = roles.loaded(np.ones(1, dtype=np.uint64))
        self._version = roles.payload(container.CIPHERTEXT, roles.evaluator.dump(honest))[3:5]
        self._words = 2 * roles.parameters.ring * honest.limbs
        self._lower: list[int] = roles.evaluator.drop_level(honest).handle.parms_id()
        self._ntt = int(roles.parameters.scheme == "ckks")
        self._fields: dict[str, Any] = {
            "parms": honest.handle.parms_id(),
            "ntt": self._ntt,
            "size": 2,
            "ring": roles.parameters.ring,
            "primes": honest.limbs,
            "scale": 2.0**roles.parameters.scale_bits,
            "correction": 1,
            "words": self._words,
            "residue": 12345,
        }

    def written(self, **changes: Any) -> bytes:
        told = {**self._fields, **changes}
        numbers = struct.pack("<QQQdQ", *(told[name] for name in ("size", "ring", "primes", "scale", "correction")))
        residues = np.full(self._words, told["residue"], dtype=np.uint64).tobytes()
        vector = self._sealed(struct.pack("<Q", told["words"]) + residues)
        return self._sealed(struct.pack("<4QB", *told["parms"], told["ntt"]) + numbers + vector)

    def _sealed(self, body: bytes) -> bytes:
        return struct.pack("<HB", 0xA15E, 16) + self._version + struct.pack("<BHQ", 0, 0, 16 + len(body)) + body

    def forgeries(self) -> Iterator[Forgery]:
        """Each field of the head set to what an honest sender would never say."""
        yield "honest", self.written()
        yield "other form", self.written(ntt=1 - self._ntt)
        yield "lower level", self.written(parms=self._lower)
        yield "unknown level", self.written(parms=[1, 2, 3, 4])
        yield "residue", self.written(residue=2**63)
        wrong: dict[str, Sequence[float]] = {
            "scale": (0.0, -1.0, float("nan"), float("inf"), 2.0**200, 2.0**10, 5e-324),
            "size": (0, 1, 3, 16, 2**32, 2**63),
            "ring": (0, 1024, 2**40),
            "primes": (0, 1, 5, 2**60),
            "words": (0, 1, 2**40, 2**64 - 1),
            "correction": (0, 2),
        }
        for name, values in wrong.items():
            for value in values:
                yield f"{name} {value}", self.written(**{name: value})


def bare_forgeries(payload: bytes) -> Iterator[Forgery]:
    """Residues and other words at the edges of what is possible, for formats without structure."""
    words = len(payload) // 8
    for word in (1, 2**36 - 1, 2**43, 2**60 - 1, 2**60, 2**63):
        yield f"all {word}", np.full(words, word, dtype=np.uint64).tobytes()
    yield from wrong_lengths(payload)


def seeded_forgeries(payload: bytes, roles: Roles) -> Iterator[Forgery]:
    """The same where residues are packed behind a seed; those of one row after the other are impossible."""
    honest = [np.ones(roles.parameters.ring, dtype=np.uint64)] * len(roles.primes)
    for row, prime in enumerate(roles.primes):
        for name, word in (("residue of its prime", prime), ("residue of ones", (1 << container._width(prime)) - 1)):
            rows = [*honest]
            rows[row] = np.full(roles.parameters.ring, word, dtype=np.uint64)
            packed = [container._packed(each, of) for each, of in zip(rows, roles.primes, strict=True)]
            yield f"row {row}, {name}", payload[:SEED_BYTES] + b"".join(packed)
    yield from wrong_lengths(payload)


def wrong_lengths(payload: bytes) -> Iterator[Forgery]:
    yield "one word short", payload[:-8]
    yield "one byte short", payload[:-1]
    yield "one word long", payload + bytes(8)


def ciphertext_forgeries(roles: Roles) -> Iterator[Forgery]:
    payload = roles.payload(container.CIPHERTEXT, roles.holder.encrypt(np.ones(5, dtype=np.uint64)))
    yield from generic(payload, 20)
    if roles.engine.name == "seal":
        yield from SealForger(roles).forgeries()
    # What travels is residues, but for SEAL's CKKS, packed and behind a seed in BFV.
    if roles.engine.name != "clear" and roles.parameters.scheme == "bfv":
        yield from seeded_forgeries(payload, roles)
    elif roles.engine.name != "seal":
        yield from bare_forgeries(payload)


def key_forgeries(payload: bytes, ring: int, count: int) -> Iterator[Forgery]:
    """As `generic`, and changes beside the vectors of residues, where what a reader trusts lies."""
    yield from generic(payload, count)
    length = ring.to_bytes(8, "little")
    starts = [found.start() for found in re.finditer(re.escape(length), payload)] if ring else []
    for place in starts[:: max(1, len(starts) // count)][:count]:
        for name, offset in (("before", -1), ("length", 0), ("after", 8 + 8 * ring)):
            forged = bytearray(payload)
            if place + offset < len(payload):
                forged[place + offset] ^= 1
                yield f"{name} vector at {place}", bytes(forged)


def work(evaluator: Evaluator, roles: Roles, data: bytes) -> None:
    """What an aggregator does with a ciphertext."""
    ones = np.ones(3, dtype=np.uint64)
    ciphertext = evaluator.load(data)
    total = evaluator.add(ciphertext, evaluator.encrypt(ones))
    evaluator.accumulate(total, ciphertext)
    if roles.parameters.depth:
        total = evaluator.multiply(total, ciphertext)
    if roles.parameters.rotations:
        total = evaluator.slot_sum(total, 4)
    roles.holder.decrypt(evaluator.dump(total))


def adding(evaluator: Evaluator, roles: Roles, data: bytes, honest: bytes) -> None:
    """What an aggregator does with an upload that it adds to others."""
    total = evaluator.running_sum()
    for each in (honest, data, honest):
        total.add(total.read(each))
    roles.holder.decrypt(evaluator.dump(total.total()))


def outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except EngineError:
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def attacks(roles: Roles) -> Iterator[tuple[str, Callable[[], object]]]:
    honest = roles.holder.encrypt(np.ones(5, dtype=np.uint64))
    for name, payload in ciphertext_forgeries(roles):
        for limbs in (None, 1) if name == "honest" else (None,):
            data = roles.forged(container.CIPHERTEXT, honest, payload, limbs)
            yield f"ciphertext, {name}, {limbs}", partial(work, roles.evaluator, roles, data)
            yield f"decrypt, {name}, {limbs}", partial(roles.holder.decrypt, data)
            yield f"added, {name}, {limbs}", partial(adding, roles.evaluator, roles, data, honest)
    for limbs in (0, 1, roles.loaded(np.ones(1, dtype=np.uint64)).limbs + 1, 255):
        data = roles.forged(container.CIPHERTEXT, honest, roles.payload(container.CIPHERTEXT, honest), limbs)
        yield f"ciphertext of {limbs} primes", partial(work, roles.evaluator, roles, data)
    yield from key_attacks(roles, honest)


def key_attacks(roles: Roles, honest: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    ring = roles.parameters.ring if roles.engine.name == "openfhe" else 0
    secret = roles.keys.secret.reveal()
    for name, payload in key_forgeries(roles.payload(container.SECRET_KEY, secret), ring, 5):
        data = roles.forged(container.SECRET_KEY, secret, payload)
        yield f"secret key, {name}", partial(take_secret, roles, data, honest)
    payload = roles.payload(container.PUBLIC_KEYS, roles.keys.public)
    parts = msgspec.msgpack.decode(payload)
    for index, part in enumerate(parts):
        for name, forged in key_forgeries(part, ring, 3) if isinstance(part, bytes) and part else ():
            inner = msgspec.msgpack.encode([*parts[:index], forged, *parts[index + 1 :]])
            data = roles.forged(container.PUBLIC_KEYS, roles.keys.public, inner)
            yield f"public key {index}, {name}", partial(take_public, roles, data, honest)
    for name, forged in (*generic(payload, 5), ("other structure", msgspec.msgpack.encode({"a": [1, [2]]}))):
        data = roles.forged(container.PUBLIC_KEYS, roles.keys.public, forged)
        yield f"public keys, {name}", partial(take_public, roles, data, honest)


def take_secret(roles: Roles, data: bytes, honest: bytes) -> None:
    holder = roles.engine.key_holder(roles.parameters, Secret(data))
    holder.decrypt(honest)
    holder.encrypt(np.ones(3, dtype=np.uint64))


def take_public(roles: Roles, data: bytes, honest: bytes) -> None:
    work(roles.engine.evaluator(roles.parameters, data), roles, honest)


def main(engine: str, parameters: Parameters) -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    roles = Roles.fresh(engine_named(engine), parameters)
    json.dump({name: outcome(attempt) for name, attempt in attacks(roles)}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], SETS[sys.argv[2]])
