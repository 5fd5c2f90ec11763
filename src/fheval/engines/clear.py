"""A plaintext twin of the engines, for tests of protocol logic in milliseconds. It hides nothing.

It keeps the rules that the real ones have (keys must match, levels run out, slots are limited, bytes are checked),
so that a protocol which breaks one fails here too. Nothing that a user runs takes it by default.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from fheval import field
from fheval.engines import container
from fheval.engines.base import Ciphertext, Engine, Evaluator, KeyHolder, Keys, Vector, checked_vector
from fheval.engines.parameters import Parameters
from fheval.errors import EngineError
from fheval.secrets import Secret


class _Codec:
    """What both roles share: full-length vectors in and out of bytes."""

    def __init__(self, parameters: Parameters, key_id: bytes) -> None:
        self.parameters = parameters
        self._key_id = key_id
        self._type: Any = np.dtype("<c16" if parameters.scheme == "ckks" else "<u8")

    def full(self, values: Vector) -> Vector:
        vector = checked_vector(values, self.parameters)
        out = np.zeros(self.parameters.slots, dtype=self._type)
        out[: len(vector)] = vector
        return out

    def pack(self, ciphertext: Ciphertext) -> bytes:
        payload = ciphertext.handle.astype(self._type).tobytes()
        return container.pack(
            container.CIPHERTEXT, ClearEngine.name, self.parameters, self._key_id, ciphertext.limbs, payload
        )

    def unpack(self, data: bytes) -> Ciphertext:
        _, limbs, payload = container.unpack(
            container.CIPHERTEXT, ClearEngine.name, self.parameters, self._key_id, data
        )
        values = np.frombuffer(payload, dtype=self._type)
        if len(values) != self.parameters.slots or not 1 <= limbs <= self.parameters.limbs:
            raise EngineError("A ciphertext has the wrong size. Ask the sender to send it again.")
        return Ciphertext(values.copy(), limbs)


class _KeyHolder(_Codec, KeyHolder):
    def encrypt(self, values: Vector) -> bytes:
        return self.pack(Ciphertext(self.full(values), self.parameters.limbs))

    def decrypt(self, data: bytes) -> Vector:
        vector: Vector = self.unpack(data).handle
        return vector


class _Evaluator(_Codec, Evaluator):
    def load(self, data: bytes) -> Ciphertext:
        return self.unpack(data)

    def dump(self, ciphertext: Ciphertext) -> bytes:
        return self.pack(ciphertext)

    def encrypt(self, values: Vector, like: Ciphertext | None = None) -> Ciphertext:
        return Ciphertext(self.full(values), like.limbs if like else self.parameters.limbs)

    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        if left.limbs != right.limbs:
            raise EngineError("Ciphertexts of different levels cannot be added. Drop levels first.")
        return Ciphertext(self._sum(left.handle, right.handle), left.limbs)

    def accumulate(self, total: Ciphertext, term: Ciphertext) -> None:
        total.handle = self.add(total, term).handle

    def add_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        return Ciphertext(self._sum(ciphertext.handle, self.full(values)), ciphertext.limbs)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        if left.limbs != right.limbs:
            raise EngineError("Ciphertexts of different levels cannot be multiplied. Drop levels first.")
        return self._product(left, right.handle)

    def multiply_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        return self._product(ciphertext, self.full(values))

    def rotate(self, ciphertext: Ciphertext, steps: int) -> Ciphertext:
        if steps not in self.parameters.rotations:
            raise EngineError(f"There is no rotation key for {steps} steps. Ask for it when the keys are made.")
        return Ciphertext(np.roll(ciphertext.handle, -steps), ciphertext.limbs)

    def drop_level(self, ciphertext: Ciphertext) -> Ciphertext:
        if ciphertext.limbs == 1:
            raise EngineError("The ciphertext is at its lowest level already.")
        return Ciphertext(ciphertext.handle, ciphertext.limbs - 1)

    def _sum(self, left: Vector, right: Vector) -> Vector:
        if self.parameters.scheme == "ckks":
            return left + right
        return field.add(left, right, self.parameters.plain_modulus)

    def _product(self, left: Ciphertext, right: Vector) -> Ciphertext:
        if self.parameters.scheme == "bfv":
            return Ciphertext(field.multiply(left.handle, right, self.parameters.plain_modulus), left.limbs)
        if left.limbs == 1:
            raise EngineError("There is no level left for another product.")
        return Ciphertext(left.handle * right, left.limbs - 1)


class ClearEngine(Engine):
    """The plaintext twin."""

    name = "clear"

    def generate_keys(self, parameters: Parameters) -> Keys:
        """Make a key id; there is no key."""
        key_id = os.urandom(container.KEY_ID_BYTES)
        secret = container.pack(container.SECRET_KEY, self.name, parameters, key_id, 0, b"")
        public = container.pack(container.PUBLIC_KEYS, self.name, parameters, key_id, 0, b"")
        return Keys(parameters=parameters, secret=Secret(secret), public=public)

    def key_holder(self, parameters: Parameters, secret: Secret[bytes]) -> KeyHolder:
        """Take the role of a key holder."""
        key_id, _, _ = container.unpack(container.SECRET_KEY, self.name, parameters, None, secret.reveal())
        return _KeyHolder(parameters, key_id)

    def evaluator(self, parameters: Parameters, public: bytes) -> Evaluator:
        """Take the role of an evaluator."""
        key_id, _, _ = container.unpack(container.PUBLIC_KEYS, self.name, parameters, None, public)
        return _Evaluator(parameters, key_id)
