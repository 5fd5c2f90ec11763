"""One-time pads instead of ciphertexts: what `padded` and `padded-verified` share.

A party hides its integers x_m under a pad that only it and the leader can derive, y_m = x_m + pad_m mod t. The
aggregator adds uploads, Y = Σ y_m; the leader encrypts functions of the pads' sum R = Σ pad_m over the same parties.
Since V = Y − R is the sum of all x_m, the aggregator gets an encryption of every product, times a weight w of its
choice, out of linear operations alone:

    w·V_L·V_R = w·Y_R·(−R_L) + w·Y_L·(−R_R) + w·(R_L·R_R) + w·Y_L·Y_R        (encrypted: −R_L, −R_R, R_L·R_R)

So there is no ciphertext product, no relinearisation and no evaluation key, and the noise stays small enough for the
result to be switched down to one prime, where nothing is left of it but rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fheval import field
from fheval.engines import Engine, Evaluator, Parameters
from fheval.engines.parameters import bfv_linear
from fheval.errors import RemoteProtocolError
from fheval.field import Residues
from fheval.protocols.round import AGGREGATOR, NONCE_BYTES, PartySecrets, PublicSetup, Round
from fheval.secrets import Randomness, Secret, Stream, expand, residues
from fheval.wire import Blob

# Enc(−R_L), Enc(−R_R), Enc(R_L·R_R).
PadCiphertexts = tuple[Blob, Blob, Blob]

# The left and the right factors of all products.
Factors = tuple[Residues, Residues]

# A residue of 46 bits travels as three 16-bit limbs.
BYTES_PER_VALUE = 6
_LIMBS = 3

# Of key stream for each value of a pad: its 46 bits, and enough to spare that no residue is favoured.
_PAD_BITS = 128
PadLimbs = npt.NDArray[np.uint32]

# Small uploads are added in blocks that stay in the cache, a larger one by itself, which spares copying it; the memory
# in use does not depend on the number of parties.
_BLOCK = 32
_SMALL_BYTES = 1 << 15
_MOST_RECENT = (1 << 16) - _BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One ciphertext's worth of a plan: a range of its slots and a range of its groups."""

    slots: slice
    groups: slice


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """Which product sits in which slot, and which slots are added up for one released number.

    `source[i]` is the index of the product in slot i; `ends` has the slot behind each group, in the order of the
    answers. The slots are numbered through all sheets; a group lies on one sheet.
    """

    source: npt.NDArray[np.intp]
    ends: tuple[int, ...]
    sheets: tuple[Sheet, ...]

    @classmethod
    def of(cls, groups: Sequence[npt.NDArray[np.intp]], slots: int) -> SlotPlan:
        """Put the groups of products one behind the other, on as few sheets of `slots` as this order allows."""
        ends = [int(end) for end in np.cumsum([len(group) for group in groups])]
        sheets: list[Sheet] = []
        first = start = 0
        for index, end in enumerate([*ends, ends[-1] + slots + 1]):
            if end - start > slots:
                stop = ends[index - 1]
                sheets.append(Sheet(slots=slice(start, stop), groups=slice(first, index)))
                first, start = index, stop
        return cls(source=np.concatenate(groups), ends=tuple(ends), sheets=tuple(sheets))

    @property
    def lengths(self) -> npt.NDArray[np.intp]:
        return np.diff(self.ends, prepend=0)

    def spread(self, per_group: npt.ArrayLike) -> Residues:
        """A vector over the slots that is constant on each group."""
        return np.repeat(np.asarray(per_group, dtype=np.uint64), self.lengths)

    def sums(self, slots: Residues, modulus: int) -> list[int]:
        """Add the slots of each group; 2^13 residues of 46 bits do not overflow."""
        totals: list[int] = (np.add.reduceat(slots, [0, *self.ends[:-1]]) % np.uint64(modulus)).tolist()
        return totals


def parameter_sets(primes: Sequence[int]) -> list[Parameters]:
    """One BFV set per prime."""
    return [bfv_linear(prime) for prime in primes]


