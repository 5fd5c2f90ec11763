"""OpenFHE, the paper's library; the only folder that imports `openfhe`.

Two traits of the library shape it. Its evaluation keys live in maps of the whole process, so they are put there for
the length of one operation and taken out again: roles and rounds in one process never share a key. And its reader
trusts the structure of what it reads, so a ciphertext travels as bare residues, which are checked and set into a frame
that this process has written itself, and a key must have the structure of one made here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openfhe

from fheval.engines import container
from fheval.engines.base import Engine, Evaluator, KeyHolder, RunningSum
from fheval.engines.container import Ciphertext, Factor, Keys, MemoryFile, PublicKeys
from fheval.engines.openfhe.ciphertexts import Frames, ResidueSum
from fheval.engines.openfhe.setting import NAME, KeyKind, empty_key_maps, refusals, setting_of
from fheval.engines.parameters import (
    Parameters,
    Vector,
    require_factor,
    require_room,
    require_rotation,
    require_same_level,
)
from fheval.errors import EngineError
from fheval.secrets import Secret


class _KeyHolder(KeyHolder):
    def __init__(self, parameters: Parameters, key_id: bytes, secret: memoryview) -> None:
        self.parameters = parameters
        self._setting = setting_of(parameters)
        self._setting.check_key("secret", secret)
        memory = MemoryFile()
        self._key, done = openfhe.DeserializePrivateKey(memory.holding(secret), openfhe.BINARY)
        memory.wipe()
        if not done:
            raise EngineError("OpenFHE cannot read this secret key. Set the keys up again.")
        self._frames = Frames(self._setting, key_id, self._key)
        self._written_key = secret

    def encrypt(self, values: Vector) -> bytes:
        """As the base class says; in BFV with a seed for the uniform half, as with SEAL."""
        fresh = Ciphertext(self._setting.fresh(self._key, values), self._setting.limbs)
        if self._setting.ckks:
            return self._frames.write(fresh)
        return self._frames.write_seeded(fresh, self._setting.secret_rows(self._written_key))

    def decrypt(self, data: bytes) -> Vector:
        handle = self._frames.read(data).handle
        with refusals("to decrypt"):
            return self._setting.decode(self._setting.context.Decrypt(self._key, handle))


class _Evaluator(Evaluator):
    def __init__(self, parameters: Parameters, key_id: bytes, keys: PublicKeys, uniform_from: bytes) -> None:
        self.parameters = parameters
        self._setting = setting_of(parameters)
        self._context = self._setting.context
        memory = MemoryFile()
        encryption = self._setting.whole_key(keys.encryption, uniform_from) if uniform_from else keys.encryption
        self._setting.check_key("encryption", encryption)
        self._key, done = openfhe.DeserializePublicKey(memory.holding(encryption), openfhe.BINARY)
        if not done:
            raise EngineError("OpenFHE cannot read the public key. Ask the leader to send it again.")
        self._tag = self._key.GetKeyTag()
        self._relinearisation = self._rotation = None
        with empty_key_maps(), refusals("these keys"):
            if keys.relinearisation:
                self._setting.check_key("relinearisation", keys.relinearisation)
                self._context.DeserializeEvalMultKey(memory.holding(keys.relinearisation), openfhe.BINARY)
                self._relinearisation = self._context.GetEvalMultKeyVector(self._tag)
            if keys.rotation and parameters.rotations:
                self._setting.check_key("rotation", keys.rotation)
                self._context.DeserializeEvalAutomorphismKey(memory.holding(keys.rotation), openfhe.BINARY)
                self._rotation = self._context.GetEvalAutomorphismKeyMap(self._tag)
        self._frames = Frames(self._setting, key_id, self._key)
        # What reads a fresh ciphertext is made with the keys, and not when the first one is waiting.
        self._frames.frame(self._setting.limbs)

    def load(self, data: bytes) -> Ciphertext:
        return self._frames.read(data)

    def running_sum(self) -> RunningSum:
        return ResidueSum(self._frames, self._setting.limbs)

    def dump(self, ciphertext: Ciphertext) -> bytes:
        return self._frames.write(ciphertext)

    def encrypt(self, values: Vector, like: Ciphertext | None = None, *, dropped: int = 0) -> Ciphertext:
        level = self._level(like) if like else dropped
        return Ciphertext(self._setting.fresh(self._key, values, level), self._setting.limbs - level)

    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        require_same_level(left.limbs, right.limbs)
        return Ciphertext(self._context.EvalAdd(left.handle, right.handle), left.limbs)

    def accumulate(self, total: Ciphertext, term: Ciphertext) -> None:
        require_same_level(total.limbs, term.limbs)
        self._context.EvalAddInPlace(total.handle, term.handle)

    def add_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        level = self._level(ciphertext)
        if level and not self._setting.ckks:
            # OpenFHE scales a plaintext for the full modulus whatever is left of it, and gives a wrong sum.
            return self.add(ciphertext, self.encrypt(values, ciphertext))
        plain = self._setting.encode(values, level)
        return Ciphertext(self._context.EvalAdd(ciphertext.handle, plain), ciphertext.limbs)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        if self._relinearisation is None:
            raise EngineError(f"Parameter set {self.parameters.name} has no ciphertext product. Choose another set.")
        require_same_level(left.limbs, right.limbs)
        require_room(left.limbs, self.parameters, self._setting.limbs)
        with self._keys_in_place(), refusals("a product"):
            return self._rescaled(self._context.EvalMult(left.handle, right.handle), left.limbs)

    def multiply_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        require_factor(values)
        return self._product(ciphertext, self._setting.encode(values, self._level(ciphertext)))

    def factor(self, values: Vector) -> Factor:
        if self._setting.ckks:
            return super().factor(values)
        require_factor(values)
        return Factor(self._setting.encode(values))

    def _times(self, ciphertext: Ciphertext, factor: Factor) -> Ciphertext:
        return super()._times(ciphertext, factor) if self._setting.ckks else self._product(ciphertext, factor.handle)

    def _product(self, ciphertext: Ciphertext, plain: Any) -> Ciphertext:
        require_room(ciphertext.limbs, self.parameters, self._setting.limbs)
        return self._rescaled(self._context.EvalMult(ciphertext.handle, plain), ciphertext.limbs)

    def rotate(self, ciphertext: Ciphertext, steps: int) -> Ciphertext:
        require_rotation(self.parameters, steps)
        with self._keys_in_place(), refusals("a rotation"):
            return Ciphertext(self._context.EvalRotate(ciphertext.handle, steps), ciphertext.limbs)

    def drop_level(self, ciphertext: Ciphertext) -> Ciphertext:
        if ciphertext.limbs == 1:
            raise EngineError("The ciphertext is at its lowest level already.")
        if self._setting.ckks:
            handle = self._context.LevelReduce(ciphertext.handle, None, 1)
        else:
            handle = self._context.Compress(ciphertext.handle, ciphertext.limbs - 1)
        return Ciphertext(handle, ciphertext.limbs - 1)

    def _level(self, ciphertext: Ciphertext) -> int:
        return self._setting.limbs - ciphertext.limbs

    def _rescaled(self, handle: Any, limbs: int) -> Ciphertext:
        if self._setting.ckks:
            return Ciphertext(self._context.Rescale(handle), limbs - 1)
        return Ciphertext(handle, limbs)

    @contextmanager
    def _keys_in_place(self) -> Iterator[None]:
        with empty_key_maps():
            if self._relinearisation is not None:
                openfhe.CryptoContext.InsertEvalMultKey(self._relinearisation, self._tag)
            if self._rotation is not None:
                openfhe.CryptoContext.InsertEvalAutomorphismKey(self._rotation, self._tag)
            yield


class OpenFheEngine(Engine):
    """OpenFHE, whose keys must have the structure of keys made in this process."""

    name = NAME

    def generate_keys(self, parameters: Parameters, uniform_from: bytes = b"") -> Keys:
        kinds: list[KeyKind] = ["secret", "encryption"]
        if parameters.depth:
            kinds.append("relinearisation")
        if parameters.rotations:
            kinds.append("rotation")
        setting = setting_of(parameters)
        keys = setting.new_keys(kinds)
        encryption = setting.key_body(keys, uniform_from) if uniform_from else keys["encryption"]
        public = PublicKeys(encryption, keys.get("relinearisation", b""), keys.get("rotation", b""))
        return container.pack_keys(self.name, parameters, keys["secret"], public)

    def key_holder(self, parameters: Parameters, secret: Secret[bytes]) -> KeyHolder:
        return _KeyHolder(parameters, *container.unpack_secret(self.name, parameters, secret))

    def evaluator(self, parameters: Parameters, public: bytes, uniform_from: bytes = b"") -> Evaluator:
        key_id, keys = container.unpack_public(self.name, parameters, public, PublicKeys)
        return _Evaluator(parameters, key_id, keys, uniform_from)
