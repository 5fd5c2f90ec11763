"""Microsoft SEAL through TenSEAL's low-level API; the only module that imports `tenseal`.

SEAL reads and writes by path, hence the memory files. It validates what it loads against the context (sizes,
residues below their primes), so bytes of an untrusted sender are safe to give to it; form and scale are checked here.

BFV ciphertexts of a key holder are a seed and one polynomial in NTT form (`engines.container`): to multiply them by a
plaintext they need no transform. All other operations on BFV ciphertexts are those of coefficient form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from math import prod
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import tenseal.sealapi as sealapi
import zstandard

from fheval.engines import container
from fheval.engines.base import Engine, Evaluator, KeyHolder
from fheval.engines.container import (
    Ciphertext,
    Factor,
    Keys,
    MemoryFile,
    PublicKeys,
    ResidueTable,
    body_for,
    is_seeded,
    read_body,
    seeded,
    uniform_part,
    unseed,
)
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
from fheval.field import from_integers
from fheval.secrets import Secret, Stream, SystemRandomness, centred_binomial, expand, new_seed, ternary

# What SEAL throws through its bindings, for bytes it cannot read and operations it refuses.
_REFUSALS = (ValueError, RuntimeError, IndexError, OverflowError)

# Where the head of everything that SEAL writes tells the size, its own included.
_SIZE_FIELD = slice(8, 16)
_HEAD_BYTES = 16
_VERSION_BYTES = 5
# What stands behind the version in what SEAL writes: how it was compressed.
_NOT_COMPRESSED, _ZSTANDARD = 0, 2


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Turn what SEAL throws into an `EngineError`."""
    try:
        yield
    except _REFUSALS as error:
        raise EngineError(f"SEAL refused {what} ({error}).") from error


