"""Every strategy against every protocol: caught where a protocol claims it, and shown to forge where none does."""

from __future__ import annotations

import pytest

from fheval.engines import load_engine
from fheval.errors import ConfigError, RemoteProtocolError, VerificationFailed
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import RoundFailed
from fheval.protocols.play import Members
from fheval.secrets import SystemRandomness
from fheval_lab.attacks import STRATEGIES, Consortium, run_suite, strategies_named
from fheval_lab.attacks.on_parties import DropParty, SwapParties
from fheval_lab.attacks.on_slots import ScaleAll
from fheval_lab.attacks.strategy import Strategy
from fheval_lab.attacks.suite import HARMLESS, Tally, adversary
from fheval_lab.clear import ClearEngine

TRIES = 10

RESISTANT = {"padded-verified", "paper-malicious"}
# Whose members check what the aggregator passes on, so that nothing is opened that was altered.
CHECKED = {"committee"}

# What no protocol takes: content that does not load, no content, and who was there told in two ways.
NEVER_TAKEN = {"nothing", "deny-dropout"}
# What moves the AUC by less than the width of the rounding that `padded` releases.
SMALL = {"swap-parties", "nudge"}

# What weighs products of one number apart: with pads their own products come as one sum, which does not take part, so
# that a number without meaning comes out, and out of range.
APART = {"zero-slot", "scale-slot", "scale-all-but-anchor"}


class FollowTheProtocol(Strategy):
    """What every strategy is that overrides nothing."""

    name = "honest"
    summary = "follow the protocol"


def forged_somewhere(tallies: list[Tally]) -> set[str]:
    return {tally.name for tally in tallies if tally.worst_shift >= HARMLESS}


@pytest.mark.parametrize("protocol", sorted(RESISTANT | CHECKED))
def test_a_resistant_protocol_accepts_no_forged_result(protocol: str) -> None:
    tallies = run_suite(Consortium(protocol=protocol), ClearEngine(), tries=TRIES)
    claimed = [tally for tally in tallies if tally.claimed]
    assert len(claimed) >= 18
    assert not forged_somewhere(claimed)
    unseen = {tally.name for tally in claimed if tally.caught == 0}
    assert unseen == (set() if protocol in CHECKED else {"swap-parties"})


