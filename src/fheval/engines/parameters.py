"""Named parameter sets at 128-bit security, and the checks that run before anyone encrypts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fheval.errors import CapacityError, ConfigError, EngineError, PrecisionError
from fheval.field import is_prime, ntt_primes

Scheme = Literal["ckks", "bfv"]

Vector = npt.NDArray[Any]

# Largest total modulus, in bits, for a ternary secret at 128-bit classical security (Homomorphic Encryption
# Standard, 2018, table 1). SEAL and OpenFHE check the same table; we check it too, before either is loaded.
LARGEST_MODULUS_BITS = {4096: 109, 8192: 218, 16384: 438, 32768: 881}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """One parameter set: everything that two sides must agree on to share ciphertexts.

    `modulus_bits` lists the coefficient primes, first the one that is dropped last; the final entry is the
    special prime of key switching. `depth` is how many products in a row the set carries.
    """

    name: str
    scheme: Scheme
    ring: int
    modulus_bits: tuple[int, ...]
    depth: int
    scale_bits: int = 0
    plain_modulus: int = 0
    rotations: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        bound = LARGEST_MODULUS_BITS.get(self.ring)
        if bound is None or sum(self.modulus_bits) > bound:
            raise ConfigError(
                f"Parameter set {self.name} is below 128-bit security: {sum(self.modulus_bits)} modulus bits "
                f"in ring {self.ring}. Use one of the named sets."
            )

    @property
    def slots(self) -> int:
        return self.ring // 2 if self.scheme == "ckks" else self.ring

    @property
    def limbs(self) -> int:
        """How many primes a fresh ciphertext has."""
        return len(self.modulus_bits) - 1

    @property
    def fingerprint(self) -> str:
        """What a ciphertext says it was made under; rotation keys do not change a ciphertext."""
        shape = f"{self.scheme}/{self.ring}/{self.modulus_bits}/{self.depth}/{self.scale_bits}"
        return f"{self.name}/{shape}/{self.plain_modulus}"

    def with_slot_sums(self, width: int) -> Parameters:
        """Ask for the rotation keys that a slot sum over `width` slots needs."""
        return replace(self, rotations=tuple(1 << i for i in range((width - 1).bit_length())))

    def require_slot_field(self) -> None:
        """Refuse a plain modulus under which the slots of BFV do not exist; OpenFHE would abort the process."""
        if self.scheme == "bfv" and (self.plain_modulus % (2 * self.ring) != 1 or not is_prime(self.plain_modulus)):
            raise ConfigError(
                f"The plain modulus {self.plain_modulus} is no prime that is 1 modulo {2 * self.ring}. "
                "Take one of plain_moduli()."
            )

    def require_slots(self, needed: int, what: str) -> None:
        """Refuse what does not fit into one ciphertext, before anyone encrypts it."""
        if needed > self.slots:
            raise CapacityError(
                f"{what} needs {needed} slots and a ciphertext has {self.slots}. Use fewer decision points."
            )


# The paper's set: ring 2^14, three products, 50-bit scale. A first prime of 60 bits leaves 110 bits for a result
# that went through two products, of which 50 are scale and one is sign: blinded numbers may grow to 2^59.
CKKS_PAPER = Parameters(
    name="ckks-16384-depth3-scale50",
    scheme="ckks",
    ring=16384,
    modulus_bits=(60, 50, 50, 50, 60),
    depth=3,
    scale_bits=50,
)


def bfv_linear(plain_modulus: int) -> Parameters:
    """BFV for linear work only: a fresh ciphertext times a plaintext, then down to one 60-bit prime.

    Products with plaintexts leave noise of 2^56 to 2^60. The first drop divides it by 2^56, which leaves as much as the
    drop's own rounding, and the second that by 2^60, so that the noise of the result is the rounding of the last drop
    and not a function of the plaintexts. No key switching happens, so the special prime is a small one. OpenFHE picks
    primes of its own, 60 bits each.
    """
    return Parameters(
        name="bfv-8192-linear",
        scheme="bfv",
        ring=8192,
        modulus_bits=(60, 60, 56, 38),
        depth=0,
        plain_modulus=plain_modulus,
    )


# Plain moduli are congruent 1 mod 2·8192, so that every slot is a field element. Residues that travel have 46 bits, in
# six bytes with room for sums. SEAL needs t apart from the coefficient primes, which have 38, 43, 44, 56 or 60 bits.
PLAIN_MODULUS_BITS = 46

# What travels as integers is reduced modulo primes as large as a result of one 60-bit prime carries. There the rounding
# of the last drop has a deviation of √(8192/18) ≈ 21, and is opened rightly up to 2^59/t = 512. OpenFHE opens it in
# double precision: a quotient of up to t/2 after four roundings, and one more when it is rounded itself, is off by a
# quarter at most, which leaves 256, twelve deviations. One bit more would leave no room for the worst case.
WIDE_MODULUS_BITS = 50


def plain_moduli(count: int) -> tuple[int, ...]:
    """The public primes t_1 … t_k of residues that travel, the largest below 2^46 first."""
    return ntt_primes(bits=PLAIN_MODULUS_BITS, order=2 * 8192, count=count)


def wide_moduli(count: int) -> tuple[int, ...]:
    """The public primes of residues that stay where they are, the largest below 2^50 first."""
    return ntt_primes(bits=WIDE_MODULUS_BITS, order=2 * 8192, count=count)


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


def require_same_level(left: int, right: int) -> None:
    """Refuse to combine ciphertexts under different moduli."""
    if left != right:
        raise EngineError("Ciphertexts of different levels do not combine. Drop levels first.")


def require_room(limbs: int, parameters: Parameters, fresh_limbs: int) -> None:
    """Refuse a product for which no level is left; in BFV a dropped level leaves too little for any."""
    if limbs <= (1 if parameters.scheme == "ckks" else fresh_limbs - 1):
        raise EngineError("There is no level left for another product. Multiply before dropping levels.")


def require_rotation(parameters: Parameters, steps: int) -> None:
    """Refuse a rotation that the parameters did not ask a key for, and any in BFV, whose slots lie in two rows."""
    if parameters.scheme != "ckks" or steps not in parameters.rotations:
        raise EngineError(f"There is no rotation key for {steps} steps. Ask for it when the keys are made.")
