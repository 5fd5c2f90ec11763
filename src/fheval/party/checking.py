"""A party looks for itself: it opens the ciphertexts that the leader of a padded round opened, and compares.

The leader names what it opened by a digest, in the verdict that the aggregator can neither read nor write. A party
opens those very bytes or none: whoever holds the key and saw two blindings of one round would learn more than one
release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest

from fheval.party.verdict import Ending, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a party holds after its own check; `complaint` says why it does not accept, for its own log alone."""

    verdict: Verdict = field(repr=False)
    complaint: str | None = None


def digest_of(answer: bytes) -> bytes:
    """By what name a verdict calls the aggregator's answer."""
    return sha256(answer).digest()


def party_check(told: Verdict, answer: bytes | None, open_answer: Callable[[bytes], Verdict]) -> Checked:
    """Party: accept the leader's verdict if the ciphertexts say the same. `open_answer` decrypts and verifies.

    Learns: what the leader has learnt. Says so to no one: the reply does not depend on what is found.
    """
    if answer is None:
        return _not_accepted(told, "The aggregator left out the ciphertexts, which this vault had asked for.")
    if not compare_digest(digest_of(answer), told.answer):
        return _not_accepted(
            told, "The ciphertexts are not those that the leader says it opened. This vault did not open them."
        )
    found = open_answer(answer)
    if found != replace(told, checked=True):
        return _not_accepted(
            told,
            f"The leader's outcome ({told.ending.value}) is not what this vault finds in the same ciphertexts "
            f"({found.ending.value}). Ask the other members what they hold.",
        )
    return Checked(verdict=found)


def _not_accepted(told: Verdict, complaint: str) -> Checked:
    # Not `REFUSED`, which is the leader's word for all: others may well have got a result.
    verdict = Verdict(ending=Ending.REFUSED_BY_CHECK, roster=told.roster, answer=told.answer)
    return Checked(verdict=verdict, complaint=complaint)
