"""OpenFHE, the paper's library; the only module that imports `openfhe`.

Two traits of the library shape this module. Its evaluation keys live in maps of the whole process, so they are put
there for the length of one operation and taken out again: roles and rounds in one process never share a key. And its
reader trusts the structure of what it reads, so a ciphertext travels as bare residues, which are checked and set
into a frame that this process has written itself, and a key must have the structure of one made here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from math import log2
from typing import Any, Literal

import msgspec
import numpy as np
import openfhe

from fheval.engines import base, container
from fheval.engines.base import Ciphertext, Engine, Evaluator, KeyHolder, Keys, RunningSum, Vector
from fheval.engines.memory import MemoryFile
from fheval.engines.parameters import Parameters
from fheval.engines.residues import Frame, ResidueTable, Shape, bare, find_spans, repeated_primes
from fheval.errors import EngineError
from fheval.secrets import Secret

# Tables that only speed up polynomials in coefficient form; building them made every load three times slower.
openfhe.DisablePrecomputeCRTTablesAfterDeserializaton()

_KEY_MAPS = threading.RLock()

# The size of all primes that OpenFHE picks for BFV.
_BFV_PRIME_BITS = 60

KeyKind = Literal["secret", "encryption", "relinearisation", "rotation"]


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Turn what OpenFHE throws into an `EngineError`."""
    try:
        yield
    except RuntimeError as error:
        raise EngineError(f"OpenFHE refused {what}. Check that all of it comes from this round.") from error