class _Setting:
    """Context and encoder of one parameter set; immutable, shared by all roles."""

    def __init__(self, parameters: Parameters) -> None:
        parameters.require_slot_field()
        self.parameters = parameters
        self.ckks = parameters.scheme == "ckks"
        chosen = sealapi.EncryptionParameters(sealapi.SCHEME_TYPE.CKKS if self.ckks else sealapi.SCHEME_TYPE.BFV)
        chosen.set_poly_modulus_degree(parameters.ring)
        chosen.set_coeff_modulus(sealapi.CoeffModulus.Create(parameters.ring, list(parameters.modulus_bits)))
        if not self.ckks:
            chosen.set_plain_modulus(sealapi.Modulus(parameters.plain_modulus))
        self.context = sealapi.SEALContext(chosen, True, sealapi.SEC_LEVEL_TYPE.TC128)
        if not self.context.parameters_set():
            raise EngineError(
                f"SEAL refuses parameter set {parameters.name}: {self.context.parameters_error_message()}. "
                "Use one of the named sets."
            )
        self.scale = 2.0**parameters.scale_bits
        self.encoder = sealapi.CKKSEncoder(self.context) if self.ckks else sealapi.BatchEncoder(self.context)
        self.arithmetic = sealapi.Evaluator(self.context)
        # Of a fresh ciphertext.
        self.primes = [prime.value() for prime in self.context.first_context_data().parms().coeff_modulus()]

    def encode(self, values: Vector, like: Any = None, scale: float | None = None) -> Any:
        """Encode for the level of the library's ciphertext `like`, or for a fresh one."""
        limbs = self.parameters.limbs if like is None else like.coeff_modulus_size()
        vector = checked_vector(values, self.parameters, limbs)
        plain = sealapi.Plaintext()
        with _refusals("a vector"):
            if self.ckks:
                level = self.context.first_parms_id() if like is None else like.parms_id()
                self.encoder.encode(vector.tolist() or [0.0], level, scale or self.scale, plain)
            else:
                self.encoder.encode(vector.tolist(), plain)
        return plain

    def level(self, limbs: int) -> Any:
        """What SEAL calls the level at which a ciphertext has so many primes."""
        data = self.context.first_context_data()
        for _ in range(self.parameters.limbs - limbs):
            data = data.next_context_data()
        return data.parms_id()

    @property
    def key_primes(self) -> list[int]:
        """The primes that keys are made of: those of a fresh ciphertext and the special one."""
        return [prime.value() for prime in self.context.key_context_data().parms().coeff_modulus()]

    def key_body(self, encryption: bytes, secret: bytes, uniform_from: bytes) -> bytes:
        """The key that SEAL has written, for a uniform part out of a hash; without that part."""
        primes = self.key_primes
        body, drawn = _residues(encryption, 2, len(primes), self.parameters.ring)
        uniform = uniform_part(uniform_from, self.parameters, primes)
        return body_for((body, drawn), self.secret_rows(secret)[: len(primes)], uniform, primes)

    def secret_rows(self, secret: bytes | memoryview) -> ResidueTable:
        """A secret key as SEAL has written it: a row of residues for each of the key's primes, in NTT form."""
        return _residues(secret, len(self.key_primes), self.parameters.ring)

    def whole_key(self, body: bytes, uniform_from: bytes) -> bytes:
        """A public key as SEAL writes it, uncompressed, with the uniform part that belongs to it."""
        primes, ring = self.key_primes, self.parameters.ring
        read_body(body, primes, ring)
        uniform = uniform_part(uniform_from, self.parameters, primes)
        return self._head(len(primes), self.context.key_parms_id()) + body + uniform.astype("<u8").tobytes()

    def empty_ciphertext(self, file: MemoryFile, limbs: int, *, ntt_form: bool) -> ResidueTable:
        """Fill a file with a ciphertext as SEAL writes it, uncompressed, and give the place of its residues."""
        shape = 2, limbs, self.parameters.ring
        return _mapped(file, self._head(limbs, self.level(limbs), ntt_form=ntt_form), shape)

    def empty_plaintext(self, file: MemoryFile) -> ResidueTable:
        """The same for the coefficients of a plaintext."""
        ring = self.parameters.ring
        # Of no level, which SEAL says of a plaintext in coefficient form; then its length and scale.
        fields = struct.pack("<4QQd", 0, 0, 0, 0, ring, 1.0)
        vector = _headed(ring.to_bytes(8, "little"), 8 * ring)
        return _mapped(file, _headed(fields + vector, 8 * ring), (ring,))

    def _head(self, primes: int, level: Sequence[int], *, ntt_form: bool = True) -> bytes:
        """What SEAL writes before the residues of two polynomials."""
        ring = self.parameters.ring
        residues = 2 * primes * ring
        at = b"".join(word.to_bytes(8, "little") for word in level)
        # Level, whether in NTT form, two polynomials, their length and primes, scale, correction factor.
        fields = at + struct.pack("<?QQQdQ", ntt_form, 2, ring, primes, 1.0, 1)
        vector = _headed(residues.to_bytes(8, "little"), 8 * residues)
        return _headed(fields + vector, 8 * residues)

    def decode(self, plain: Any) -> Vector:
        if self.ckks:
            return np.array(self.encoder.decode_complex(plain), dtype=np.complex128)
        return np.array(self.encoder.decode_uint64(plain), dtype=np.uint64)


@lru_cache(maxsize=64)
def _setting(parameters: Parameters) -> _Setting:
    return _Setting(parameters)


def _residues(written: bytes | memoryview, *shape: int) -> ResidueTable:
    """The residues at the end of what SEAL has written; its bindings give them one by one."""
    content, compression = written[_HEAD_BYTES:], written[_VERSION_BYTES]
    if compression == _ZSTANDARD:
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    elif compression != _NOT_COMPRESSED:
        raise EngineError("This SEAL does not compress with Zstandard. Install TenSEAL from its wheel.")
    return np.frombuffer(content[-8 * prod(shape) :], dtype="<u8").reshape(shape)


def _mapped(file: MemoryFile, head: bytes, shape: tuple[int, ...]) -> ResidueTable:
    mapped = file.mapped(head + bytes(8 * prod(shape)))
    return np.frombuffer(mapped, dtype="<u8", offset=len(head)).reshape(shape)


