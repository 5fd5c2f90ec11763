"""Attacks on `committee`: lies of the aggregator, coalitions in a small field; and what each guard is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from engine_roles import engine_named
from fheval.engines.parameters import plain_moduli
from fheval.errors import ConfigError, EngineError, RemoteProtocolError
from fheval.protocols import PROTOCOLS, committee_member, padding, pairwise
from fheval.protocols.base import Seat, Stage
from fheval.protocols.committee_messages import CommitteeCounts, Crossing, Mixed, MixNotice, Offer
from fheval.protocols.committee_numbers import OwnNumbers
from fheval.protocols.padding import UploadSum, leader_pad_sums, pack
from fheval.protocols.play import Members
from fheval.secrets import SystemRandomness
from fheval.wire import decode, encode
from fheval_lab.attacks import coalitions
from fheval_lab.attacks.active_members import DeviatingMember, deviate
from fheval_lab.attacks.chance import IMPLAUSIBLE
from fheval_lab.attacks.committee_adversary import TwoRosters, WrongSum
from fheval_lab.attacks.consortium import Consortium
from fheval_lab.attacks.strategy import Strategy
from fheval_lab.attacks.suite import adversary, run_suite
from fheval_lab.clear import ClearEngine

CLEAR = ClearEngine()
CONSORTIUM = Consortium(protocol="committee", decision_points=5)


def test_every_strategy_is_caught() -> None:
    """Also what would be harmless elsewhere: nothing but what was signed is taken."""
    for tally in run_suite(CONSORTIUM, CLEAR, tries=2):
        assert tally.worst_shift < 1e-9, tally.name
        assert tally.caught == tally.tries, tally.name


@pytest.mark.parametrize("kind", [WrongSum, type("ToOne", (WrongSum,), {"to_all": False}), TwoRosters])
def test_wrong_sums_and_two_rosters_are_refused(kind: type[Any]) -> None:
    attacked = CONSORTIUM.attacked(CLEAR, SystemRandomness())
    with pytest.raises(RemoteProtocolError):
        attacked.answer_of(kind)


@pytest.mark.parametrize(
    "name", ["clear", *(pytest.param(name, marks=pytest.mark.slow) for name in ("seal", "openfhe"))]
)
def test_malformed_keys_and_offers_end_the_round_before_anything_is_given(name: str) -> None:
    try:
        engine = engine_named(name)
    except (ConfigError, EngineError):
        pytest.skip(f"{name} is not installed here")
    found = list(deviate(CONSORTIUM, engine))
    assert len(found) == (13 if name == "clear" else 20)
    assert all(each.holds for each in found), [each for each in found if not each.holds]


def test_a_member_that_does_not_deviate_is_not_caught() -> None:
    rng = SystemRandomness()
    round_ = CONSORTIUM.round(CLEAR, rng)
    members = DeviatingMember(PROTOCOLS["committee"], CLEAR, round_, CONSORTIUM.contributions(), rng)
    found = members.outcome_of("nothing", adversary(PROTOCOLS["committee"], Strategy), Stage.PADS)
    assert (found.caught, found.given, found.holds) == (False, True, False)


# Each guard: without it, one of these succeeds


def shifted(kind: type[Any]) -> float:
    """How far an attack moves the AUC that a party accepts."""
    attacked = CONSORTIUM.attacked(CLEAR, SystemRandomness())
    (ratio,) = attacked.open(attacked.answer_of(kind)).ratios
    assert ratio is not None
    return abs(float(ratio) - float(CONSORTIUM.true_auc()))


class AddsToAnUpload(Strategy):
    """The first party's upload is changed before anybody sees it, and announced as it is then."""

    name = "add-to-upload"
    summary = "add to a party's upload"

    def choose_uploads(self, mail: Any) -> list[Any]:
        first, *others = mail.inbox
        values = tuple(with_more(each, prime) for each, prime in zip(first.values, primes(first.values), strict=True))
        return [msgspec.structs.replace(first, values=values), *others]


def test_without_signatures_an_upload_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = adversary(PROTOCOLS["committee"], AddsToAnUpload)
    with pytest.raises(RemoteProtocolError):
        shifted(kind)
    monkeypatch.setattr(Seat, "require_signed", lambda *_: None)
    assert shifted(kind) > 1e-3


