"""Contexts and keys of OpenFHE, whose evaluation keys live in maps of the whole process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from math import log2
from typing import Any, Literal

import numpy as np
import openfhe

from fheval.engines.container import MemoryFile, ResidueTable, body_for, read_body, uniform_part
from fheval.engines.openfhe.residues import Frame, Shape, find_spans, repeated_primes
from fheval.engines.parameters import Parameters, Vector, checked_vector
from fheval.errors import EngineError

NAME = "openfhe"

# Tables that only speed up polynomials in coefficient form; building them made every load three times slower.
openfhe.DisablePrecomputeCRTTablesAfterDeserializaton()

_KEY_MAPS = threading.RLock()

# The size of all primes that OpenFHE picks for BFV.
_BFV_PRIME_BITS = 60

KeyKind = Literal["secret", "encryption", "relinearisation", "rotation"]


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Turn what OpenFHE throws into an `EngineError`."""
    try:
        yield
    except RuntimeError as error:
        raise EngineError(f"OpenFHE refused {what}. Check that all of it comes from this round.") from error


@contextmanager
def empty_key_maps() -> Iterator[None]:
    """The process-wide key maps for one operation: empty before it, empty after it, no other thread in between."""
    with _KEY_MAPS:
        _clear_key_maps()
        try:
            yield
        finally:
            _clear_key_maps()


def writer_of(handle: Any) -> Callable[[str], object]:
    """What writes a key or a ciphertext of the library to a path."""
    return lambda path: openfhe.SerializeToFile(path, handle, openfhe.BINARY)


def _clear_key_maps() -> None:
    openfhe.ClearEvalMultKeys()
    openfhe.CryptoContext.ClearEvalAutomorphismKeys()


class Setting:
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
        """A plaintext of the library, for a ciphertext at this level."""
        vector = checked_vector(values, self.parameters, self.limbs - level)
        if self.ckks:
            return self.context.MakeCKKSPackedPlaintext(vector if len(vector) else np.zeros(1), 1, level)
        modulus = self.parameters.plain_modulus
        centred = vector.astype(np.int64)
        centred -= modulus * (centred > modulus // 2)
        return self.context.MakePackedPlaintext(centred if len(centred) else np.zeros(1, dtype=np.int64), 1, level)

    def decode(self, plain: Any) -> Vector:
        if self.ckks:
            return np.asarray(plain.GetCKKSPackedValueArray(), dtype=np.complex128)
        plain.SetLength(self.parameters.slots)
        centred: Vector = plain.GetPackedValueArray()
        return np.mod(centred, self.parameters.plain_modulus).astype(np.uint64)

    def fresh(self, key: Any, values: Vector, level: int = 0) -> Any:
        """Encrypt under a public or secret key, at a level."""
        plain = self.encode(values, level)
        with refusals("to encrypt"):
            return self.context.Encrypt(key, plain)

    def frame(self, key: Any, limbs: int) -> Frame:
        """An empty ciphertext as the library writes it, under a key's tag.

        One is encrypted for each number of primes and kept: under another key only the tag is another.
        """
        tag = key.GetKeyTag().encode()
        if limbs not in self._writings:
            empty = self.fresh(key, np.zeros(1, dtype=np.uint64), self.limbs - limbs)
            self._writings[limbs] = tag, MemoryFile().written_by(writer_of(empty))
        written_under, data = self._writings[limbs]
        data = data.replace(written_under, tag)
        return Frame(data, find_spans(data, self.parameters.ring, self.primes), self.parameters.ring)

    def new_keys(self, kinds: Sequence[KeyKind]) -> dict[KeyKind, bytes]:
        """Make a key pair and write the keys that are asked for, remembering what such keys look like."""
        with empty_key_maps():
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
        return writer_of(pair.secretKey if kind == "secret" else pair.publicKey)

    def check_key(self, kind: KeyKind, data: bytes | memoryview) -> None:
        """Refuse a key that OpenFHE's reader could not be trusted with."""
        self._shape(kind).check(data)

    def _shape(self, kind: KeyKind) -> Shape:
        if kind not in self._shapes:
            self.new_keys([kind])
        return self._shapes[kind]

    def key_body(self, keys: Mapping[KeyKind, bytes], uniform_from: bytes) -> bytes:
        """The encryption key that OpenFHE has made, for a uniform part out of a hash; without that part."""
        ring = self.parameters.ring
        primes = self._shape("secret").primes
        body, drawn = self._shape("encryption").table(keys["encryption"]).reshape(2, len(primes), ring)
        uniform = uniform_part(uniform_from, self.parameters, primes)
        return body_for((body, drawn), self.secret_rows(keys["secret"]), uniform, primes)

    def secret_rows(self, secret: bytes | memoryview) -> ResidueTable:
        """The residues of a secret key that was checked, a row for each prime."""
        return self._shape("secret").table(secret)

    def whole_key(self, body: bytes, uniform_from: bytes) -> bytes:
        """An encryption key as OpenFHE writes it, with the uniform part that belongs to it, under a tag of our own."""
        ring = self.parameters.ring
        shape = self._shape("encryption")
        primes = shape.primes[: len(shape.primes) // 2]
        table = np.concatenate([read_body(body, primes, ring), uniform_part(uniform_from, self.parameters, primes)])
        frame = Frame(self._own_key, shape.spans, ring)
        frame.filled(table)
        return frame.content

    @cached_property
    def _own_key(self) -> bytes:
        """An encryption key that belongs to nobody, whose structure others are set into."""
        return self.new_keys(["encryption"])["encryption"]

    @cached_property
    def primes(self) -> frozenset[int]:
        """The primes of a fresh ciphertext, which are those of the encryption key."""
        return repeated_primes(self.new_keys(["encryption"])["encryption"], self.parameters.ring)


@lru_cache(maxsize=64)
def setting_of(parameters: Parameters) -> Setting:
    """The one setting of a parameter set in this process."""
    return Setting(parameters)