@lru_cache(maxsize=1)
def _version() -> bytes:
    """How this SEAL begins everything that it writes, up to how it is compressed."""
    return MemoryFile().written_by(sealapi.Plaintext().save)[:_VERSION_BYTES]


def _headed(content: bytes, following: int) -> bytes:
    """Put SEAL's head before uncompressed content, behind which so many bytes of it follow."""
    size = (_HEAD_BYTES + len(content) + following).to_bytes(8, "little")
    return _version() + bytes(_SIZE_FIELD.start - _VERSION_BYTES) + size + content


class _Codec:
    """What both roles share: keys out of bytes, ciphertexts in and out of them."""

    def __init__(self, parameters: Parameters, key_id: bytes) -> None:
        self.parameters = parameters
        self._setting = _setting(parameters)
        self._key_id = key_id
        self._memory = MemoryFile()

    def read(self, empty: Any, name: str, payload: bytes | memoryview) -> Any:
        """Let SEAL load one object, of which the bytes hold neither less nor more."""
        told, size = int.from_bytes(payload[_SIZE_FIELD], "little"), len(payload)
        if told != size:
            raise EngineError(f"A {name} of {size} bytes says that it has {told}. Ask the sender to send it again.")
        return self._loaded(empty, name, self._memory.holding(payload))

    def _loaded(self, empty: Any, name: str, path: str) -> Any:
        try:
            empty.load(self._setting.context, path)
        except _REFUSALS as error:
            raise EngineError(f"SEAL cannot read this {name} ({error}). Ask the sender to send it again.") from error
        return empty

    def load(self, data: bytes) -> Ciphertext:
        _, limbs, payload = container.unpack(container.CIPHERTEXT, SealEngine.name, self.parameters, self._key_id, data)
        ckks, fresh = self._setting.ckks, limbs == self.parameters.limbs
        if fresh and is_seeded(payload, self.parameters, self._setting.primes):
            file, residues = self._unseeded
            unseed(payload, residues, self.parameters, self._setting.primes)
            return Ciphertext(self._loaded(sealapi.Ciphertext(), "ciphertext", file.path), limbs)
        handle = self.read(sealapi.Ciphertext(), "ciphertext", payload)
        formed = handle.size() == 2 and handle.coeff_modulus_size() == limbs
        # What SEAL's own validation leaves open: whether it is in NTT form, hides anything, and the stated scale.
        formed = formed and handle.is_ntt_form() == ckks and not handle.is_transparent()
        if not formed or (ckks and not 0.5 < handle.scale / self._setting.scale < 2):
            raise EngineError("A ciphertext is not of the form it claims. Ask the sender to send it again.")
        return Ciphertext(handle, limbs)

    @cached_property
    def _unseeded(self) -> tuple[MemoryFile, ResidueTable]:
        """A file in memory to put ciphertexts into that have a seed, and where their residues go."""
        file = MemoryFile()
        return file, self._setting.empty_ciphertext(file, self.parameters.limbs, ntt_form=True)

    def dump(self, ciphertext: Ciphertext) -> bytes:
        return self._pack(self._memory.written_by(self.usual(ciphertext).save), ciphertext.limbs)

    def usual(self, ciphertext: Ciphertext) -> Any:
        """The library's ciphertext in the form that all operations take."""
        handle = ciphertext.handle
        if not self._setting.ckks and handle.is_ntt_form():
            handle = sealapi.Ciphertext()
            self._setting.arithmetic.transform_from_ntt(ciphertext.handle, handle)
        return handle

    def _pack(self, payload: bytes, limbs: int) -> bytes:
        return container.pack(container.CIPHERTEXT, SealEngine.name, self.parameters, self._key_id, limbs, payload)


