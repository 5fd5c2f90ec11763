"""A plaintext twin of the engines, for tests of protocol logic in milliseconds. It hides nothing.

It keeps the rules that the real ones have (keys must match, levels run out, slots are limited, bytes are checked),
so that a protocol which breaks one fails here too. Nothing that a user runs takes it by default.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from fheval import field
from fheval.engines import container
from fheval.engines.base import Engine, Evaluator, KeyHolder
from fheval.engines.container import Ciphertext, Keys
from fheval.engines.parameters import (
    Parameters,
    Vector,
    checked_vector,
    require_factor,
    require_room,
    require_rotation,
    require_same_level,
)
from fheval.errors import EngineError
from fheval.secrets import Secret


class _Codec:
    """What both roles share: full-length vectors in and out of bytes."""

    def __init__(self, parameters: Parameters, key_id: bytes) -> None:
        self.parameters = parameters
        self._envelope = container.CIPHERTEXT, ClearEngine.name, parameters, key_id
        self._type: Any = np.dtype("<c16" if parameters.scheme == "ckks" else "<u8")

    def full(self, values: Vector, limbs: int | None = None) -> Vector:
        vector = checked_vector(values, self.parameters, limbs)
        out = np.zeros(self.parameters.slots, dtype=self._type)
        out[: len(vector)] = vector
        return out

    def dump(self, ciphertext: Ciphertext) -> bytes:
        payload = ciphertext.handle.astype(self._type).tobytes()
        return container.pack(*self._envelope, ciphertext.limbs, payload)

    def load(self, data: bytes) -> Ciphertext:
        _, limbs, payload = container.unpack(*self._envelope, data)
        if len(payload) != self.parameters.slots * self._type.itemsize or not 1 <= limbs <= self.parameters.limbs:
            raise EngineError("A ciphertext has the wrong size. Ask the sender to send it again.")
        values = np.frombuffer(payload, dtype=self._type)
        bound = self.parameters.plain_modulus or 2.0 ** sum(self.parameters.modulus_bits)
        if not np.all(np.abs(values) < bound):
            raise EngineError("A ciphertext holds impossible values. Ask the sender to send it again.")
        return Ciphertext(values.copy(), limbs)


class _KeyHolder(_Codec, KeyHolder):
    def encrypt(self, values: Vector) -> bytes:
        return self.dump(Ciphertext(self.full(values), self.parameters.limbs))

    def decrypt(self, data: bytes) -> Vector:
        vector: Vector = self.load(data).handle
        return vector


class _PublicKeys(msgspec.Struct, frozen=True, array_like=True):
    """Which evaluation keys there would be."""

    product: bool
    rotations: tuple[int, ...]
    uniform_from: bytes = b""


class _Evaluator(_Codec, Evaluator):
    def __init__(self, parameters: Parameters, key_id: bytes, keys: _PublicKeys) -> None:
        super().__init__(parameters, key_id)
        self._keys = keys

    def encrypt(self, values: Vector, like: Ciphertext | None = None, *, dropped: int = 0) -> Ciphertext:
        limbs = like.limbs if like else self.parameters.limbs - dropped
        return Ciphertext(self.full(values, limbs), limbs)

    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        require_same_level(left.limbs, right.limbs)
        return Ciphertext(self._sum(left.handle, right.handle), left.limbs)

    def accumulate(self, total: Ciphertext, term: Ciphertext) -> None:
        total.handle = self.add(total, term).handle

    def add_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        return Ciphertext(self._sum(ciphertext.handle, self.full(values, ciphertext.limbs)), ciphertext.limbs)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        if not self._keys.product:
            raise EngineError(f"Parameter set {self.parameters.name} has no ciphertext product. Choose another set.")
        require_same_level(left.limbs, right.limbs)
        return self._product(left, right.handle)

    def multiply_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        require_factor(values)
        return self._product(ciphertext, self.full(values, ciphertext.limbs))

    def rotate(self, ciphertext: Ciphertext, steps: int) -> Ciphertext:
        require_rotation(self.parameters, steps)
        if steps not in self._keys.rotations:
            raise EngineError("These public keys hold no such rotation key. Ask the leader for keys of this round.")
        return Ciphertext(np.roll(ciphertext.handle, -steps), ciphertext.limbs)

    def drop_level(self, ciphertext: Ciphertext) -> Ciphertext:
        left = sum(self.parameters.modulus_bits[: ciphertext.limbs - 1])
        if left <= self.parameters.plain_modulus.bit_length():
            raise EngineError("The ciphertext is at its lowest level already.")
        return Ciphertext(ciphertext.handle, ciphertext.limbs - 1)

    def _sum(self, left: Vector, right: Vector) -> Vector:
        if self.parameters.scheme == "ckks":
            return left + right
        return field.add(left, right, self.parameters.plain_modulus)

    def _product(self, left: Ciphertext, right: Vector) -> Ciphertext:
        require_room(left.limbs, self.parameters, self.parameters.limbs)
        if self.parameters.scheme == "bfv":
            return Ciphertext(field.multiply(left.handle, right, self.parameters.plain_modulus), left.limbs)
        return Ciphertext(left.handle * right, left.limbs - 1)


class ClearEngine(Engine):
    """Encrypts nothing, and refuses what a real engine would."""

    name = "clear"

    def generate_keys(self, parameters: Parameters, uniform_from: bytes = b"") -> Keys:
        """A key id, and a note of the evaluation keys; there is no key."""
        public = _PublicKeys(parameters.depth > 0, parameters.rotations, uniform_from)
        return container.pack_keys(self.name, parameters, b"", public)

    def key_holder(self, parameters: Parameters, secret: Secret[bytes]) -> KeyHolder:
        key_id, _ = container.unpack_secret(self.name, parameters, secret)
        return _KeyHolder(parameters, key_id)

    def evaluator(self, parameters: Parameters, public: bytes, uniform_from: bytes = b"") -> Evaluator:
        key_id, keys = container.unpack_public(self.name, parameters, public, _PublicKeys)
        if keys.uniform_from != uniform_from:
            raise EngineError("The uniform part of these public keys is another one. Ask for new keys.")
        return _Evaluator(parameters, key_id, keys)
