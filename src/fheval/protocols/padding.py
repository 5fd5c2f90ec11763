"""One-time pads instead of ciphertexts: what `padded` and `padded-verified` share.

A party hides its integers x_m under a pad that only it and the leader can derive. The aggregator adds uploads up,
Y = Σ y_m, and the leader the pads of the same parties, R = Σ pad_m; V = Y − R is the sum of all x_m. Numbers that fill
a field, as the secret maps of `padded-verified` make them, are hidden in it, y_m = x_m + pad_m mod t, once for every
prime t. Counts are far smaller, and hidden once for all primes, modulo 2^k.

**The cover.** The aggregator puts a pad of its own on the sum, the cover ρ, drawn anew for every round, and sends the
leader Y + ρ. The leader takes the parties' pads off: D = Y + ρ − R = V + ρ, which tells it nothing, since ρ is uniform.
From then on the two share V = D − ρ, and the aggregator has known its share since before the first upload.

**Integers modulo 2^k.** Pads and covers that are uniform in Z/2^k hide integers perfectly, whatever these are. Over
the integers V = D − ρ holds as well, unless ρ lies so close to the end that ρ + V steps over it: since ρ is uniform,
with probability |V|/2^k. `pad_bits` chooses k so that this happens to any value of a round with a probability below
2^-50; the result is then wrong, or there is none. From there on both shares are reduced modulo each prime. A key holder
sees what it would see of the true sums, up to that probability.

**The product.** Since only sums of products with one weight w are ever read,

    w·Σ V_L·V_R = Σ (−w·ρ_R)·D_L + Σ (−w·ρ_L)·D_R + w·Σ D_L·D_R + w·Σ ρ_L·ρ_R,

one ciphertext of the leader that holds D_L in some slots, D_R in others and Σ D_L·D_R in one is enough: the aggregator
multiplies it by −w·ρ_R, −w·ρ_L and w in the same slots, and their sum is all of it but the last term, which it knows.
So there is no ciphertext product, no relinearisation and no evaluation key, and the noise stays small enough for the
result to be switched down to one prime, where nothing is left of it but rounding.

**The masks.** The aggregator adds a vector u over all slots, used and unused, that is uniform among those whose groups,
the slots of one released number, add up to the last term and the offset of the release. Let p be what the slots held
before. What a key holder decrypts, p + u, is then uniform among the vectors whose groups have the sums of the release,
and depends on p, and so on ρ, through these alone. The sums may reach over several ciphertexts, since nothing but the
sum over all of them is fixed.

**Ahead.** Neither factors nor masks depend on an upload. They are made, encoded and encrypted before there is one: what
is left to do afterwards is one addition in the clear, one product and one addition of ciphertexts. They serve one
answer. Two answers under one cover would show the leader V − V'.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from fheval import field
from fheval.engines import Ciphertext, Engine, Evaluator, Factor, Parameters
from fheval.engines.parameters import bfv_linear
from fheval.errors import CapacityError, LocalProtocolError, RemoteProtocolError
from fheval.field import Modulus, Residues
from fheval.protocols.round import AGGREGATOR, NONCE_BYTES, IntegerVector, PartySecrets, PublicSetup, Round
from fheval.secrets import Randomness, Secret, expand_each, key_stream, residues
from fheval.wire import Blob

# The ciphertexts of one sheet of the leader.
PadSheet = tuple[Blob, ...]

# The left and the right factors of all products.
Factors = tuple[Residues, Residues]

# The weights of all stretches, and what is added to the sum of each group.
Blinding = tuple[Residues, Sequence[int]]

# For people: who learns more by working together.
TOGETHER = (
    "A party and the aggregator together learn the result and nothing about the other parties. The leader, or a party "
    "that checks results, and the aggregator together learn everybody's counts."
)

# A residue of 46 bits travels as three 16-bit limbs.
BYTES_PER_VALUE = 6

# Of key stream for each residue of a pad: its 46 bits, and enough to spare that no residue is favoured.
FIELD_PAD_BITS = 128
PadLimbs = npt.NDArray[np.uint32]

# The sum of integers under pads is right but with a probability of one in 2 to so many, for a whole round.
_SPARE_BITS = 50

# So many residues, for all primes, fit a processor's cache.
_AT_ONCE = 1 << 14

# So many products are added up at once without an overflow.
MOST_PRODUCTS = (1 << 14) - 1

# Small uploads are added in blocks that stay in the cache, a larger one by itself, which spares copying it; the memory
# in use does not depend on the number of parties.
_BLOCK = 128
_BLOCK_BYTES = 1 << 20
_SMALL_BYTES = 1 << 15
_MOST_RECENT = (1 << 16) - _BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """Which product sits where in the slots, and which slots are added up for one released number.

    The products with one weight that belong to one number are a stretch, and the stretches of a number its group.
    `source` has the products of all stretches, one behind the other; `stretches` has the position in it behind each
    stretch, and `groups` the number of stretches up to the end of each group, in the order of the answers.

    The slots are numbered through all ciphertexts of a result, which are called sheets: one for each left factor, in
    the order of `source`, one for each stretch, and one for each right factor. Where this takes more than one sheet,
    the right factors go into ciphertexts of their own, and are added to the left ones slot by slot: a sheet of the
    leader then has two ciphertexts, and the result half as many.
    """

    source: npt.NDArray[np.intp]
    stretches: tuple[int, ...]
    groups: tuple[int, ...]
    slots: int

    @classmethod
    def of(cls, groups: Sequence[Sequence[npt.NDArray[np.intp]]], slots: int) -> SlotPlan:
        """Put the stretches of all groups one behind the other, on sheets of `slots`."""
        stretches = [stretch for group in groups for stretch in group]
        longest = max(len(stretch) for stretch in stretches)
        if longest > MOST_PRODUCTS:
            raise CapacityError(
                f"A sum of {longest} products is too long: it may have {MOST_PRODUCTS}. Use fewer decision points."
            )
        return cls(
            source=np.concatenate(stretches),
            stretches=tuple(np.cumsum([len(stretch) for stretch in stretches]).tolist()),
            groups=tuple(np.cumsum([len(group) for group in groups]).tolist()),
            slots=slots,
        )

    @property
    def ends(self) -> tuple[int, ...]:
        """The position in `source` behind each group."""
        return tuple(self.stretches[stop - 1] for stop in self.groups)

    @property
    def _upper(self) -> int:
        """How many slots left factors and stretches take."""
        return len(self.source) + len(self.stretches)

    @property
    def _folded(self) -> bool:
        return self._upper + len(self.source) > self.slots

    @property
    def used(self) -> int:
        """How many slots of a result sums pass through."""
        return self._upper if self._folded else self._upper + len(self.source)

    @property
    def sheets(self) -> int:
        """How many ciphertexts a result has."""
        return -(-self.used // self.slots)

    @property
    def ciphertexts(self) -> list[int]:
        """How many ciphertexts each sheet of the leader has."""
        of_right = -(-len(self.source) // self.slots) if self._folded else 0
        return [2 if sheet < of_right else 1 for sheet in range(self.sheets)]

    @property
    def corrected(self) -> npt.NDArray[np.intp]:
        """The slot of each group that makes its sum right: that of its last stretch."""
        return np.array(self.groups, dtype=np.intp) + len(self.source) - 1

    def spread(self, per_stretch: Residues) -> Residues:
        """A vector over the products that is constant on each stretch."""
        return np.repeat(per_stretch, _lengths(self.stretches), axis=-1)

    def dots(self, left: Residues, right: Residues, prime: Modulus) -> Residues:
        """Σ left·right over each stretch."""
        return _sums(field.multiply(left, right, prime), self.stretches, prime)

    def lay(self, left: Residues, per_stretch: Residues, right: Residues) -> list[list[Residues]]:
        """What goes into the ciphertexts of each sheet."""
        if not self._folded:
            return [[np.concatenate([left, per_stretch, right])]]
        upper, lower = self.cut(np.concatenate([left, per_stretch])), self.cut(right)
        return [[*one, *other] for one, other in zip_longest(zip(upper), zip(lower), fillvalue=())]

    def cut(self, slots: Residues) -> list[Residues]:
        """A vector over all slots, sheet by sheet."""
        return [slots[start : start + self.slots] for start in range(0, len(slots), self.slots)]

    def by_group(self, per_stretch: Residues, prime: Modulus) -> Residues:
        """Add up the stretches of each group."""
        return _sums(per_stretch, self.groups, prime)

    def sums(self, slots: Residues, prime: Modulus) -> Residues:
        """Add up the slots of each group."""
        factors, per_stretch = slots[..., : len(self.source)], slots[..., len(self.source) : self._upper]
        if not self._folded:
            factors = field.add(factors, slots[..., self._upper : self.used], prime)
        return self.by_group(field.add(_sums(factors, self.stretches, prime), per_stretch, prime), prime)


@lru_cache(maxsize=64)
def _lengths(ends: tuple[int, ...]) -> npt.NDArray[np.intp]:
    return np.diff(ends, prepend=0)


@lru_cache(maxsize=64)
def _starts(ends: tuple[int, ...]) -> npt.NDArray[np.intp]:
    return np.array([0, *ends[:-1]], dtype=np.intp)


def _sums(values: Residues, ends: tuple[int, ...], prime: Modulus) -> Residues:
    sums: Residues = np.add.reduceat(values, _starts(ends), axis=-1) % np.asarray(prime, dtype=np.uint64)
    return sums


def parameter_sets(primes: Sequence[int]) -> list[Parameters]:
    """One BFV set per prime."""
    return [bfv_linear(prime) for prime in primes]


# What a pad is for.
UPLOAD = "padded/pad"


def pad_bits(bits: int, values: int) -> int:
    """How wide pads on so many integers of so many bits are: the least multiple of 32 with 50 bits to spare.

    >>> pad_bits(25, 198), pad_bits(55, 6)
    (96, 128)
    """
    return -(-(bits + values.bit_length() + _SPARE_BITS) // 32) * 32


def pad(
    seed: Secret[bytes], round_: Round, nonce: bytes, values: int, usage: str = UPLOAD, bits: int = FIELD_PAD_BITS
) -> PadLimbs:
    """The pad of one upload, never used again: uniform integers of so many bits, as limbs of 32.

    `seed` is the party's own, and what else goes with an upload has a `usage` of its own. One call of the stream cipher
    makes all of them. Reduced modulo a prime t, an integer of 128 bits is uniform over F_t up to a statistical distance
    of t/2^130, or 2^-84 for primes of 46 bits: of the 2^128 integers, each residue has one more or less. A whole upload
    of a million values is within 2^-64 of uniform. What is added modulo 2^bits is uniform as it is.
    """
    return next(_pads([seed], round_, [nonce], values, usage, bits))


def _pads(
    seeds: Iterable[Secret[bytes]], round_: Round, nonces: Iterable[bytes], values: int, usage: str, bits: int
) -> Iterator[PadLimbs]:
    for key in expand_each(seeds, usage, (round_.digest,), nonces):
        yield np.frombuffer(key_stream(key, bits // 8 * values), dtype="<u4")


def reduced(limbs: npt.NDArray[np.uint64], bits: int, primes: Sequence[int]) -> list[Residues]:
    """Integers of 128 bits modulo each prime, from their limbs of so many bits, which may be sums over many pads."""
    parts = limbs.reshape(len(primes), -1, FIELD_PAD_BITS // bits)
    return [_reduced(part, bits, [prime])[0] for part, prime in zip(parts, primes, strict=True)]


def _reduced(limbs: npt.NDArray[np.uint64], bits: int, primes: Sequence[int]) -> Residues:
    """Integers modulo each of these primes, from a row of limbs each."""
    moduli = _column(primes)
    total = limbs[:, 0] % moduli
    for index in range(1, limbs.shape[1]):
        powers = np.array([[pow(2, bits * index, prime)] for prime in primes], dtype=np.uint64)
        total = field.add(total, field.multiply(limbs[:, index] % moduli, powers, moduli), moduli)
    return total


def _reduced_by_each(limbs: npt.NDArray[np.uint64], primes: Sequence[int]) -> list[Residues]:
    """The same of limbs of 32 bits, which are put together two by two."""
    words = limbs[:, 0::2].copy()
    words[:, : limbs.shape[1] // 2] |= limbs[:, 1::2] << np.uint64(32)
    return [row for chosen in together(primes, len(limbs)) for row in _reduced(words, 64, primes[chosen])]


def _column(primes: Sequence[int]) -> Residues:
    return np.array(primes, dtype=np.uint64)[:, np.newaxis]


def together(primes: Sequence[int], values: int) -> list[slice]:
    """The primes that are worked on at once: all for few values, where NumPy's calls take longer than the work."""
    count = max(1, _AT_ONCE // values)
    return [slice(first, first + count) for first in range(0, len(primes), count)]


def _wrapped(limbs: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Carry what sums of 32-bit limbs have above, in each row, and drop what the last one has."""
    wrapped = limbs.copy()
    for index in range(1, limbs.shape[1]):
        wrapped[:, index] += wrapped[:, index - 1] >> np.uint64(32)
    return wrapped & np.uint64(0xFFFFFFFF)


def pack(values: Sequence[Residues]) -> bytes:
    """Put residues below 2^48 into six bytes each."""
    words = np.ascontiguousarray(np.concatenate(values), dtype="<u8")
    packed = words.view(np.uint8).reshape(-1, 8)[:, :BYTES_PER_VALUE].tobytes()
    return packed + bytes(-len(packed) % 8)


def packed_size(count: int) -> int:
    """How many bytes `pack` makes of `count` residues: six each, filled up to whole words."""
    return -(-count * BYTES_PER_VALUE // 8) * 8


def party_pad(
    round_: Round,
    secrets: PartySecrets,
    nonce: bytes,
    primes: Sequence[int],
    hidden: Sequence[Residues],
    usage: str = UPLOAD,
) -> bytes:
    """Party: y = x + pad mod t for each prime, packed; there are as many values for each."""
    drawn = pad(secrets.pad_seed, round_, nonce, sum(map(len, hidden)), usage, FIELD_PAD_BITS)
    pads = reduced(drawn.view("<u8"), 64, primes)
    return pack([field.add(values, own, prime) for values, own, prime in zip(hidden, pads, primes, strict=True)])


def party_pad_integers(round_: Round, secrets: PartySecrets, nonce: bytes, bits: int, counts: IntegerVector) -> bytes:
    """Party: y = x + pad modulo 2^bits."""
    own = pad(secrets.pad_seed, round_, nonce, len(counts), UPLOAD, bits).reshape(-1, bits // 32)
    # In two's complement, in which a negative number has nothing but ones above.
    limbs = np.column_stack([counts >> min(32 * index, 63) for index in range(bits // 32)]) & 0xFFFFFFFF
    return _wrapped(limbs.astype(np.uint64) + own).astype("<u4").tobytes()


class UploadSum:
    """Aggregator: adds uploads as they arrive and forgets them.

    A block of uploads is added limb by limb; limbs are put together into residues only once, at the end.
    """

    def __init__(self, values: int) -> None:
        self._start(packed_size(values))
        self._values = values

    def _start(self, size: int) -> None:
        # So many bytes has an upload.
        self.size = size
        # So many uploads are best added together.
        self.block = min(_BLOCK, _BLOCK_BYTES // max(size, 1)) if size < _SMALL_BYTES else 1
        self._waiting: list[bytes] = []
        # Thirty-two bits hold the sum of 2^16 limbs and are added twice as fast as sixty-four.
        self._recent = np.zeros(size // 2, dtype=np.uint32)
        self._recent_uploads = 0
        self._limbs = np.zeros(size // 2, dtype=np.uint64)

    def check(self, upload: bytes, sender: str) -> None:
        """Refuse what has another length than all others."""
        if len(upload) != self.size:
            raise RemoteProtocolError(
                f"{sender} sent {len(upload)} bytes of padded counts instead of {self.size}. It was left out.",
                step="PaddedCounts",
                culprit=sender,
            )

    def add(self, upload: bytes, sender: str) -> None:
        self.check(upload, sender)
        if not upload:
            return
        self._waiting.append(upload)
        if len(self._waiting) == self.block:
            self._flush()

    def add_rows(self, uploads: npt.NDArray[np.uint8]) -> None:
        """Add a block of uploads of the right length, a row each."""
        self._add(uploads.view("<u2"))

    def _flush(self) -> None:
        if self._waiting:
            self._add(np.frombuffer(b"".join(self._waiting), dtype="<u2").reshape(len(self._waiting), -1))
            self._waiting = []

    def _add(self, block: npt.NDArray[np.uint16]) -> None:
        self._recent += block[0] if len(block) == 1 else np.add.reduce(block, axis=0, dtype=np.uint32)
        self._recent_uploads += len(block)
        if self._recent_uploads > _MOST_RECENT:
            self._settle()

    def _settle(self) -> None:
        self._limbs += self._recent
        self._recent[:] = 0
        self._recent_uploads = 0

    def _summed(self) -> npt.NDArray[np.uint64]:
        self._flush()
        self._settle()
        return self._limbs

    def totals(self, primes: Sequence[int]) -> list[Residues]:
        """Y mod t for each prime; the upload holds the same number of values for each."""
        return self._reduced(self._summed(), primes)

    def covered(self, cover: bytes, primes: Sequence[int]) -> bytes:
        """Y + ρ, written as an upload is, for a cover that is written so as well."""
        return self._written(self._summed() + np.frombuffer(cover, dtype="<u2"), primes)

    def _reduced(self, summed: npt.NDArray[np.uint64], primes: Sequence[int]) -> list[Residues]:
        limbs = summed[: self._values * BYTES_PER_VALUE // 2].reshape(len(primes), -1, BYTES_PER_VALUE // 2)
        return [_joined(part, prime) for part, prime in zip(limbs, primes, strict=True)]

    def _written(self, summed: npt.NDArray[np.uint64], primes: Sequence[int]) -> bytes:
        return pack(self._reduced(summed, primes))


class IntegerSum(UploadSum):
    """The same for integers under pads of so many bits, which are added modulo 2^bits and then reduced."""

    def __init__(self, values: int, bits: int) -> None:
        self._start(values * bits // 8)
        self._columns = bits // 32

    def _reduced(self, summed: npt.NDArray[np.uint64], primes: Sequence[int]) -> list[Residues]:
        return _reduced_by_each(self._limbs_of(summed), primes)

    def _written(self, summed: npt.NDArray[np.uint64], primes: Sequence[int]) -> bytes:  # noqa: ARG002 (one for all)
        return self._limbs_of(summed).astype("<u4").tobytes()

    def _limbs_of(self, summed: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        halves = summed.reshape(-1, self._columns, 2)
        return _wrapped(halves[..., 0] + (halves[..., 1] << np.uint64(16)))


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
    round_: Round,
    secrets: PartySecrets,
    roster: Sequence[str],
    nonces: bytes,
    primes: Sequence[int],
    count: int,
    usage: str = UPLOAD,
) -> list[Residues]:
    """Leader: R = Σ_{m ∈ roster} pad_m for each prime."""
    total = _added_pads(round_, secrets, roster, nonces, len(primes) * count, usage, FIELD_PAD_BITS)
    return reduced(total, 32, primes)


def leader_uncover(
    round_: Round,
    secrets: PartySecrets,
    roster: Sequence[str],
    nonces: bytes,
    primes: Sequence[int],
    covered: bytes,
    bits: int,
) -> list[Residues]:
    """Leader: D = Y + ρ − R modulo 2^bits, reduced modulo each prime."""
    sums = np.frombuffer(covered, dtype="<u4").reshape(-1, bits // 32).astype(np.uint64)
    pads = _wrapped(_added_pads(round_, secrets, roster, nonces, len(sums), UPLOAD, bits).reshape(sums.shape))
    # Minus R is the complement of its bits, plus one.
    difference = sums + (pads ^ np.uint64(0xFFFFFFFF))
    difference[:, 0] += np.uint64(1)
    return _reduced_by_each(_wrapped(difference), primes)


def _added_pads(
    round_: Round, secrets: PartySecrets, roster: Sequence[str], nonces: bytes, values: int, usage: str, bits: int
) -> npt.NDArray[np.uint64]:
    """Limbs are added up as they come out of the cipher and reduced once: 2^32 parties do not overflow."""
    total = np.zeros(bits // 32 * values, dtype=np.uint64)
    seeds = secrets.pad_seeds_of(roster)
    for own in _pads(seeds, round_, split_nonces(nonces, roster), values, usage, bits):
        total += own
    return total


def leader_encrypt(
    engine: Engine, secrets: PartySecrets, primes: Sequence[int], plan: SlotPlan, shares: Sequence[Factors]
) -> tuple[tuple[PadSheet, ...], ...]:
    """Leader: Enc(D_L ; Σ D_L·D_R ; D_R) for each prime and sheet, from (D_L, D_R) over the products."""
    sealed = []
    for chosen, key, prime, factors in zip(parameter_sets(primes), secrets.keys, primes, shares, strict=True):
        holder = engine.key_holder(chosen, key)
        left, right = (factor[plan.source] for factor in factors)
        sheets = plan.lay(left, plan.dots(left, right, prime), right)
        sealed.append(tuple(tuple(map(holder.encrypt, sheet)) for sheet in sheets))
    return tuple(sealed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What one sheet of the leader is multiplied by, and a fresh public-key encryption of the mask on it."""

    factors: tuple[Factor, ...] = dataclasses.field(repr=False)
    mask: Ciphertext = dataclasses.field(repr=False)


class LinearCircuit:
    """Aggregator: Enc(−w·ρ_R·D_L ; w·Σ D_L·D_R ; −w·ρ_L·D_R) plus masks, for each prime.

    What is prepared serves one answer. It is kept in this object alone, which uses it once: what was prepared and not
    used is lost with it.
    """

    def __init__(self, evaluators: Sequence[Evaluator], plan: SlotPlan) -> None:
        self.evaluators = evaluators
        self.plan = plan
        self.primes = [evaluator.parameters.plain_modulus for evaluator in evaluators]
        self._prepared: list[list[Sheet]] = []

    def prepare(self, cover: Sequence[Factors], blinding: Sequence[Blinding], rng: Randomness) -> None:
        """Make everything for the next answer but the products, from (ρ_L, ρ_R) over the products for each prime.

        The offsets of the blinding are added to the group sums; everything else in the slots is random.
        """
        self._prepared = [
            sheets
            for chosen in together(self.primes, self.plan.used)
            for sheets in self._sheets(self.evaluators[chosen], cover[chosen], blinding[chosen], rng)
        ]

    def _sheets(
        self, evaluators: Sequence[Evaluator], cover: Sequence[Factors], blinding: Sequence[Blinding], rng: Randomness
    ) -> Iterator[list[Sheet]]:
        """For some primes at once."""
        plan, primes = self.plan, [evaluator.parameters.plain_modulus for evaluator in evaluators]
        moduli = _column(primes)
        left, right = (np.stack(side)[:, plan.source] for side in zip(*cover, strict=True))
        weights = np.stack([weights for weights, _ in blinding])
        on_left, on_right = self.weighted(left, right, weights, moduli)
        minus_known = plan.by_group(plan.dots(on_right, right, moduli), moduli)
        offsets = [field.from_large_integers(each, prime) for (_, each), prime in zip(blinding, primes, strict=True)]
        masks = self.masks(field.subtract(np.stack(offsets), minus_known, moduli), primes, rng)
        for evaluator, mask, *laid in zip(evaluators, masks, on_left, weights, on_right, strict=True):
            yield [
                Sheet(factors=tuple(map(evaluator.factor, each)), mask=evaluator.encrypt(part, dropped=1))
                for each, part in zip(plan.lay(*laid), plan.cut(mask), strict=True)
            ]

    def weighted(self, left: Residues, right: Residues, weights: Residues, moduli: Residues) -> Factors:
        """−w·ρ_R and −w·ρ_L, which D_L and D_R are multiplied by; a row for each prime."""
        minus = self.plan.spread(field.negate(weights, moduli))
        on_left, on_right = field.multiply(np.stack([right, left]), minus, moduli)
        return on_left, on_right

    def masks(self, sums: Residues, primes: Sequence[int], rng: Randomness) -> Residues:
        """Numbers for all slots of all sheets, uniform among those whose groups have these sums, for each prime."""
        plan, moduli = self.plan, _column(primes)
        numbers = np.stack([np.concatenate([self.mask(prime, rng) for _ in range(plan.sheets)]) for prime in primes])
        missing = field.subtract(sums, plan.sums(numbers, moduli), moduli)
        numbers[:, plan.corrected] = field.add(numbers[:, plan.corrected], missing, moduli)
        return numbers

    def mask(self, prime: int, rng: Randomness) -> Residues:
        """Uniform numbers for all slots of one sheet."""
        return residues(rng, prime, self.plan.slots)

    def evaluate(self, shares: Sequence[Sequence[PadSheet]]) -> tuple[tuple[bytes, ...], ...]:
        """The answer to what the leader has encrypted, for each prime and sheet."""
        prepared, self._prepared = self._prepared, []
        if not prepared:
            raise LocalProtocolError("What was prepared for one answer is used for one answer. Start a new round.")
        return tuple(
            tuple(self.sheet(evaluator, *sheet) for sheet in zip(sealed, ready, strict=True))
            for evaluator, sealed, ready in zip(self.evaluators, shares, prepared, strict=True)
        )

    def sheet(self, evaluator: Evaluator, shares: PadSheet, prepared: Sheet) -> bytes:
        """One ciphertext: the products plus the mask, switched down to its smallest modulus.

        The mask is a fresh public-key encryption, so that the result's second component is fresh as well. It is added
        before the last drop, whose rounding is then a random one and all that is left of the noise.
        """
        result = evaluator.drop_level(evaluator.linear([evaluator.load(data) for data in shares], prepared.factors))
        evaluator.accumulate(result, prepared.mask)
        while result.limbs > 1:
            result = evaluator.drop_level(result)
        return evaluator.dump(result)


def aggregator_circuit(engine: Engine, setup: PublicSetup, primes: Sequence[int], plan: SlotPlan) -> LinearCircuit:
    """Aggregator: the circuit of a round, from the public keys of the set-up."""
    keys = zip(parameter_sets(primes), setup.keys, strict=True)
    return LinearCircuit([engine.evaluator(chosen, public) for chosen, public in keys], plan)


def leader_decrypt(
    engine: Engine, secrets: PartySecrets, primes: Sequence[int], plan: SlotPlan, results: Sequence[Sequence[bytes]]
) -> list[list[int]]:
    """Leader: decrypt and add up each group, for each prime."""
    answers: list[list[int]] = []
    for chosen, key, prime, sheets in zip(parameter_sets(primes), secrets.keys, primes, results, strict=True):
        holder = engine.key_holder(chosen, key)
        answers.append(plan.sums(np.concatenate([holder.decrypt(data) for data in sheets]), prime).tolist())
    return answers