class _KeyHolder(_Codec, KeyHolder):
    def __init__(self, parameters: Parameters, key_id: bytes, secret: memoryview) -> None:
        super().__init__(parameters, key_id)
        try:
            key = self.read(sealapi.SecretKey(), "secret key", secret)
        finally:
            self._memory.wipe()
        self._written_key = secret
        self._encryptor = sealapi.Encryptor(self._setting.context, key)
        self._decryptor = sealapi.Decryptor(self._setting.context, key)

    def encrypt(self, values: Vector) -> bytes:
        """As the base class says; in BFV with a seed for the uniform half.

        Those who add up hundreds of CKKS ciphertexts read them faster than they would expand seeds.
        """
        plain, handle, setting = self._setting.encode(values), sealapi.Ciphertext(), self._setting
        with _refusals("to encrypt"):
            self._encryptor.encrypt_symmetric(plain, handle)
            if setting.ckks:
                return self._pack(self._memory.written_by(handle.save), self.parameters.limbs)
            setting.arithmetic.transform_to_ntt_inplace(handle)
        made = _residues(self._memory.written_by(handle.save), 2, len(setting.primes), self.parameters.ring)
        return self._pack(seeded(made, self._secret, self.parameters, setting.primes), self.parameters.limbs)

    @cached_property
    def _secret(self) -> ResidueTable:
        return self._setting.secret_rows(self._written_key)[: self.parameters.limbs]

    def decrypt(self, data: bytes) -> Vector:
        handle, plain = self.usual(self.load(data)), sealapi.Plaintext()
        with _refusals("to decrypt"):
            self._decryptor.decrypt(handle, plain)
            return self._setting.decode(plain)


class _Zeros:
    """Encrypts zero for the level below a fresh ciphertext: (b·u + e_0, a·u + e_1), with the public key (b, a).

    This is what SEAL's encryptor does, in half the time. SEAL draws one number after the other; here those of u, which
    are −1, 0 or 1, and of e_0 and e_1, which are small (`centred_binomial`), are drawn as arrays, from a stream of a
    seed that is the operating system's. The products and transforms are SEAL's. What was drawn passes through files in
    memory, one encryption at a time, and is wiped.
    """

    def __init__(self, setting: _Setting, encryption: bytes) -> None:
        self._setting = setting
        limbs, ring = setting.parameters.limbs - 1, setting.parameters.ring
        self._level, self._primes = setting.level(limbs), setting.primes[:limbs]
        file = MemoryFile()
        # SEAL has checked the key. Under fewer primes it is the same one without some residues.
        setting.empty_ciphertext(file, limbs, ntt_form=True)[:] = _residues(
            encryption, 2, len(setting.key_primes), ring
        )[:, :limbs]
        self._key = self._loaded(sealapi.Ciphertext(), file)
        self._one_at_a_time = Lock()
        self._u_file, self._noise_file = MemoryFile(), MemoryFile()
        self._u = setting.empty_plaintext(self._u_file)
        self._noise = setting.empty_ciphertext(self._noise_file, limbs, ntt_form=False)

    def encrypt(self) -> Any:
        """The library's ciphertext, in coefficient form."""
        with self._one_at_a_time:
            u, noise = self._draw()
        result, seal = sealapi.Ciphertext(), self._setting.arithmetic
        seal.transform_to_ntt_inplace(u, self._level)
        seal.multiply_plain(self._key, u, result)
        seal.transform_from_ntt_inplace(result)
        seal.add_inplace(result, noise)
        return result

    def _draw(self) -> tuple[Any, Any]:
        """Fresh u and (e_0, e_1)."""
        stream = Stream(expand(new_seed(SystemRandomness()), "engines/encryption of zero"))
        ring, modulus = self._setting.parameters.ring, self._setting.parameters.plain_modulus
        _fill(self._u, ternary(stream, ring), modulus)
        drawn = centred_binomial(stream, 2 * ring).reshape(2, ring)
        for row, prime in enumerate(self._primes):
            _fill(self._noise[:, row], drawn, prime)
        u, noise = self._loaded(sealapi.Plaintext(), self._u_file), self._loaded(sealapi.Ciphertext(), self._noise_file)
        self._u[:] = self._noise[:] = 0
        return u, noise

    def _loaded(self, empty: Any, file: MemoryFile) -> Any:
        empty.load(self._setting.context, file.path)
        return empty