def pad(seed: Secret[bytes], round_: Round, nonce: bytes, values: int) -> PadLimbs:
    """The pad of one upload, before it is reduced: integers of 128 bits, as limbs of 32, never used again.

    `seed` is the party's own. One call of the stream cipher makes the pad for all primes. Reduced modulo a prime t, an
    integer is uniform over F_t up to a statistical distance of t/2^130, or 2^-84 for primes of 46 bits: of the 2^128
    integers, each residue has one more or less. A whole upload of a million values is within 2^-64 of uniform.
    """
    stream = Stream(expand(seed, "padded/pad", round_.digest, nonce))
    return np.frombuffer(stream.draw(_PAD_BITS // 8 * values), dtype="<u4")


def reduced(limbs: npt.NDArray[np.uint64], bits: int, primes: Sequence[int]) -> list[Residues]:
    """Integers of 128 bits modulo each prime, from their limbs of so many bits, which may be sums over many pads."""
    parts = limbs.reshape(len(primes), -1, _PAD_BITS // bits)
    return [_reduced(part, bits, prime) for part, prime in zip(parts, primes, strict=True)]


def _reduced(limbs: npt.NDArray[np.uint64], bits: int, prime: int) -> Residues:
    modulus = np.uint64(prime)
    total = limbs[:, 0] % modulus
    for index in range(1, limbs.shape[1]):
        shifted = field.multiply(limbs[:, index] % modulus, pow(2, bits * index, prime), prime)
        total = field.add(total, shifted, prime)
    return total


def pack(values: Sequence[Residues]) -> bytes:
    """Put residues below 2^48 into six bytes each."""
    words = np.ascontiguousarray(np.concatenate(values), dtype="<u8")
    packed = words.view(np.uint8).reshape(-1, 8)[:, :BYTES_PER_VALUE].tobytes()
    return packed + bytes(-len(packed) % 8)


def packed_size(count: int) -> int:
    """How many bytes `pack` makes of `count` residues: six each, filled up to whole words."""
    return -(-count * BYTES_PER_VALUE // 8) * 8


def party_pad(
    round_: Round, secrets: PartySecrets, nonce: bytes, primes: Sequence[int], hidden: Sequence[Residues]
) -> bytes:
    """Party: y = x + pad mod t for each prime, packed; there are as many values for each."""
    pads = reduced(pad(secrets.pad_seed, round_, nonce, sum(map(len, hidden))).view("<u8"), 64, primes)
    return pack([field.add(values, own, prime) for values, own, prime in zip(hidden, pads, primes, strict=True)])


class UploadSum:
    """Aggregator: adds uploads as they arrive and forgets them.

    A block of uploads is added limb by limb; limbs are put together into residues only once, at the end.
    """

    def __init__(self, values: int) -> None:
        self._values = values
        self._bytes = packed_size(values)
        self._block = _BLOCK if self._bytes < _SMALL_BYTES else 1
        self._waiting: list[bytes] = []
        # Thirty-two bits hold the sum of 2^16 limbs and are added twice as fast as sixty-four.
        self._recent = np.zeros(self._bytes // 2, dtype=np.uint32)
        self._recent_uploads = 0
        self._limbs = np.zeros(self._bytes // 2, dtype=np.uint64)

    def add(self, upload: bytes, sender: str) -> None:
        if len(upload) != self._bytes:
            raise RemoteProtocolError(
                f"{sender} sent {len(upload)} bytes of padded counts instead of {self._bytes}. It was left out.",
                step="PaddedCounts",
                culprit=sender,
            )
        self._waiting.append(upload)
        if len(self._waiting) == self._block:
            self._flush()

    def _flush(self) -> None:
        if len(self._waiting) == 1:
            self._recent += np.frombuffer(self._waiting[0], dtype="<u2")
        else:
            block = np.frombuffer(b"".join(self._waiting), dtype="<u2").reshape(-1, len(self._limbs))
            self._recent += np.add.reduce(block, axis=0, dtype=np.uint32)
        self._recent_uploads += len(self._waiting)
        self._waiting.clear()
        if self._recent_uploads > _MOST_RECENT:
            self._settle()

    def _settle(self) -> None:
        self._limbs += self._recent
        self._recent[:] = 0
        self._recent_uploads = 0

    def totals(self, primes: Sequence[int]) -> list[Residues]:
        """Y mod t for each prime; the upload holds the same number of values for each."""
        self._flush()
        self._settle()
        limbs = self._limbs[: self._values * _LIMBS].reshape(len(primes), -1, _LIMBS)
        return [_joined(part, prime) for part, prime in zip(limbs, primes, strict=True)]


def _joined(limbs: npt.NDArray[np.uint64], prime: int) -> Residues:
    """Σ of residues from the sums of their limbs; 2^31 uploads do not overflow the lower two."""
    lower = (limbs[:, 0] + (limbs[:, 1] << np.uint64(16))) % np.uint64(prime)
    upper = field.multiply(limbs[:, 2] % np.uint64(prime), 1 << 32, prime)
    return field.add(lower, upper, prime)


def require_nonce(nonce: bytes, sender: str) -> None:
    """Aggregator: refuse an upload whose nonce would not fit a roster's."""
    if len(nonce) != NONCE_BYTES:
        raise RemoteProtocolError(
            f"{sender} sent a nonce of {len(nonce)} bytes instead of {NONCE_BYTES}. It was left out.",
            step="PaddedCounts",
            culprit=sender,
        )


def split_nonces(nonces: bytes, roster: Sequence[str]) -> list[bytes]:
    """The nonce of each upload, in the order of the roster."""
    if len(nonces) != NONCE_BYTES * len(roster):
        raise RemoteProtocolError(
            "There is not one nonce for each party of the roster. The round was aborted.",
            step="roster",
            culprit=AGGREGATOR,
        )
    return [bytes(nonces[start : start + NONCE_BYTES]) for start in range(0, len(nonces), NONCE_BYTES)]


def leader_pad_sums(
    round_: Round, secrets: PartySecrets, roster: Sequence[str], nonces: bytes, primes: Sequence[int], count: int
) -> list[Residues]:
    """Leader: R = Σ_{m ∈ roster} pad_m for each prime.

    Limbs are added up as they come out of the cipher and reduced once: 2^32 parties do not overflow.
    """
    values = len(primes) * count
    total = np.zeros(_PAD_BITS // 32 * values, dtype=np.uint64)
    for party, nonce in zip(roster, split_nonces(nonces, roster), strict=True):
        total += pad(secrets.pad_seed_of(party), round_, nonce, values)
    return reduced(total, 32, primes)


def leader_encrypt(
    engine: Engine, secrets: PartySecrets, primes: Sequence[int], plan: SlotPlan, pads: Sequence[Factors]
) -> tuple[tuple[PadCiphertexts, ...], ...]:
    """Leader: Enc(−R_L), Enc(−R_R) and Enc(R_L·R_R) for each prime and sheet, from (R_L, R_R) over the products."""
    sealed = []
    for chosen, key, prime, factors in zip(parameter_sets(primes), secrets.keys, primes, pads, strict=True):
        holder = engine.key_holder(chosen, key)
        left, right = (factor[plan.source] for factor in factors)
        minus_left, minus_right = field.negate(left, prime), field.negate(right, prime)
        product = field.multiply(left, right, prime)
        sealed.append(
            tuple(
                (
                    holder.encrypt(minus_left[sheet.slots]),
                    holder.encrypt(minus_right[sheet.slots]),
                    holder.encrypt(product[sheet.slots]),
                )
                for sheet in plan.sheets
            )
        )
    return tuple(sealed)


class LinearCircuit:
    """Aggregator: Enc(w·V_L·V_R + mask) for one prime, switched down to its smallest modulus."""

    def __init__(self, evaluator: Evaluator, plan: SlotPlan) -> None:
        self.evaluator = evaluator
        self.plan = plan
        self.prime = evaluator.parameters.plain_modulus

    def evaluate(
        self,
        factors: Factors,
        pads: Sequence[PadCiphertexts],
        weights: Residues,
        offsets: Sequence[int],
        rng: Randomness,
    ) -> tuple[bytes, ...]:
        """`factors` are (Y_L, Y_R) over the products and `weights` per slot.

        `offsets` are added to the group sums; everything else in the slots is random.
        """
        prime = self.prime
        left, right = (factor[self.plan.source] for factor in factors)
        on_right = field.multiply(weights, left, prime)
        on_left = field.multiply(weights, right, prime)
        known = field.add(field.multiply(on_right, right, prime), self.masks(offsets, rng), prime)
        return tuple(
            self.sheet(
                data, [on_left[sheet.slots], on_right[sheet.slots], weights[sheet.slots]], known[sheet.slots], rng
            )
            for sheet, data in zip(self.plan.sheets, pads, strict=True)
        )

    def masks(self, offsets: Sequence[int], rng: Randomness) -> Residues:
        """A uniform vector over the slots among those whose groups add up to `offsets`."""
        vector = residues(rng, self.prime, len(self.plan.source))
        last = np.array(self.plan.ends) - 1
        sums = self.plan.sums(vector, self.prime)
        missing = [(wanted - found) % self.prime for wanted, found in zip(offsets, sums, strict=True)]
        vector[last] = field.add(vector[last], np.array(missing, dtype=np.uint64), self.prime)
        return vector

    def sheet(self, pads: PadCiphertexts, factors: Sequence[Residues], known: Residues, rng: Randomness) -> bytes:
        """One ciphertext: the linear combination, plus what is known, plus random numbers in the unused slots.

        The last two come as a fresh public-key encryption, so that the result's second component is fresh as well. It
        is added before the last drop, whose rounding is then a random one and all that is left of the noise.
        """
        unused = residues(rng, self.prime, self.evaluator.parameters.slots - len(known))
        result = self.evaluator.drop_level(self.evaluator.linear([self.evaluator.load(data) for data in pads], factors))
        self.evaluator.accumulate(result, self.evaluator.encrypt(np.concatenate([known, unused]), like=result))
        while result.limbs > 1:
            result = self.evaluator.drop_level(result)
        return self.evaluator.dump(result)


def aggregator_circuits(
    engine: Engine, setup: PublicSetup, primes: Sequence[int], plan: SlotPlan
) -> list[LinearCircuit]:
    """Aggregator: one circuit per prime, from the public keys of the set-up."""
    return [
        LinearCircuit(engine.evaluator(chosen, public), plan)
        for chosen, public in zip(parameter_sets(primes), setup.keys, strict=True)
    ]


def leader_decrypt(
    engine: Engine, secrets: PartySecrets, primes: Sequence[int], plan: SlotPlan, results: Sequence[Sequence[bytes]]
) -> list[list[int]]:
    """Leader: decrypt and add up each group, for each prime."""
    answers = []
    for chosen, key, prime, sheets in zip(parameter_sets(primes), secrets.keys, primes, results, strict=True):
        holder = engine.key_holder(chosen, key)
        used = [sheet.slots.stop - sheet.slots.start for sheet in plan.sheets]
        slots = [holder.decrypt(data)[:count] for data, count in zip(sheets, used, strict=True)]
        answers.append(plan.sums(np.concatenate(slots), prime))
    return answers
