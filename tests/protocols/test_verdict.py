"""The sealed outcome: opened by the parties of the round, by no one else, and as long for any value."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from fheval import wire
from fheval.errors import RemoteProtocolError
from fheval.protocols.broadcast import SealedOutcome, leader_seal, party_unseal
from fheval.protocols.round import Outcome, PartySecrets
from fheval.secrets import Secret, Stream, SystemRandomness, new_seed
from protocols.rounds import a_round, again

RNG = SystemRandomness()
ROUND = a_round("padded", 4)
SECRETS = PartySecrets(keys=(), seed=new_seed(RNG))
OUTCOME = Outcome(
    ratios=(Fraction(3, 7), None, 0.1), roster=ROUND.parties[:3], verified=True, soundness_bits=92.0, hiding_bits=49
)


def sealed(outcome: Outcome = OUTCOME) -> SealedOutcome:
    return leader_seal(ROUND, SECRETS, outcome, RNG)


def test_every_party_reads_what_the_leader_sealed() -> None:
    received = wire.decode(wire.encode(sealed()), SealedOutcome, sender=ROUND.leader)
    opened = party_unseal(ROUND, SECRETS, received)
    assert opened == Outcome(
        ratios=(Fraction(3, 7), None, Fraction(0.1)),
        roster=OUTCOME.roster,
        verified=True,
        soundness_bits=92.0,
        hiding_bits=49,
    )


def test_a_sealed_outcome_that_was_altered_anywhere_is_refused() -> None:
    message = sealed()
    length = len(message.sealed)
    flipped = [flip(message.sealed, place) for place in (0, 7, length // 2, length - 1)]
    for changes in (
        *({"sealed": data} for data in flipped),
        {"sealed": message.sealed[:-1]},
        {"sealed": message.sealed + b"\0"},
        {"sealed": b""},
        {"nonce": flip(message.nonce, 3)},
        {"nonce": message.nonce[:-1]},
        {"nonce": b""},
    ):
        with pytest.raises(RemoteProtocolError, match="altered or belongs to another round") as caught:
            party_unseal(ROUND, SECRETS, msgspec.structs.replace(message, **changes))
        assert (caught.value.step, caught.value.culprit) == ("SealedOutcome", ROUND.leader)


def flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_the_outcome_of_another_round_is_refused_even_under_this_rounds_name() -> None:
    other = again(ROUND)
    message = leader_seal(other, SECRETS, OUTCOME, RNG)
    with pytest.raises(RemoteProtocolError, match="belongs to another round"):
        party_unseal(ROUND, SECRETS, message)
    with pytest.raises(RemoteProtocolError, match="altered or belongs to another round"):
        party_unseal(ROUND, SECRETS, msgspec.structs.replace(message, round=ROUND.id))


def test_the_outcome_of_a_round_with_the_same_name_and_other_terms_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        party_unseal(again(ROUND, id=ROUND.id, precision=1e-3), SECRETS, sealed())


def test_without_the_parties_seed_it_does_not_open() -> None:
    stranger = PartySecrets(keys=(), seed=Secret(bytes(32)))
    with pytest.raises(RemoteProtocolError):
        party_unseal(ROUND, stranger, sealed())


@pytest.mark.parametrize(
    "ratio",
    [
        Fraction(0),
        Fraction(1),
        Fraction(1, 3),
        Fraction(-1, 10**6),
        Fraction(2**735 - 1, 2**736 - 3),
        0.1,
        5e-324,
        None,
    ],
    ids=str,
)
def test_its_length_says_nothing_about_the_value(ratio: Fraction | float | None) -> None:
    usual = Outcome(ratios=(Fraction(1, 2),), roster=ROUND.parties, hiding_bits=49)
    other = Outcome(ratios=(ratio,), roster=ROUND.parties, hiding_bits=49)
    assert len(wire.encode(sealed(other))) == len(wire.encode(sealed(usual)))
    opened = party_unseal(ROUND, SECRETS, sealed(other)).ratios[0]
    assert opened == (None if ratio is None else Fraction(ratio))


def test_it_never_looks_the_same_and_shows_no_plaintext() -> None:
    first, second = sealed(), sealed()
    assert first.nonce != second.nonce
    assert first.sealed != second.sealed
    assert b"hospital-1" not in wire.encode(first)
    assert b"000000" not in first.sealed


def test_every_round_has_a_key_of_its_own() -> None:
    """Under one key and one nonce, two outcomes would show their difference."""
    first, second = (
        leader_seal(round_, SECRETS, OUTCOME, Stream(Secret(bytes(32)))) for round_ in (ROUND, again(ROUND))
    )
    assert first.nonce == second.nonce
    assert first.sealed[:64] != second.sealed[:64]