def _fill(place: ResidueTable, numbers: npt.NDArray[np.int8], modulus: int) -> None:
    """Put small integers in as residues; they are looked up by their bytes."""
    np.take(_small_residues(modulus), numbers.view(np.uint8), out=place, mode="clip")


@lru_cache(maxsize=64)
def _small_residues(modulus: int) -> npt.NDArray[np.uint64]:
    return from_integers([*range(128), *range(-128, 0)], modulus)


class _Evaluator(_Codec, Evaluator):
    def __init__(self, parameters: Parameters, key_id: bytes, keys: PublicKeys, uniform_from: bytes) -> None:
        super().__init__(parameters, key_id)
        self._seal = self._setting.arithmetic
        encryption = self._setting.whole_key(keys.encryption, uniform_from) if uniform_from else keys.encryption
        key = self.read(sealapi.PublicKey(), "public key", encryption)
        self._encryptor = sealapi.Encryptor(self._setting.context, key)
        self._zeros = None
        if self.parameters.scheme == "bfv" and not self.parameters.depth:
            if container.IN_MEMORY:
                self._zeros = _Zeros(self._setting, encryption)
            # Made with the keys, and not when the first ciphertext is waiting.
            _ = self._unseeded
        self._relinearisation = self._rotation = None
        if keys.relinearisation:
            self._relinearisation = self.read(sealapi.RelinKeys(), "public key", keys.relinearisation)
        if keys.rotation:
            self._rotation = self.read(sealapi.GaloisKeys(), "public key", keys.rotation)

    def encrypt(self, values: Vector, like: Ciphertext | None = None, *, dropped: int = 0) -> Ciphertext:
        handle = sealapi.Ciphertext()
        if not self._setting.ckks:
            limbs = self.parameters.limbs - dropped if like is None else like.limbs
            with _refusals("to encrypt"):
                # A zero of the level that is wanted takes less time than a fresh ciphertext that is dropped to it.
                if self._zeros is not None and limbs == self.parameters.limbs - 1:
                    handle = self._zeros.encrypt()
                else:
                    self._encryptor.encrypt_zero(self._setting.level(limbs), handle)
                self._seal.add_plain_inplace(handle, self._setting.encode(values))
        elif like is None:
            self._encryptor.encrypt(self._setting.encode(values), handle)
        else:
            self._encryptor.encrypt(self._setting.encode(values, like.handle, like.handle.scale), handle)
        return _wrap(handle)

    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        require_same_level(left.limbs, right.limbs)
        return self._result(self._seal.add, self.usual(left), self.usual(right))

    def accumulate(self, total: Ciphertext, term: Ciphertext) -> None:
        require_same_level(total.limbs, term.limbs)
        with _refusals("an addition"):
            total.handle = self.usual(total)
            self._seal.add_inplace(total.handle, self.usual(term))

    def add_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        handle = self.usual(ciphertext)
        plain = self._setting.encode(values, handle, handle.scale if self._setting.ckks else None)
        return self._result(self._seal.add_plain, handle, plain)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        if self._relinearisation is None:
            raise EngineError(f"Parameter set {self.parameters.name} has no ciphertext product. Choose another set.")
        require_same_level(left.limbs, right.limbs)
        require_room(left.limbs, self.parameters, self.parameters.limbs)
        product = self._result(self._seal.multiply, self.usual(left), self.usual(right))
        with _refusals("a product"):
            self._seal.relinearize_inplace(product.handle, self._relinearisation)
        return self._rescaled(product.handle)

    def multiply_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        if not self._setting.ckks:
            return self.linear([ciphertext], [self.factor(values)])
        require_factor(values)
        require_room(ciphertext.limbs, self.parameters, self.parameters.limbs)
        plain = self._setting.encode(values, ciphertext.handle)
        return self._rescaled(self._result(self._seal.multiply_plain, ciphertext.handle, plain).handle)

    def factor(self, values: Vector) -> Factor:
        if self._setting.ckks:
            return super().factor(values)
        require_factor(values)
        plain = self._setting.encode(values)
        with _refusals("a vector"):
            self._seal.transform_to_ntt_inplace(plain, self._setting.context.first_parms_id())
        return Factor(plain)

    def linear(self, ciphertexts: Sequence[Ciphertext], factors: Sequence[Factor]) -> Ciphertext:
        """As the base class says; BFV stays in NTT form until the sum is complete, which is twice as fast."""
        if self._setting.ckks:
            return super().linear(ciphertexts, factors)
        total = None
        for ciphertext, factor in zip(ciphertexts, factors, strict=True):
            require_room(ciphertext.limbs, self.parameters, self.parameters.limbs)
            term = sealapi.Ciphertext()
            with _refusals("a product"):
                if ciphertext.handle.is_ntt_form():
                    self._seal.multiply_plain(ciphertext.handle, factor.handle, term)
                else:
                    self._seal.transform_to_ntt(ciphertext.handle, term)
                    self._seal.multiply_plain_inplace(term, factor.handle)
                if total is None:
                    total = term
                else:
                    self._seal.add_inplace(total, term)
        self._seal.transform_from_ntt_inplace(total)
        return _wrap(total)

    def rotate(self, ciphertext: Ciphertext, steps: int) -> Ciphertext:
        require_rotation(self.parameters, steps)
        if self._rotation is None:
            raise EngineError("These public keys hold no rotation keys. Ask the leader for keys of this round.")
        return self._result(self._seal.rotate_vector, ciphertext.handle, steps, self._rotation)

    def drop_level(self, ciphertext: Ciphertext) -> Ciphertext:
        handle = sealapi.Ciphertext()
        with _refusals("to drop a level"):
            self._seal.mod_switch_to_next(self.usual(ciphertext), handle)
        return _wrap(handle)

    def _result(self, operation: Any, *operands: Any) -> Ciphertext:
        handle = sealapi.Ciphertext()
        with _refusals("an operation"):
            operation(*operands, handle)
        return _wrap(handle)

    def _rescaled(self, handle: Any) -> Ciphertext:
        if self._setting.ckks:
            with _refusals("to rescale"):
                self._seal.rescale_to_next_inplace(handle)
        return _wrap(handle)