class AddsToTheSum(WrongSum):
    """Shows all members the same wrong uploads, and the digests that were announced."""

    def _wrong(self, body: bytes) -> bytes:
        notice = decode(body, MixNotice, sender="")
        size = len(notice.values[0]) // len(notice.roster)
        values = tuple(
            with_more(each[:size], prime) + bytes(each[size:])
            for each, prime in zip(notice.values, primes(notice.values), strict=True)
        )
        return encode(msgspec.structs.replace(notice, values=values))


def test_without_the_check_of_uploads_the_sum_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference that the aggregator adds to the sum is a difference of the counts that are evaluated."""
    with pytest.raises(RemoteProtocolError):
        shifted(AddsToTheSum)
    monkeypatch.setattr(committee_member, "compare_digest", lambda *_: True)
    assert shifted(AddsToTheSum) > 1e-3


def primes(values: Sequence[bytes]) -> tuple[int, ...]:
    return plain_moduli(len(values))


def with_more(values: bytes, prime: int) -> bytes:
    """Add 1000 to the last number of an upload."""
    total = UploadSum(2 * (CONSORTIUM.decision_points - 1))
    total.add(bytes(values), "")
    (numbers,) = total.totals([prime])
    numbers[-1] = (numbers[-1] + np.uint64(1000)) % np.uint64(prime)
    return pack([numbers])


# Coalitions


@pytest.mark.parametrize("rounded", [False, True])
def test_a_coalition_of_all_members_but_one_sees_nothing(rounded: bool) -> None:
    for line in coalitions.compare_coalitions(101, rounded, rounds=4):
        assert line.holds, line.name


def broken(rounded: bool = False) -> set[str]:
    """What depends on the data, of what a coalition sees."""
    return {line.name for line in coalitions.compare_coalitions(101, rounded, rounds=3) if line.chance < IMPLAUSIBLE}


def zeros(shape: Any) -> Any:
    return lambda self, *arguments: np.zeros_like(shape(self, *arguments))


def test_without_rho_the_sum_of_all_counts_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnNumbers, "rho", zeros(OwnNumbers.rho))
    assert any("sum" in name for name in broken())


def told_of_num_and_den(members: Members, protocol: coalitions.SmallCommittee) -> tuple[Any, Any]:
    """What all members tell of num and den at `mix`, added up, and what num and den are, modulo 101."""
    layout, round_ = protocol.lay_out(members.round), members.round
    told = [decode(members.said[each][Stage.MIX], Mixed, sender="") for each in protocol.keepers(round_)]
    shares = [committee_member.read_residues(each.values, 4 * layout.plan.forms, 101, "") for each in told]
    summed = np.add.reduce([each[: 2 * layout.plan.forms] for each in shares]) % np.uint64(101)
    total = np.add.reduce([each.table.reshape(-1) for each in members.contributions.values()]) % 101
    table = total.astype(np.uint64)
    factors = layout.left(table, 101, one=1), layout.right(table, 101, one=1)
    return summed, layout.plan.products_of(*factors, 101).reshape(-1)


def test_without_masks_of_the_shares_num_and_den_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """What members tell at `mix` adds up to num and den less Σ u_i: without u, everybody who relays it reads them."""
    protocol = coalitions.SmallCommittee(101)
    told, right = told_of_num_and_den(coalitions.played_members(protocol, rounded=False, count=3), protocol)
    assert np.mean(told == right) < 0.5
    monkeypatch.setattr(OwnNumbers, "masks", zeros(OwnNumbers.masks))
    told, right = told_of_num_and_den(coalitions.played_members(protocol, rounded=False, count=3), protocol)
    assert np.array_equal(told, right)


def returned_products(members: Members, protocol: coalitions.SmallCommittee) -> tuple[Any, Any]:
    """What the second member decrypts of the first's pads: sums over groups, and the products ⟨ρ, −R⟩ themselves."""
    layout, round_ = protocol.lay_out(members.round), members.round
    me, other, *_ = protocol.keepers(round_)
    crossing = decode(members.said[me][Stage.PADS], Crossing, sender="")
    holder = CLEAR.key_holder(layout.parameters[0], members.made[other].keys[0])
    got, _, _ = layout.plan.split(layout.plan.sums(np.asarray(holder.decrypt(crossing.returns[1][0][0])), 101))
    left, right = factors_of(members, protocol)
    return got, layout.plan.products_of(left, (np.uint64(101) - right) % np.uint64(101), 101)