@pytest.mark.parametrize("protocol", sorted(set(PROTOCOLS) - RESISTANT - CHECKED))
def test_a_protocol_for_a_semi_honest_aggregator_is_forgeable(protocol: str) -> None:
    tallies = run_suite(Consortium(protocol=protocol), ClearEngine(), tries=TRIES)
    expected = {tally.name for tally in tallies} - NEVER_TAKEN - SMALL - (APART if protocol == "padded" else set())
    assert len(expected) >= 10
    assert forged_somewhere(tallies) >= expected - {"garbage"}
    assert not any(tally.broke_the_claim for tally in tallies)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_strategy_on_a_real_engine(protocol: str) -> None:
    """On the one that is the default here; the statistics above need no ciphertexts."""
    tallies = run_suite(Consortium(protocol=protocol, parties=3, decision_points=8), load_engine(), tries=1)
    suitable = {strategy.name for strategy in STRATEGIES if strategy.suits(PROTOCOLS[protocol])}
    assert {tally.name for tally in tallies} == suitable
    if protocol in RESISTANT | CHECKED:
        assert not forged_somewhere([tally for tally in tallies if tally.claimed])
    else:
        assert {"scale-all", "mix-sides", "constants"} <= forged_somewhere(tallies)
    (swapped,) = (tally for tally in tallies if tally.name == SwapParties.name)
    assert swapped.caught == (1 if protocol in CHECKED else 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_adversary_that_follows_the_protocol_is_never_caught(protocol: str) -> None:
    """Were it caught, the others would be caught for the adversary's own clumsiness."""
    (tally,) = run_suite(Consortium(protocol=protocol), ClearEngine(), [FollowTheProtocol], tries=TRIES)
    assert tally.caught == 0
    assert tally.worst_shift <= (5.1e-5 if protocol == "padded" else 1e-9)


@pytest.mark.parametrize("protocol", sorted(RESISTANT))
@pytest.mark.parametrize("strategy", [DropParty, ScaleAll])
def test_the_protocols_own_run_catches_it_too(protocol: str, strategy: type[Strategy]) -> None:
    consortium, engine, rng = Consortium(protocol=protocol), ClearEngine(), SystemRandomness()
    round_, contributions = consortium.round(engine, rng), consortium.contributions()
    members = Members(PROTOCOLS[protocol], engine, round_, contributions, rng)
    assert float(members.play().ratio()) == pytest.approx(float(consortium.true_auc()), abs=1e-9)
    with pytest.raises(VerificationFailed):
        members.play(adversary(PROTOCOLS[protocol], strategy))


@pytest.mark.parametrize("protocol", sorted(RESISTANT))
def test_a_party_dropped_from_large_data_is_missed(protocol: str) -> None:
    """As large as the paper's largest: masks that are small beside the counts would not show at five decimals."""
    consortium = Consortium(protocol=protocol, decision_points=100)
    attacked = consortium.attacked(ClearEngine(), SystemRandomness(), size=458)
    assert float(attacked.outcome(adversary(PROTOCOLS[protocol], FollowTheProtocol)).ratio()) == pytest.approx(
        float(consortium.true_auc()), abs=1e-7
    )
    for strategy in strategies_named(["drop-party", "count-twice", "inject"]):
        with pytest.raises(VerificationFailed):
            attacked.outcome(adversary(PROTOCOLS[protocol], strategy))


def test_a_dropout_that_only_the_leader_hears_of_is_refused() -> None:
    """A result over three parties must not pass for one over four."""
    (strategy,) = strategies_named(["deny-dropout"])
    for protocol in ("padded", "padded-verified"):
        attacked = Consortium(protocol=protocol).attacked(ClearEngine(), SystemRandomness())
        with pytest.raises(RemoteProtocolError, match="names other parties"):
            attacked.outcome(adversary(PROTOCOLS[protocol], strategy))


def test_strategies_have_names_of_their_own() -> None:
    names = [strategy.name for strategy in STRATEGIES]
    assert len(set(names)) == len(names) >= 18
    assert [strategy.name for strategy in strategies_named([])] == names


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ConfigError, match="no strategy 'bribe'"):
        strategies_named(["bribe"])


def test_an_adversary_that_stumbles_is_a_bug_and_not_a_catch() -> None:
    class Stumbles(FollowTheProtocol):
        def constants(self) -> tuple[int, int] | None:
            raise RemoteProtocolError("Stumbled.", step="attack", culprit="us")

    with pytest.raises(RoundFailed, match="Stumbled"):
        run_suite(Consortium(protocol="paper-malicious"), ClearEngine(), [Stumbles], tries=1)


@pytest.mark.parametrize(("claimed", "shift", "broken"), [(True, 2e-5, True), (True, 9e-6, False), (False, 0.3, False)])
def test_a_claim_breaks_when_a_forged_result_is_accepted(claimed: bool, shift: float, broken: bool) -> None:
    tally = Tally(name="any", summary="any", claimed=claimed)
    tally.note_caught(VerificationFailed)
    tally.note_accepted(shift)
    tally.note_accepted(0.0)
    assert (tally.tries, tally.caught, tally.worst_shift) == (3, 1, shift)
    assert tally.broke_the_claim is broken


def test_a_replay_comes_under_the_same_keys() -> None:
    """Under other keys it would be caught by the keys alone, and nothing be said about the protocol."""
    (tally,) = run_suite(Consortium(protocol="paper-semi-honest"), ClearEngine(), strategies_named(["replay"]), tries=3)
    assert tally.caught == 0