def _wrap(handle: Any) -> Ciphertext:
    return Ciphertext(handle, handle.coeff_modulus_size())


class SealEngine(Engine):
    """Microsoft SEAL, with evaluation keys that are saved as seeds, at half their size."""

    name = "seal"

    def generate_keys(self, parameters: Parameters, uniform_from: bytes = b"") -> Keys:
        memory, setting = MemoryFile(), _setting(parameters)
        generator = sealapi.KeyGenerator(setting.context)
        relinearisation = rotation = b""
        if parameters.depth:
            relinearisation = memory.written_by(generator.create_relin_keys().save)
        if parameters.rotations:
            elements = [pow(3, steps, 2 * parameters.ring) for steps in parameters.rotations]
            rotation = memory.written_by(generator.create_galois_keys(elements).save)
        encryption = sealapi.PublicKey()
        generator.create_public_key(encryption)
        written, secret = memory.written_by(encryption.save), memory.written_by(generator.secret_key().save)
        if uniform_from:
            written = setting.key_body(written, secret, uniform_from)
        public = PublicKeys(written, relinearisation, rotation)
        return container.pack_keys(self.name, parameters, secret, public)

    def key_holder(self, parameters: Parameters, secret: Secret[bytes]) -> KeyHolder:
        return _KeyHolder(parameters, *container.unpack_secret(self.name, parameters, secret))

    def evaluator(self, parameters: Parameters, public: bytes, uniform_from: bytes = b"") -> Evaluator:
        key_id, keys = container.unpack_public(self.name, parameters, public, PublicKeys)
        return _Evaluator(parameters, key_id, keys, uniform_from)
