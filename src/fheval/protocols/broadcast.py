"""The leader tells the parties the outcome, through an aggregator that must not learn it."""

from __future__ import annotations

from fractions import Fraction

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fheval.errors import RemoteProtocolError
from fheval.protocols.round import Outcome, PartySecrets, Round, from_this_round
from fheval.secrets import Randomness, derive
from fheval.wire import Message

_NONCE_BYTES = 12


class SealedOutcome(Message, frozen=True, kw_only=True):
    """Last step, leader to all parties: the outcome under a key that only the parties can derive."""

    round: str
    nonce: bytes
    sealed: bytes


class _Plain(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    ratios: tuple[tuple[str, str], ...]
    roster: tuple[str, ...]
    verified: bool | None
    soundness_bits: float | None
    hiding_bits: int | None


def _cipher(round_: Round, secrets: PartySecrets) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(secrets.seed, "broadcast", round_.digest()).draw(32))


def leader_seal(round_: Round, secrets: PartySecrets, outcome: Outcome, rng: Randomness) -> SealedOutcome:
    """Seal the outcome for all parties of the round.

    It is filled up to a fixed size a ratio, so that its length says neither the value nor whether there is one.
    """
    plain = _Plain(
        tuple(_written(ratio) for ratio in outcome.ratios),
        outcome.roster,
        outcome.verified,
        outcome.soundness_bits,
        outcome.hiding_bits,
    )
    nonce = rng.draw(_NONCE_BYTES)
    sealed = _cipher(round_, secrets).encrypt(nonce, msgspec.msgpack.encode(plain), round_.digest())
    return SealedOutcome(round=round_.id, nonce=nonce, sealed=sealed)


def _written(ratio: Fraction | float | None) -> tuple[str, str]:
    # No fraction has the denominator zero, which therefore stands for no ratio at all.
    top, bottom = (0, 0) if ratio is None else Fraction(ratio).as_integer_ratio()
    return _digits(top), _digits(bottom)


def _read(top: str, bottom: str) -> Fraction | None:
    return Fraction(int(top), int(bottom)) if int(bottom) else None


def _digits(number: int) -> str:
    # X and Z have at most 16 primes of 46 bits; a double's denominator has at most 2^1074.
    return f"{number:+0330d}"


def party_unseal(round_: Round, secrets: PartySecrets, message: SealedOutcome) -> Outcome:
    """Open the outcome; anything that the leader did not seal for this very round is refused."""
    from_this_round(round_, message.round, round_.leader, "SealedOutcome")
    try:
        data = _cipher(round_, secrets).decrypt(message.nonce, message.sealed, round_.digest())
        plain = msgspec.msgpack.decode(data, type=_Plain)
    except (InvalidTag, msgspec.DecodeError, ValueError) as error:
        raise RemoteProtocolError(
            "The sealed outcome was altered or belongs to another round. Ask the leader to send it again.",
            step="SealedOutcome",
            culprit=round_.leader,
        ) from error
    return Outcome(
        ratios=tuple(_read(top, bottom) for top, bottom in plain.ratios),
        roster=plain.roster,
        verified=plain.verified,
        soundness_bits=plain.soundness_bits,
        hiding_bits=plain.hiding_bits,
    )
