"""The sealed verdict: opened by the parties of the round, by no one else, and as long for any value."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from fheval import wire
from fheval.errors import CapacityError, RemoteProtocolError
from fheval.protocols.round import Ending, PartySecrets, SealedVerdict, Verdict, leader_seal, party_unseal
from fheval.secrets import Secret, Stream, SystemRandomness, new_seed
from protocols.rounds import a_round, again, auc_form

RNG = SystemRandomness()
ROUND = a_round("padded", 4, forms=[auc_form(6, 1 << 24)] * 3, precision=None)
SECRETS = PartySecrets(seed=new_seed(RNG), pad_seed=new_seed(RNG))
VERDICT = Verdict(
    ratios=(Fraction(3, 7), None, 0.1),
    roster=ROUND.parties[:3],
    verified=True,
    soundness_bits=92.0,
    hiding_bits=49,
    answer=bytes(range(32)),
)
NONCE_BYTES = 12


def sealed(verdict: Verdict = VERDICT) -> SealedVerdict:
    return leader_seal(ROUND, SECRETS, verdict, RNG)


def test_every_party_reads_what_the_leader_sealed() -> None:
    received = wire.decode(wire.encode(sealed()), SealedVerdict, sender=ROUND.leader)
    opened = party_unseal(ROUND, SECRETS, received)
    assert opened == Verdict(
        ratios=(Fraction(3, 7), None, Fraction(0.1)),
        roster=VERDICT.roster,
        verified=True,
        soundness_bits=92.0,
        hiding_bits=49,
        answer=bytes(range(32)),
    )


def test_what_the_leader_checked_is_not_checked_by_those_whom_it_tells() -> None:
    told = Verdict(ratios=(Fraction(1, 2),) * 3, roster=ROUND.parties, checked=True)
    assert not party_unseal(ROUND, SECRETS, sealed(told)).checked


@pytest.mark.parametrize("ending", [Ending.UNDEFINED, Ending.REFUSED])
def test_an_end_without_a_result_is_told_as_well_and_why_is_not(ending: Ending) -> None:
    nothing = Verdict(ending=ending, roster=ROUND.parties, error=ValueError("for the opener alone"))
    opened = party_unseal(ROUND, SECRETS, sealed(nothing))
    assert (opened.ending, opened.ratios, opened.error) == (ending, (), None)


def test_a_leader_cannot_speak_for_another_partys_check() -> None:
    forged = sealed(Verdict(ending=Ending.REFUSED_BY_CHECK, roster=ROUND.parties))
    with pytest.raises(RemoteProtocolError, match="altered") as caught:
        party_unseal(ROUND, SECRETS, forged)
    assert caught.value.culprit == ROUND.leader


def test_a_sealed_verdict_that_was_altered_anywhere_is_refused() -> None:
    message = sealed()
    length = len(message.box)
    for box in (
        *(flip(message.box, place) for place in (0, 3, NONCE_BYTES, NONCE_BYTES + 7, length // 2, length - 1)),
        message.box[:-1],
        message.box[1:],
        message.box + b"\0",
        message.box[:NONCE_BYTES],
        message.box[NONCE_BYTES:],
        b"",
    ):
        with pytest.raises(RemoteProtocolError, match="altered or belongs to another round") as caught:
            party_unseal(ROUND, SECRETS, msgspec.structs.replace(message, box=box))
        assert (caught.value.step, caught.value.culprit) == ("SealedVerdict", ROUND.leader)


def flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_the_verdict_of_another_round_is_refused_even_under_this_rounds_name() -> None:
    other = again(ROUND)
    message = leader_seal(other, SECRETS, VERDICT, RNG)
    with pytest.raises(RemoteProtocolError, match="belongs to another round"):
        party_unseal(ROUND, SECRETS, message)
    with pytest.raises(RemoteProtocolError, match="altered or belongs to another round"):
        party_unseal(ROUND, SECRETS, msgspec.structs.replace(message, round=ROUND.id))


def test_the_verdict_of_a_round_with_the_same_name_and_other_terms_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        party_unseal(again(ROUND, id=ROUND.id, precision=1e-3), SECRETS, sealed())


def test_without_the_parties_seed_it_does_not_open() -> None:
    stranger = PartySecrets(seed=Secret(bytes(32)), pad_seed=SECRETS.pad_seed)
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
    usual = Verdict(ratios=(Fraction(1, 2),) * 3, roster=ROUND.parties, hiding_bits=49)
    other = Verdict(ratios=(ratio,) * 3, roster=ROUND.parties, hiding_bits=49)
    assert len(wire.encode(sealed(other))) == len(wire.encode(sealed(usual)))
    opened = party_unseal(ROUND, SECRETS, sealed(other)).ratios[0]
    assert opened == (None if ratio is None else Fraction(ratio))


@pytest.mark.parametrize("digits", [Fraction(0), Fraction(1), Fraction(-4, 10**5), Fraction(99999, 10**5)], ids=str)
def test_decimals_take_little_room_and_always_the_same(digits: Fraction) -> None:
    round_ = again(ROUND, precision=1e-4)
    boxes = [
        leader_seal(round_, SECRETS, Verdict(ratios=ratios, roster=round_.parties, answer=bytes(32)), RNG).box
        for ratios in ((), (digits,) * 3, (None, Fraction(1, 2), digits))
    ]
    assert len({len(box) for box in boxes}) == 1
    assert len(boxes[0]) < len(sealed().box) / 3


def test_its_length_does_not_say_whether_there_is_a_result() -> None:
    endings = [Verdict(ending=ending, roster=ROUND.parties) for ending in (Ending.UNDEFINED, Ending.REFUSED)]
    fewer = Verdict(ratios=(Fraction(1, 2),) * 3, roster=ROUND.parties[1:])
    assert len({len(wire.encode(sealed(each))) for each in (VERDICT, fewer, *endings)}) == 1


@pytest.mark.parametrize("counts", [(0,) * 5, ((1 << 45) - 1,) * 5], ids=["nothing", "most"])
def test_the_most_that_counts_can_be_fits_as_well(counts: tuple[int, ...]) -> None:
    round_ = again(ROUND, batch=None, sums=5)
    told = leader_seal(round_, SECRETS, Verdict(roster=round_.parties, counts=counts), RNG)
    nothing = leader_seal(round_, SECRETS, Verdict(ending=Ending.REFUSED, roster=round_.parties), RNG)
    assert len(told.box) == len(nothing.box)
    assert party_unseal(round_, SECRETS, told).counts == counts


def test_what_does_not_fit_is_refused_and_not_sent_at_another_length() -> None:
    with pytest.raises(CapacityError, match="do not fit"):
        sealed(Verdict(ratios=(Fraction(10**900, 10**900 + 1),) * 3, roster=ROUND.parties))


def test_it_never_looks_the_same_and_shows_no_plaintext() -> None:
    first, second = sealed(), sealed()
    assert first.box[:NONCE_BYTES] != second.box[:NONCE_BYTES]
    assert first.box[NONCE_BYTES:] != second.box[NONCE_BYTES:]
    assert b"hospital-1" not in wire.encode(first)
    assert b"000000" not in first.box
    assert bytes(8) not in first.box


def test_every_round_has_a_key_of_its_own() -> None:
    """Under one key and one nonce, two verdicts would show their difference."""
    first, second = (
        leader_seal(round_, SECRETS, VERDICT, Stream(Secret(bytes(32)))).box for round_ in (ROUND, again(ROUND))
    )
    assert first[:NONCE_BYTES] == second[:NONCE_BYTES]
    assert first[NONCE_BYTES:][:64] != second[NONCE_BYTES:][:64]