class _Setting:
    """The context of one parameter set, shared by all roles; it holds no keys."""

    def __init__(self, parameters: Parameters) -> None:
        parameters.require_slot_field()
        self.parameters = parameters
        self._shapes: dict[KeyKind, Shape] = {}
        self._writings: dict[int, tuple[bytes, bytes]] = {}
        self.ckks = parameters.scheme == "ckks"
        chosen = self._ckks(parameters) if self.ckks else self._bfv(parameters)
        chosen.SetRingDim(parameters.ring)
        chosen.SetSecurityLevel(openfhe.HEStd_128_classic)
        try:
            self.context = openfhe.GenCryptoContext(chosen)
        except RuntimeError as error:
            raise EngineError(
                f"OpenFHE refuses parameter set {parameters.name} ({error}). Use one of the named sets."
            ) from error
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE):
            self.context.Enable(feature)
        self.limbs = parameters.limbs if self.ckks else round(log2(self.context.GetModulus()) / _BFV_PRIME_BITS)

    @staticmethod
    def _ckks(parameters: Parameters) -> Any:
        chosen = openfhe.CCParamsCKKSRNS()
        chosen.SetMultiplicativeDepth(parameters.depth)
        chosen.SetScalingModSize(parameters.scale_bits)
        chosen.SetFirstModSize(parameters.modulus_bits[0])
        chosen.SetBatchSize(parameters.slots)
        # Rescaling is ours to place, as in SEAL: both engines then walk the same levels.
        chosen.SetScalingTechnique(openfhe.FIXEDMANUAL)
        # Complex slots let an evaluator hide the imaginary parts of a result too.
        chosen.SetCKKSDataType(openfhe.COMPLEX)
        return chosen

    @staticmethod
    def _bfv(parameters: Parameters) -> Any:
        chosen = openfhe.CCParamsBFVRNS()
        # OpenFHE picks its primes by depth; one product gives 3 × 60 bits, which carries both BFV sets.
        chosen.SetMultiplicativeDepth(1)
        chosen.SetPlaintextModulus(parameters.plain_modulus)
        return chosen

    def encode(self, values: Vector, level: int = 0) -> Any:
        vector = base.checked_vector(values, self.parameters, self.limbs - level)
        if self.ckks:
            return self.context.MakeCKKSPackedPlaintext(vector if len(vector) else np.zeros(1), 1, level)
        modulus = self.parameters.plain_modulus
        centred = vector.astype(np.int64)
        centred[centred > modulus // 2] -= modulus
        return self.context.MakePackedPlaintext(centred if len(centred) else np.zeros(1, dtype=np.int64))

    def decode(self, plain: Any) -> Vector:
        if self.ckks:
            return np.asarray(plain.GetCKKSPackedValueArray(), dtype=np.complex128)
        plain.SetLength(self.parameters.slots)
        centred: Vector = plain.GetPackedValueArray()
        return np.mod(centred, self.parameters.plain_modulus).astype(np.uint64)

    def fresh(self, key: Any, values: Vector, level: int = 0) -> Any:
        """Encrypt under a public or secret key; BFV is dropped to the level afterwards, CKKS encoded at it."""
        plain = self.encode(values, level if self.ckks else 0)
        with _refusals("to encrypt"):
            handle = self.context.Encrypt(key, plain)
        if level and not self.ckks:
            handle = self.context.Compress(handle, self.limbs - level)
        return handle

    def frame(self, key: Any, limbs: int) -> Frame:
        """An empty ciphertext as the library writes it, under a key's tag.

        One is encrypted for each number of primes and kept: under another key only the tag is another.
        """
        tag = key.GetKeyTag().encode()
        if limbs not in self._writings:
            empty = self.fresh(key, np.zeros(1, dtype=np.uint64), self.limbs - limbs)
            self._writings[limbs] = (
                tag,
                MemoryFile().written_by(lambda path: openfhe.SerializeToFile(path, empty, openfhe.BINARY)),
            )
        written_under, data = self._writings[limbs]
        data = data.replace(written_under, tag)
        return Frame(data, find_spans(data, self.parameters.ring, self.primes), self.parameters.ring)

    def new_keys(self, kinds: Sequence[KeyKind]) -> dict[KeyKind, bytes]:
        """Make a key pair and write the keys that are asked for, remembering what such keys look like."""
        with _empty_key_maps():
            pair = self.context.KeyGen()
            written = {kind: MemoryFile().written_by(self._writer(kind, pair)) for kind in kinds}
        for kind, data in written.items():
            if kind not in self._shapes:
                primes = self.primes if kind == "secret" else repeated_primes(data, self.parameters.ring)
                self._shapes[kind] = Shape.of(data, self.parameters.ring, primes, pair.publicKey.GetKeyTag())
        return written

    def _writer(self, kind: KeyKind, pair: Any) -> Callable[[str], object]:
        tag = pair.publicKey.GetKeyTag()
        if kind == "relinearisation":
            self.context.EvalMultKeyGen(pair.secretKey)
            return lambda path: self.context.SerializeEvalMultKey(path, openfhe.BINARY, tag)
        if kind == "rotation":
            self.context.EvalRotateKeyGen(pair.secretKey, list(self.parameters.rotations))
            return lambda path: self.context.SerializeEvalAutomorphismKey(path, openfhe.BINARY, tag)
        key = pair.secretKey if kind == "secret" else pair.publicKey
        return lambda path: openfhe.SerializeToFile(path, key, openfhe.BINARY)

    def check_key(self, kind: KeyKind, data: bytes | memoryview) -> None:
        """Refuse a key that OpenFHE's reader could not be trusted with."""
        if kind not in self._shapes:
            self.new_keys([kind])
        self._shapes[kind].check(data)

    @cached_property
    def primes(self) -> frozenset[int]:
        """The primes of a fresh ciphertext, which are those of the encryption key."""
        return repeated_primes(self.new_keys(["encryption"])["encryption"], self.parameters.ring)


@lru_cache(maxsize=64)
def _setting(parameters: Parameters) -> _Setting:
    return _Setting(parameters)


class _Frames:
    """Reads and writes ciphertexts as bare residues, in frames that this process has written itself."""

    def __init__(self, setting: _Setting, key_id: bytes, key: Any) -> None:
        self._setting = setting
        self._parameters = setting.parameters
        self._key_id = key_id
        self._key = key
        self._memory = MemoryFile()
        self._by_limbs: dict[int, Frame] = {}

    def write(self, ciphertext: Ciphertext) -> bytes:
        data = self._saved(ciphertext.handle)
        payload = bare(data, find_spans(data, self._parameters.ring, self._setting.primes), self._parameters.ring)
        return container.pack(
            container.CIPHERTEXT, OpenFheEngine.name, self._parameters, self._key_id, ciphertext.limbs, payload
        )

    def unpack(self, data: bytes) -> tuple[int, memoryview]:
        _, limbs, payload = container.unpack(
            container.CIPHERTEXT, OpenFheEngine.name, self._parameters, self._key_id, data
        )
        if not 1 <= limbs <= self._setting.limbs:
            raise EngineError("A ciphertext is not of the form it claims. Ask the sender to send it again.")
        return limbs, payload

    def read(self, data: bytes) -> Ciphertext:
        limbs, payload = self.unpack(data)
        return self.load(limbs, self.frame(limbs).checked(payload))

    def load(self, limbs: int, table: ResidueTable) -> Ciphertext:
        frame = self.frame(limbs).filled(table)
        handle, done = openfhe.DeserializeCiphertext(self._memory.holding(frame), openfhe.BINARY)
        if not done:
            raise EngineError("OpenFHE cannot read this ciphertext. Ask the sender to send it again.")
        return Ciphertext(handle, limbs)

    def frame(self, limbs: int) -> Frame:
        if limbs not in self._by_limbs:
            self._by_limbs[limbs] = self._setting.frame(self._key, limbs)
        return self._by_limbs[limbs]

    def _saved(self, handle: Any) -> bytes:
        return self._memory.written_by(lambda path: openfhe.SerializeToFile(path, handle, openfhe.BINARY))


class _PairedSum(RunningSum):
    """Adds the residues of two uploads before the library reads them, which takes five times as long as adding."""

    def __init__(self, evaluator: Evaluator, frames: _Frames, limbs: int) -> None:
        self._evaluator = evaluator
        self._frames = frames
        self._limbs = limbs
        self._frame = frames.frame(limbs)
        self._waiting: ResidueTable | None = None
        self._total: Ciphertext | None = None

    def read(self, data: bytes) -> ResidueTable:
        limbs, payload = self._frames.unpack(data)
        base.require_fresh(limbs, self._limbs)
        return self._frame.checked(payload)

    def add(self, term: ResidueTable) -> None:
        if self._waiting is None:
            self._waiting = term
        else:
            self._load(self._frame.added(self._waiting, term))

    def total(self) -> Ciphertext:
        if self._waiting is not None:
            self._load(self._waiting)
        return base.require_summand(self._total)

    def _load(self, table: ResidueTable) -> None:
        self._waiting = None
        loaded = self._frames.load(self._limbs, table)
        if self._total is None:
            self._total = loaded
        else:
            self._evaluator.accumulate(self._total, loaded)


class _KeyHolder(KeyHolder):
    def __init__(self, parameters: Parameters, key_id: bytes, secret: memoryview) -> None:
        self.parameters = parameters
        self._setting = _setting(parameters)
        self._setting.check_key("secret", secret)
        memory = MemoryFile()
        self._key, done = openfhe.DeserializePrivateKey(memory.holding(secret), openfhe.BINARY)
        memory.wipe()
        if not done:
            raise EngineError("OpenFHE cannot read this secret key. Set the keys up again.")
        self._frames = _Frames(self._setting, key_id, self._key)

    def encrypt(self, values: Vector) -> bytes:
        return self._frames.write(Ciphertext(self._setting.fresh(self._key, values), self._setting.limbs))

    def decrypt(self, data: bytes) -> Vector:
        handle = self._frames.read(data).handle
        with _refusals("to decrypt"):
            return self._setting.decode(self._setting.context.Decrypt(self._key, handle))


class _PublicKeys(msgspec.Struct, frozen=True, array_like=True):
    encryption: bytes
    relinearisation: bytes = b""
    rotation: bytes = b""


class _Evaluator(Evaluator):
    def __init__(self, parameters: Parameters, key_id: bytes, keys: _PublicKeys) -> None:
        self.parameters = parameters
        self._setting = _setting(parameters)
        self._context = self._setting.context
        memory = MemoryFile()
        self._setting.check_key("encryption", keys.encryption)
        self._key, done = openfhe.DeserializePublicKey(memory.holding(keys.encryption), openfhe.BINARY)
        if not done:
            raise EngineError("OpenFHE cannot read the public key. Ask the leader to send it again.")
        self._tag = self._key.GetKeyTag()
        self._relinearisation = self._rotation = None
        with _empty_key_maps(), _refusals("these keys"):
            if keys.relinearisation:
                self._setting.check_key("relinearisation", keys.relinearisation)
                self._context.DeserializeEvalMultKey(memory.holding(keys.relinearisation), openfhe.BINARY)
                self._relinearisation = self._context.GetEvalMultKeyVector(self._tag)
            if keys.rotation and parameters.rotations:
                self._setting.check_key("rotation", keys.rotation)
                self._context.DeserializeEvalAutomorphismKey(memory.holding(keys.rotation), openfhe.BINARY)
                self._rotation = self._context.GetEvalAutomorphismKeyMap(self._tag)
        self._frames = _Frames(self._setting, key_id, self._key)

    def load(self, data: bytes) -> Ciphertext:
        return self._frames.read(data)

    def running_sum(self) -> RunningSum:
        return _PairedSum(self, self._frames, self._setting.limbs)

    def dump(self, ciphertext: Ciphertext) -> bytes:
        return self._frames.write(ciphertext)

    def encrypt(self, values: Vector, like: Ciphertext | None = None) -> Ciphertext:
        level = self._level(like) if like else 0
        return Ciphertext(self._setting.fresh(self._key, values, level), self._setting.limbs - level)

    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        base.require_same_level(left, right)
        return Ciphertext(self._context.EvalAdd(left.handle, right.handle), left.limbs)

    def accumulate(self, total: Ciphertext, term: Ciphertext) -> None:
        base.require_same_level(total, term)
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
        base.require_same_level(left, right)
        base.require_room(left, self.parameters, self._setting.limbs)
        with self._keys_in_place(), _refusals("a product"):
            return self._rescaled(self._context.EvalMult(left.handle, right.handle), left.limbs)

    def multiply_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        base.require_factor(values)
        base.require_room(ciphertext, self.parameters, self._setting.limbs)
        plain = self._setting.encode(values, self._level(ciphertext))
        return self._rescaled(self._context.EvalMult(ciphertext.handle, plain), ciphertext.limbs)

    def rotate(self, ciphertext: Ciphertext, steps: int) -> Ciphertext:
        base.require_rotation(self.parameters, steps)
        with self._keys_in_place(), _refusals("a rotation"):
            return Ciphertext(self._context.EvalRotate(ciphertext.handle, steps), ciphertext.limbs)

    def drop_level(self, ciphertext: Ciphertext) -> Ciphertext:
        if ciphertext.limbs == 1:
            raise EngineError("The ciphertext is at its lowest level already.")
        if self._setting.ckks:
            handle = self._context.LevelReduce(ciphertext.handle, None, 1)
        else:
            handle = self._context.Compress(ciphertext.handle, ciphertext.limbs - 1)
        return Ciphertext(handle, ciphertext.limbs - 1)

    def reciprocal(self, ciphertext: Ciphertext, gain: float, low: float, high: float, degree: int) -> Ciphertext:
        """gain/x for every slot within [low, high], by Chebyshev interpolation; other slots hold anything."""
        with self._keys_in_place(), _refusals("a division"):
            handle = self._context.EvalChebyshevFunction(lambda x: gain / x, ciphertext.handle, low, high, degree)
        return Ciphertext(handle, self._setting.limbs - handle.GetLevel())

    def _level(self, ciphertext: Ciphertext) -> int:
        return self._setting.limbs - ciphertext.limbs

    def _rescaled(self, handle: Any, limbs: int) -> Ciphertext:
        if self._setting.ckks:
            return Ciphertext(self._context.Rescale(handle), limbs - 1)
        return Ciphertext(handle, limbs)

    @contextmanager
    def _keys_in_place(self) -> Iterator[None]:
        with _empty_key_maps():
            if self._relinearisation is not None:
                openfhe.CryptoContext.InsertEvalMultKey(self._relinearisation, self._tag)
            if self._rotation is not None:
                openfhe.CryptoContext.InsertEvalAutomorphismKey(self._rotation, self._tag)
            yield


@contextmanager
def _empty_key_maps() -> Iterator[None]:
    """The process-wide key maps for one operation: empty before it, empty after it, no other thread in between."""
    with _KEY_MAPS:
        _clear_key_maps()
        try:
            yield
        finally:
            _clear_key_maps()


def _clear_key_maps() -> None:
    openfhe.ClearEvalMultKeys()
    openfhe.CryptoContext.ClearEvalAutomorphismKeys()


def chebyshev_reciprocal(
    evaluator: Evaluator, ciphertext: Ciphertext, gain: float, low: float, high: float, degree: int
) -> Ciphertext:
    """gain/x on [low, high] by a Chebyshev polynomial, for an evaluator of this engine; only a baseline divides so."""
    if not isinstance(evaluator, _Evaluator):
        raise EngineError("Only the engine openfhe evaluates Chebyshev polynomials. Choose it.")
    return evaluator.reciprocal(ciphertext, gain, low, high, degree)


class OpenFheEngine(Engine):
    """OpenFHE."""

    name = "openfhe"

    def generate_keys(self, parameters: Parameters) -> Keys:
        """Make a key set."""
        kinds: list[KeyKind] = ["secret", "encryption"]
        if parameters.depth:
            kinds.append("relinearisation")
        if parameters.rotations:
            kinds.append("rotation")
        keys = _setting(parameters).new_keys(kinds)
        secret = keys.pop("secret")
        public = msgspec.msgpack.encode(_PublicKeys(**keys))
        key_id = os.urandom(container.KEY_ID_BYTES)
        return Keys(
            parameters=parameters,
            secret=Secret(container.pack(container.SECRET_KEY, self.name, parameters, key_id, 0, secret)),
            public=container.pack(container.PUBLIC_KEYS, self.name, parameters, key_id, 0, public),
        )

    def key_holder(self, parameters: Parameters, secret: Secret[bytes]) -> KeyHolder:
        """Take the role of a key holder."""
        key_id, _, key = container.unpack(container.SECRET_KEY, self.name, parameters, None, secret.reveal())
        return _KeyHolder(parameters, key_id, key)

    def evaluator(self, parameters: Parameters, public: bytes) -> Evaluator:
        """Take the role of an evaluator."""
        key_id, _, keys = container.unpack(container.PUBLIC_KEYS, self.name, parameters, None, public)
        try:
            return _Evaluator(parameters, key_id, msgspec.msgpack.decode(keys, type=_PublicKeys))
        except msgspec.DecodeError as error:
            raise EngineError("The public keys are malformed. Ask the leader to send them again.") from error
