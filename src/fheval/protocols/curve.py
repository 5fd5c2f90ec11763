"""`curve`: by consent of all, the parties learn the global counts themselves. The aggregator learns nothing.

Parties upload their counts under one-time pads as in `padded`. The aggregator hands the leader the sum Y of the
uploads; the leader takes off the pads of those who arrived, V = Y − R, and tells the parties. No FHE is needed: what
the leader would decrypt is what it may learn.

Against a malicious aggregator (`padded-verified`) a party uploads α_1·x and α_2·x as well, for secret α that all
parties derive: a sum that was changed by δ passes only if the others were changed by α·δ, which is guessed with
probability 1/(t − 1) each.

Counts say far more than a ratio: nothing here runs unless `allowed`, which the consortium's policy decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fheval import field, wire
from fheval.engines.parameters import plain_moduli
from fheval.errors import CapacityError, ConfigError, RemoteProtocolError, VerificationFailed
from fheval.metrics.fixed_point import Integers
from fheval.protocols import padded, padded_verified, padding
from fheval.protocols.padded import PaddedCounts
from fheval.protocols.round import AGGREGATOR, Post, Round, from_a_party, from_this_round
from fheval.secrets import Randomness, Secret, derive, nonzero_residue
from fheval.wire import Blob, Message

(PRIME,) = plain_moduli(1)

# How many secret multiples of the counts are uploaded with them, where they are verified.
TAGS = 2

_NONCE_BYTES = 12


class PaddedSums(Message, frozen=True, kw_only=True):
    """Step 2, aggregator to leader: Y, the sum of the uploads, and whose they are."""

    round: str
    roster: tuple[str, ...]
    values: Blob


class SealedSums(Message, frozen=True, kw_only=True):
    """Step 4, leader to all parties: V under a key that only the parties can derive."""

    round: str
    nonce: bytes
    sealed: Blob


def require_allowed(*, allowed: bool) -> None:
    """Refuse to release counts that the parties did not agree to release."""
    if not allowed:
        raise ConfigError(
            "The round asks for the counts of a curve, and curves are not allowed. "
            "Ask for metrics, or let all parties allow curves in their policy."
        )


def require_consent(round_: Round, *, allowed: bool) -> None:
    """Refuse, as any role, a round that must not or cannot release counts."""
    require_allowed(allowed=allowed)
    if not round_.sums or round_.protocol not in (padded.NAME, padded_verified.NAME):
        raise ConfigError(f"{round_.protocol} has no release of counts. Use {padded.NAME} or {padded_verified.NAME}.")


def _tags(round_: Round) -> int:
    return TAGS if round_.protocol == padded_verified.NAME else 0


def _keys(round_: Round, seed: Secret[bytes]) -> list[int]:
    """α, one for each tag."""
    return [nonzero_residue(derive(seed, "curve/tag", round_.digest(), tag), PRIME) for tag in range(_tags(round_))]


def _length(round_: Round) -> int:
    return round_.sums * (1 + _tags(round_))


def party_submit(round_: Round, seed: Secret[bytes], me: str, own: Integers, *, allowed: bool) -> PaddedCounts:
    """Step 1, party: y = (x, α_1·x, …) + pad mod t. Learns: nothing."""
    require_consent(round_, allowed=allowed)
    if len(own) != round_.sums or (own < 0).any() or (own >= PRIME // 2).any():
        raise CapacityError(f"These are not {round_.sums} counts below 2^45. Count again, or lower max_samples.")
    counts = field.from_integers(own, PRIME)
    parts = [counts, *(field.multiply(counts, key, PRIME) for key in _keys(round_, seed))]
    values = padding.party_pad(round_, seed, me, [PRIME], [np.concatenate(parts)])
    return PaddedCounts(round=round_.id, sender=me, values=values)


class Aggregator:
    """Step 2. Learns the roster, nothing else: uploads are uniform, and so is their sum."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.uploads = padding.UploadSum(_length(round_))
        self.roster: dict[str, None] = {}

    def receive(self, counts: PaddedCounts) -> None:
        """Add an upload and forget it."""
        from_this_round(self.round, counts.round, counts.sender, "PaddedCounts")
        from_a_party(self.round.parties, counts.sender, self.roster, "PaddedCounts")
        self.uploads.add(counts.values, counts.sender)
        self.roster[counts.sender] = None

    def result(self) -> PaddedSums:
        """Hand over the sum; nobody else gets in."""
        self.round.require_cohort(tuple(self.roster))
        values = padding.pack(self.uploads.totals([PRIME]))
        return PaddedSums(round=self.round.id, roster=tuple(self.roster), values=values)