def test_without_offsets_a_member_reads_products_with_anothers_pads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own ρ, which it knows or chose, each is an equation about the other's pads."""
    protocol = coalitions.SmallCommittee(101)
    got, products = returned_products(coalitions.played_members(protocol, rounded=False, count=3), protocol)
    assert np.mean(got == products) < 0.5
    monkeypatch.setattr(OwnNumbers, "offsets", zeros(OwnNumbers.offsets))
    got, products = returned_products(coalitions.played_members(protocol, rounded=False, count=3), protocol)
    assert np.array_equal(got, products)


def opened_by(attacked: Any) -> set[str]:
    """Who gave its share."""
    return {name for name, said in attacked.said.items() if Stage.OPEN in said}


def test_without_comparing_digests_members_open_what_each_was_shown_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is shown all uploads, and the others all but one: both are signed, and only comparing tells."""
    attacked = CONSORTIUM.attacked(CLEAR, SystemRandomness())
    with pytest.raises(RemoteProtocolError):
        attacked.answer_of(TwoRosters)
    assert opened_by(attacked) == set()
    monkeypatch.setattr(committee_member, "compare_digest", lambda *_: True)
    attacked = CONSORTIUM.attacked(CLEAR, SystemRandomness())
    attacked.answer_of(TwoRosters)
    assert opened_by(attacked) == set(PROTOCOLS["committee"].keepers(attacked.round))


def factors_of(members: Members, protocol: coalitions.SmallCommittee) -> tuple[Any, Any]:
    """The second member's ρ as left factors, and the first member's pads as right ones."""
    layout, round_ = protocol.lay_out(members.round), members.round
    me, other, *_ = protocol.keepers(round_)
    nonce = decode(members.said[other][Stage.OFFER], Offer, sender="").nonce
    rho = OwnNumbers(layout, round_, members.secrets_of(other), 1, nonce).rho(0)
    uploads = [decode(members.said[party][Stage.SUBMIT], CommitteeCounts, sender="") for party in round_.parties]
    nonces = b"".join(each.nonce for each in uploads)
    (pads,) = leader_pad_sums(round_, members.made[me], round_.parties, nonces, [101], layout.batch.size)
    return layout.left(rho, 101, one=0), layout.right(pads, 101, one=0)


def pads_from_returns(members: Members, protocol: coalitions.SmallCommittee) -> float:
    """The share of the first member's pads that the second reads from what it got back, dividing by its own ρ."""
    layout, round_ = protocol.lay_out(members.round), members.round
    me, other, *_ = protocol.keepers(round_)
    crossing = decode(members.said[me][Stage.PADS], Crossing, sender="")
    holder = CLEAR.key_holder(layout.parameters[0], members.made[other].keys[0])
    slots = np.asarray(holder.decrypt(crossing.returns[1][0][0])[: layout.plan.products], dtype=np.uint64)
    left, right = factors_of(members, protocol)
    expected = (np.uint64(101) - left * right % np.uint64(101)) % np.uint64(101)
    return float(np.mean(slots[left > 0] == expected[left > 0]))


def test_without_masks_in_the_slots_a_member_reads_anothers_pads(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = coalitions.SmallCommittee(101)
    read = []
    for broken_masks in (False, True):
        if broken_masks:
            monkeypatch.setattr(pairwise, "residues", lambda _, __, count: np.zeros(count, dtype=np.uint64))
        members = coalitions.played_members(protocol, rounded=False, count=3)
        read.append(pads_from_returns(members, protocol))
    assert read[0] < 0.5
    assert read[1] == 1.0


def test_without_pads_the_upload_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    real = padding.pad
    monkeypatch.setattr(padding, "pad", lambda *arguments: np.zeros_like(real(*arguments)))
    monkeypatch.setattr(coalitions, "pad", lambda *arguments: np.zeros_like(real(*arguments)))
    assert any("upload" in name for name in broken())
