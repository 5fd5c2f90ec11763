"""What a round came to, and how the leader tells the parties through an aggregator that must not learn it.

A verdict is filled up to a length that depends on the round's description alone. So the aggregator sees neither the
result nor whether there is one: a rejected answer looks like an accepted one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fheval.errors import CapacityError, RemoteProtocolError
from fheval.party.messages import SealedVerdict
from fheval.protocols.round import Outcome, PartySecrets, Round, from_this_round
from fheval.secrets import Randomness, derive

_NONCE_BYTES = 12
_LENGTH_BYTES = 4

# The largest ratios are doubles, with up to 2^1074 below the line: 324 digits each, a sign, and msgpack's lengths.
_RATIO_BYTES = 704
_FIXED_BYTES = 256


class Ending(str, Enum):
    """How a round ended for a party. The last one is never the leader's: a party's own check spoke against it."""

    RELEASED = "released"
    UNDEFINED = "undefined"
    REFUSED = "refused"
    REFUSED_BY_CHECK = "refused by check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a party holds at the end: the ratios that were released, or none. It does not print them.

    `answer` is the digest of the aggregator's answer, as it was opened; `checked` whether the holder of this verdict
    opened it itself, and does not rely on the leader's word.
    """

    ending: Ending
    roster: tuple[str, ...]
    ratios: tuple[Fraction | None, ...] = ()
    verified: bool | None = None
    soundness_bits: float | None = None
    hiding_bits: int | None = None
    answer: bytes = b""
    checked: bool = False

    @classmethod
    def released(cls, outcome: Outcome) -> Verdict:
        """What the protocol gave."""
        return cls(
            ending=Ending.RELEASED,
            roster=outcome.roster,
            ratios=tuple(None if ratio is None else Fraction(ratio) for ratio in outcome.ratios),
            verified=outcome.verified,
            soundness_bits=outcome.soundness_bits,
            hiding_bits=outcome.hiding_bits,
        )

    def __repr__(self) -> str:
        return f"<Verdict over {len(self.roster)} parties>"


class _Plain(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    ending: Ending
    roster: tuple[str, ...]
    ratios: tuple[tuple[str, str] | None, ...]
    verified: bool | None
    soundness_bits: float | None
    hiding_bits: int | None
    # What was written before there were checks has neither.
    answer: bytes = b""
    checked: bool = False


def verdict_to_bytes(verdict: Verdict) -> bytes:
    """Write a verdict for the ledger."""
    return msgspec.msgpack.encode(_plain(verdict))


def verdict_from_bytes(data: bytes) -> Verdict:
    """Read what `verdict_to_bytes` wrote."""
    return _verdict(msgspec.msgpack.decode(data, type=_Plain))


def leader_seal(round_: Round, secrets: PartySecrets, verdict: Verdict, rng: Randomness) -> SealedVerdict:
    """Leader: seal the verdict for the parties of the round."""
    content = verdict_to_bytes(verdict)
    room = _room(round_)
    if len(content) > room:
        raise CapacityError("A verdict is longer than its seal. Ask for fewer numbers in one round.")
    filled = len(content).to_bytes(_LENGTH_BYTES, "big") + content.ljust(room, b"\0")
    nonce = rng.draw(_NONCE_BYTES)
    return SealedVerdict(
        round=round_.id, nonce=nonce, sealed=_cipher(round_, secrets).encrypt(nonce, filled, round_.digest())
    )


def party_unseal(round_: Round, secrets: PartySecrets, message: SealedVerdict) -> Verdict:
    """Party: open the verdict; anything that was not sealed for this very round is refused."""
    from_this_round(round_, message.round, round_.leader, "SealedVerdict")
    try:
        filled = _cipher(round_, secrets).decrypt(message.nonce, message.sealed, round_.digest())
        length = int.from_bytes(filled[:_LENGTH_BYTES], "big")
        told = verdict_from_bytes(filled[_LENGTH_BYTES : _LENGTH_BYTES + length])
        if told.ending is Ending.REFUSED_BY_CHECK:
            raise ValueError("a leader has nothing to check")
        # The leader opened the answer, and this party has not.
        return replace(told, checked=False)
    except (InvalidTag, msgspec.DecodeError, ValueError, ZeroDivisionError):
        raise RemoteProtocolError(
            "The sealed verdict was altered or belongs to another round. Ask the leader to send it again.",
            step="SealedVerdict",
            culprit=round_.leader,
        ) from None


def _plain(verdict: Verdict) -> _Plain:
    ratios = tuple(
        None if ratio is None else (str(ratio.numerator), str(ratio.denominator)) for ratio in verdict.ratios
    )
    return _Plain(
        verdict.ending,
        verdict.roster,
        ratios,
        verdict.verified,
        verdict.soundness_bits,
        verdict.hiding_bits,
        verdict.answer,
        verdict.checked,
    )


def _verdict(plain: _Plain) -> Verdict:
    ratios = tuple(None if ratio is None else Fraction(int(ratio[0]), int(ratio[1])) for ratio in plain.ratios)
    return Verdict(
        ending=plain.ending,
        roster=plain.roster,
        ratios=ratios,
        verified=plain.verified,
        soundness_bits=plain.soundness_bits,
        hiding_bits=plain.hiding_bits,
        answer=plain.answer,
        checked=plain.checked,
    )


def _room(round_: Round) -> int:
    """How long the content may be: enough for every ratio and every party, whatever comes out."""
    names = sum(len(party.encode()) + 5 for party in round_.parties)
    return _FIXED_BYTES + names + _RATIO_BYTES * len(round_.forms)


def _cipher(round_: Round, secrets: PartySecrets) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(secrets.seed, "vault/verdict", round_.digest()).draw(32))
