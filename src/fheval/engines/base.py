"""The interface between protocols and FHE libraries.

Two roles exist. A `KeyHolder` has the secret key: it turns numbers into ciphertext bytes and back. An `Evaluator`
has the public keys only: it loads ciphertext bytes, computes, and dumps the result to bytes. Vectors of numbers are
numpy arrays: complex or float for CKKS, residues (uint64) modulo the plain modulus for BFV; a shorter vector stands
for one filled up with zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from fheval.engines.container import Ciphertext, Factor, Keys
from fheval.engines.parameters import Parameters, Vector, require_factor
from fheval.errors import EngineError
from fheval.secrets import Secret


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
    def encrypt(self, values: Vector, like: Ciphertext | None = None, *, dropped: int = 0) -> Ciphertext:
        """Encrypt under the public key, at the level (and scale) of `like` or, in BFV, so many levels `dropped`."""

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

    def factor(self, values: Vector) -> Factor:
        """Prepare a factor for `linear`; in BFV encoding and transforming it is then done."""
        require_factor(values)
        return Factor(values)

    def linear(self, ciphertexts: Sequence[Ciphertext], factors: Sequence[Factor]) -> Ciphertext:
        """Σ ciphertexts[i]·factors[i]."""
        total, *others = [self._times(*pair) for pair in zip(ciphertexts, factors, strict=True)]
        for product in others:
            self.accumulate(total, product)
        return total

    def _times(self, ciphertext: Ciphertext, factor: Factor) -> Ciphertext:
        return self.multiply_plain(ciphertext, factor.handle)

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
        if self._total is None:
            raise nothing_added()
        return self._total


def nothing_added() -> EngineError:
    """The error for a sum that is asked for before anything was added."""
    return EngineError("There is no ciphertext in this sum yet. Wait for the first party.")


def require_fresh(limbs: int, fresh: int) -> None:
    """Refuse a ciphertext that has been through operations where one just encrypted is due."""
    if limbs != fresh:
        raise EngineError("An upload holds a ciphertext that is not fresh. Ask the sender to send it again.")


class Engine(ABC):
    """An FHE library."""

    name: str

    @abstractmethod
    def generate_keys(self, parameters: Parameters, uniform_from: bytes = b"") -> Keys:
        """Make a fresh key set, with the rotation keys that the parameters name.

        With `uniform_from`, public data, the uniform part of the encryption key is their hash (`engines.container`).
        """

    @abstractmethod
    def key_holder(self, parameters: Parameters, secret: Secret[bytes]) -> KeyHolder:
        """Take the role of a key holder."""

    @abstractmethod
    def evaluator(self, parameters: Parameters, public: bytes, uniform_from: bytes = b"") -> Evaluator:
        """Take the role of an evaluator; keys made with `uniform_from` can be read with the same data only."""