def leader_open(round_: Round, seed: Secret[bytes], sums: PaddedSums, *, allowed: bool) -> Integers:
    """Step 3, leader: V = Y − R, with its tags verified. To be answered once a round.

    Learns: the global counts, as all parties will; or that the aggregator deviated.
    """
    require_consent(round_, allowed=allowed)
    from_this_round(round_, sums.round, AGGREGATOR, "PaddedSums")
    round_.require_cohort(sums.roster)
    total = padding.UploadSum(_length(round_))
    total.add(sums.values, AGGREGATOR)
    (padded_sum,) = total.totals([PRIME])
    (pads,) = padding.leader_pad_sums(round_, seed, sums.roster, [PRIME], _length(round_))
    counts, *tags = np.split(field.subtract(padded_sum, pads, PRIME), 1 + _tags(round_))
    for key, tag in zip(_keys(round_, seed), tags, strict=True):
        if not np.array_equal(field.multiply(counts, key, PRIME), tag):
            raise VerificationFailed
    return counts.astype(np.int64)


def soundness_bits(round_: Round) -> float | None:
    """What a changed sum passes with, as a power of one half; None where nothing is verified."""
    return round(_tags(round_) * log2(PRIME - 1), 1) if _tags(round_) else None


def _cipher(round_: Round, seed: Secret[bytes]) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(seed, "curve/broadcast", round_.digest()).draw(32))


def leader_seal(round_: Round, seed: Secret[bytes], counts: Integers, rng: Randomness) -> SealedSums:
    """Step 4, leader: tell all parties; every count takes six bytes, so that the length says nothing."""
    nonce = rng.draw(_NONCE_BYTES)
    plain = padding.pack([field.from_integers(counts, PRIME)])
    return SealedSums(round=round_.id, nonce=nonce, sealed=_cipher(round_, seed).encrypt(nonce, plain, round_.digest()))


def party_unseal(round_: Round, seed: Secret[bytes], message: SealedSums) -> Integers:
    """Step 4, party: the global counts."""
    from_this_round(round_, message.round, round_.leader, "SealedSums")
    total = padding.UploadSum(round_.sums)
    try:
        plain = _cipher(round_, seed).decrypt(message.nonce, message.sealed, round_.digest())
    except (InvalidTag, ValueError) as error:
        raise RemoteProtocolError(
            "The sealed counts were altered or belong to another round. Ask the leader to send them again.",
            step="SealedSums",
            culprit=round_.leader,
        ) from error
    total.add(plain, round_.leader)
    (counts,) = total.totals([PRIME])
    return counts.astype(np.int64)


def run(
    round_: Round,
    seed: Secret[bytes],
    own: Mapping[str, Integers],
    rng: Randomness,
    post: Post,
    *,
    allowed: bool,
    aggregator_type: type[Aggregator] = Aggregator,
) -> tuple[Integers, Sequence[str]]:
    """Play all roles; only bytes pass between them. Gives the global counts and the roster."""
    with post.working("aggregator"):
        aggregator = aggregator_type(round_)
    for party, counts in own.items():
        with post.working("party"):
            upload = post.carry("party_upload", party_submit(round_, seed, party, counts, allowed=allowed))
        with post.working("aggregator"):
            aggregator.receive(wire.decode(upload, PaddedCounts, sender=party))
    with post.working("aggregator"):
        result = post.carry("result", aggregator.result())
    with post.working("decrypt"):
        sums = wire.decode(result, PaddedSums, sender=AGGREGATOR)
        opened = leader_open(round_, seed, sums, allowed=allowed)
    with post.working("leader"):
        sealed = post.carry("leader_upload", leader_seal(round_, seed, opened, rng))
    with post.working("party"):
        learned = party_unseal(round_, seed, wire.decode(sealed, SealedSums, sender=round_.leader))
    return learned, sums.roster
