"""A party that is neither leader nor checker gives the aggregator all it has: of others' counts they know nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fheval.engines import Engine
from fheval.protocols import PROTOCOLS, padding
from fheval.protocols.base import Protocol
from fheval.protocols.padding import UPLOAD, PadLimbs
from fheval.protocols.round import PartySecrets, Round, leader_set_up
from fheval.secrets import Secret, SystemRandomness
from fheval_lab.attacks import Consortium
from fheval_lab.attacks.collusion import PRIMES, RING_BITS, collude, compare_joint_views, moduli
from fheval_lab.attacks.consortium import fresh_stream
from fheval_lab.clear import ClearEngine

PADDED = ("padded", "padded-verified")
PAPER = ("paper-semi-honest", "paper-malicious")
CLEAR: Engine = ClearEngine()


def everyone_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """As keys were handed out before: what the leader made, to all parties."""

    def secrets_of(protocol: Protocol, round_: Round, leaders: PartySecrets, party: str) -> PartySecrets:
        return replace(leaders, pad_seed=leaders.pad_seed_of(party))

    monkeypatch.setattr(Protocol, "secrets_of", secrets_of)


def one_pad_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = padding.pad

    def pad(
        seed: Secret[bytes], round_: Round, nonce: bytes, values: int, usage: str = UPLOAD, bits: int = 128
    ) -> PadLimbs:
        return honest(Secret(bytes(32)), round_, bytes(16), values, usage, bits)

    monkeypatch.setattr(padding, "pad", pad)


@pytest.mark.parametrize("protocol", PADDED)
def test_nothing_is_recognised_or_opened(protocol: str) -> None:
    recognised, opened = collude(Consortium(protocol=protocol), CLEAR)
    assert (recognised.right, opened.right) == (0, 0)
    assert recognised.holds
    assert opened.holds
    assert min(recognised.tries, opened.tries) >= 9


@pytest.mark.parametrize("protocol", PADDED)
def test_with_shared_secrets_everything_would_be(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    everyone_gets_everything(monkeypatch)
    for leak in collude(Consortium(protocol=protocol), CLEAR):
        assert leak.right == leak.tries > 0
        assert not leak.holds


# Numbers of a field are hidden in it, counts in a ring.
TRIED_OUT = [("padded", 1 << RING_BITS), *(("padded-verified", prime) for prime in PRIMES)]


def test_each_protocol_is_tried_out_where_it_hides_numbers() -> None:
    assert [(name, modulus) for name in PADDED for modulus in moduli(Consortium(protocol=name), CLEAR)] == TRIED_OUT


@pytest.mark.parametrize(("protocol", "modulus"), TRIED_OUT)
def test_modulo_something_small_the_joint_view_is_the_same_for_all_counts(protocol: str, modulus: int) -> None:
    found = compare_joint_views(protocol, CLEAR, modulus)
    # The upload itself, less four pads from two seeds, less the traitor's own pad.
    assert len(found) == 6
    assert all(likeness.holds for likeness in found)


@pytest.mark.parametrize(("protocol", "modulus"), TRIED_OUT)
@pytest.mark.parametrize("weakened", [everyone_gets_everything, one_pad_for_all])
def test_modulo_something_small_shared_seeds_or_pads_would_show(
    monkeypatch: pytest.MonkeyPatch, weakened: object, protocol: str, modulus: int
) -> None:
    assert callable(weakened)
    weakened(monkeypatch)
    assert not all(likeness.holds for likeness in compare_joint_views(protocol, CLEAR, modulus))


# Who gets what


def handed_out(protocol: str, checkers: tuple[str, ...] = (), sums: int = 0) -> dict[str, PartySecrets]:
    round_ = Consortium(protocol=protocol).round(CLEAR, fresh_stream())
    round_ = replace(round_, checkers=checkers, sums=sums, batch=None if sums else round_.batch)
    chosen = PROTOCOLS[protocol].of_round(round_)
    leaders, _ = leader_set_up(CLEAR, round_, PROTOCOLS[protocol].parameter_sets(round_) if not sums else [], RNG)
    return {party: chosen.secrets_of(round_, leaders, party) for party in round_.parties}


RNG = SystemRandomness()


@pytest.mark.parametrize("protocol", PADDED)
def test_leader_and_checkers_hold_the_keys_and_the_leader_alone_the_master(protocol: str) -> None:
    found = handed_out(protocol, checkers=("party-3", "stranger"))
    assert [party for party, each in found.items() if each.keys] == ["party-1", "party-3"]
    assert [party for party, each in found.items() if each.master] == ["party-1"]
    assert len({each.seed.reveal() for each in found.values()}) == 1
    assert len({each.pad_seed.reveal() for each in found.values()}) == len(found)


@pytest.mark.parametrize("protocol", PADDED)
def test_who_checks_counts_takes_off_pads(protocol: str) -> None:
    found = handed_out(protocol, checkers=("party-3",), sums=5)
    assert [party for party, each in found.items() if each.master] == ["party-1", "party-3"]


@pytest.mark.parametrize("protocol", PAPER)
def test_in_the_papers_protocols_every_party_holds_the_keys(protocol: str) -> None:
    found = handed_out(protocol)
    assert all(each.keys for each in found.values())
    assert [party for party, each in found.items() if each.master] == ["party-1"]
