"""The interface between protocols and FHE libraries.

Two roles exist. A `KeyHolder` has the secret key: it turns numbers into ciphertext bytes and back. An `Evaluator`
has the public keys only: it loads ciphertext bytes, computes, and dumps the result to bytes. Vectors of numbers are
numpy arrays: complex or float for CKKS, residues (uint64) modulo the plain modulus for BFV; a shorter vector stands
for one filled up with zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fheval.engines.parameters import Parameters
from fheval.errors import CapacityError, EngineError, PrecisionError
from fheval.secrets import Secret

Vector = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What key generation gives: `secret` for the parties, `public` (evaluation keys included) for everyone."""

    parameters: Parameters
    secret: Secret[bytes]
    public: bytes = field(repr=False)


@dataclass(slots=True)
class Ciphertext:
    """A loaded ciphertext: the library's object, and how many primes its modulus has left."""

    handle: Any = field(repr=False)
    limbs: int


class KeyHolder(ABC):
    """The role that holds the secret key."""

    parameters: Parameters

    @abstractmethod
    def encrypt(self, values: Vector) -> bytes:
        """Encrypt under the secret key; fresh randomness comes from the library's own CSPRNG."""

    @abstractmethod
    def decrypt(self, data: bytes) -> Vector:
        """Decrypt all slots: complex128 for CKKS, uint64 for BFV."""


class RunningSum(ABC):
    """A sum of fresh ciphertexts that arrive one by one, are added and forgotten."""

    @abstractmethod
    def read(self, data: bytes) -> Any:
        """Check a ciphertext of an untrusted sender; what comes back is for `add`, and no sum has changed yet."""

    @abstractmethod
    def add(self, term: Any) -> None:
        """Add what `read` gave."""

    @abstractmethod
    def total(self) -> Ciphertext:
        """The sum so far."""


class Evaluator(ABC):
    """The role that computes on ciphertexts with public keys only."""

    parameters: Parameters

    @abstractmethod
    def load(self, data: bytes) -> Ciphertext:
        """Read a ciphertext from bytes of an untrusted sender."""

    @abstractmethod
    def dump(self, ciphertext: Ciphertext) -> bytes:
        """Write a ciphertext to bytes."""

    @abstractmethod
    def encrypt(self, values: Vector, like: Ciphertext | None = None) -> Ciphertext:
        """Encrypt under the public key, at the level (and scale) of `like`."""

    @abstractmethod
    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """left + right, slot by slot."""

    @abstractmethod
    def accumulate(self, total: Ciphertext, term: Ciphertext) -> None:
        """total += term, in place."""

    @abstractmethod
    def add_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        """ciphertext + values."""

    @abstractmethod
    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """left·right, slot by slot, relinearised; in CKKS one level down, in BFV before any level is dropped."""

    @abstractmethod
    def multiply_plain(self, ciphertext: Ciphertext, values: Vector) -> Ciphertext:
        """ciphertext·values, slot by slot; in CKKS one level down, in BFV before any level is dropped."""

    @abstractmethod
    def rotate(self, ciphertext: Ciphertext, steps: int) -> Ciphertext:
        """Move every slot `steps` (a power of two with a key) to the left; CKKS only."""

    @abstractmethod
    def drop_level(self, ciphertext: Ciphertext) -> Ciphertext:
        """Switch to the next smaller modulus: fewer bytes, same content.

        `EngineError` at the smallest modulus, which has one prime, or as many as exceed BFV's plain modulus. In CKKS a
        ciphertext that was dropped to a level and one that was rescaled to it have different scales, and do not add.
        """

    def running_sum(self) -> RunningSum:
        """An empty sum; here it loads and accumulates, where an engine has a faster way it overrides this."""
        return _LoadedSum(self)

    def linear(self, ciphertexts: Sequence[Ciphertext], values: Sequence[Vector]) -> Ciphertext:
        """Σ ciphertexts[i]·values[i]."""
        total = self.multiply_plain(ciphertexts[0], values[0])
        for ciphertext, factor in zip(ciphertexts[1:], values[1:], strict=True):
            self.accumulate(total, self.multiply_plain(ciphertext, factor))
        return total

    def slot_sum(self, ciphertext: Ciphertext, width: int) -> Ciphertext:
        """Slot i becomes the sum of slots i … i + w − 1, where w is the next power of two from `width`.

        Every slot but the first then holds a partial sum: whoever decrypts must not see them.
        """
        for step in range((width - 1).bit_length()):
            ciphertext = self.add(ciphertext, self.rotate(ciphertext, 1 << step))
        return ciphertext


class _LoadedSum(RunningSum):
    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._total: Ciphertext | None = None

    def read(self, data: bytes) -> Ciphertext:
        loaded = self._evaluator.load(data)
        require_fresh(loaded.limbs, self._evaluator.parameters.limbs)
        return loaded

    def add(self, term: Ciphertext) -> None:
        if self._total is None:
            self._total = term
        else:
            self._evaluator.accumulate(self._total, term)

    def total(self) -> Ciphertext:
        return require_summand(self._total)


def require_summand(total: Ciphertext | None) -> Ciphertext:
    """Refuse to give a sum that nothing was added to."""
    if total is None:
        raise EngineError("There is no ciphertext in this sum yet. Wait for the first party.")
    return total


def require_fresh(limbs: int, fresh: int) -> None:
    """Refuse a ciphertext that has been through operations where one just encrypted is due."""
    if limbs != fresh:
        raise EngineError("An upload holds a ciphertext that is not fresh. Ask the sender to send it again.")


class Engine(ABC):
    """An FHE library."""

    name: str

    @abstractmethod
    def generate_keys(self, parameters: Parameters) -> Keys:
        """Make a fresh key set, with the rotation keys that the parameters name."""

    @abstractmethod
    def key_holder(self, parameters: Parameters, secret: Secret[bytes]) -> KeyHolder:
        """Take the role of a key holder."""

    @abstractmethod
    def evaluator(self, parameters: Parameters, public: bytes) -> Evaluator:
        """Take the role of an evaluator."""


def checked_vector(values: Vector, parameters: Parameters, limbs: int | None = None) -> Vector:
    """A contiguous vector of the scheme's type that fits slots and level; what cannot be encoded raises."""
    if values.ndim != 1 or len(values) > parameters.slots:
        raise CapacityError(
            f"A vector of shape {values.shape} does not fit the {parameters.slots} slots of {parameters.name}. "
            "Use fewer decision points."
        )
    if parameters.scheme == "bfv":
        return _checked_residues(values, parameters)
    return _checked_numbers(values, parameters, parameters.limbs if limbs is None else limbs)


def _checked_residues(values: Vector, parameters: Parameters) -> Vector:
    if values.size and values.dtype.kind not in "iu":
        raise PrecisionError(f"BFV encodes integers and not {values.dtype}. Round and reduce the vector first.")
    vector = np.ascontiguousarray(values, dtype=np.uint64)
    if vector.size and int(vector.max()) >= parameters.plain_modulus:
        raise CapacityError(f"A value is not below the plain modulus {parameters.plain_modulus}. Reduce it first.")
    return vector


def _checked_numbers(values: Vector, parameters: Parameters, limbs: int) -> Vector:
    if values.dtype.kind not in "biufc":
        raise PrecisionError(f"CKKS encodes numbers and not {values.dtype}. Convert the vector first.")
    vector = np.ascontiguousarray(values, dtype=np.complex128 if np.iscomplexobj(values) else np.float64)
    if not np.all(np.isfinite(vector)):
        raise CapacityError("NaN and infinite values cannot be encoded. Check what the vector was computed from.")
    # The library would wrap around silently. A fresh value may fill what is left after the last but one product, a
    # value at the last level what is left there; sign and noise take a bit each, as SEAL's encoder asks for.
    largest = 2.0 ** (sum(parameters.modulus_bits[: min(limbs, 2)]) - parameters.scale_bits - 2)
    if vector.size and float(np.abs(vector).max()) > largest:
        raise CapacityError(
            f"A value of 2^{np.log2(np.abs(vector).max()):.0f} exceeds what {parameters.name} carries "
            f"with {limbs} primes left. Scale the vector down."
        )
    return vector


def require_factor(values: Vector) -> None:
    """Refuse a factor of nothing but zeros: the product would be a ciphertext that anyone can read."""
    if not np.any(values):
        raise EngineError("A product with zeros only hides nothing. Leave the term out.")


def require_same_level(left: Ciphertext, right: Ciphertext) -> None:
    """Refuse to combine ciphertexts under different moduli."""
    if left.limbs != right.limbs:
        raise EngineError("Ciphertexts of different levels do not combine. Drop levels first.")


def require_room(ciphertext: Ciphertext, parameters: Parameters, fresh_limbs: int) -> None:
    """Refuse a product for which no level is left; in BFV a dropped level leaves too little for any."""
    if ciphertext.limbs <= (1 if parameters.scheme == "ckks" else fresh_limbs - 1):
        raise EngineError("There is no level left for another product. Multiply before dropping levels.")


def require_rotation(parameters: Parameters, steps: int) -> None:
    """Refuse a rotation that the parameters did not ask a key for, and any in BFV, whose slots lie in two rows."""
    if parameters.scheme != "ckks" or steps not in parameters.rotations:
        raise EngineError(f"There is no rotation key for {steps} steps. Ask for it when the keys are made.")
