"""The registry, which is the only list of protocols, and what each protocol says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from fheval.errors import ConfigError
from fheval.protocols import DEFAULT_PROTOCOL, PROTOCOLS, Protocol
from fheval.protocols.base import Aggregator, Asked, Option, Stage
from protocols.rounds import PADDED, PAPER, a_round

ALL = (*PADDED, "committee", *PAPER)

NUMBER = Option(name="runs", help="how often", default=2, least=1, most=8)
CHOICE = Option(name="packing", help="how", default="paper", choices=("paper", "compact"))


def test_an_unknown_protocol_is_a_config_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        PROTOCOLS["nope"]
    assert str(caught.value) == f"There is no protocol 'nope'. Choose one of: {', '.join(ALL)}."
    assert "nope" not in PROTOCOLS
    assert PROTOCOLS.get("nope") is None


def test_the_registry_has_every_protocol_under_its_own_name() -> None:
    assert tuple(PROTOCOLS) == ALL
    assert all(protocol.name == name for name, protocol in PROTOCOLS.items())
    assert DEFAULT_PROTOCOL == "padded"


# What every protocol says of itself


@pytest.fixture(params=ALL)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    return PROTOCOLS[request.param]


def test_a_protocol_has_words_for_people(protocol: Protocol) -> None:
    words = protocol.words
    for text in (words.summary, words.aggregator, words.upload, words.leader_upload, words.exact):
        assert text
        assert not text.endswith(".")
    assert len(words.steps) >= 3
    assert all(step.endswith(".") for step in words.steps)


def test_a_protocol_has_steps_that_its_members_can_answer(protocol: Protocol) -> None:
    stages = [step.stage for step in protocol.steps]
    assert stages[0] is (Stage.OFFER if protocol.name == "committee" else Stage.SUBMIT)
    assert protocol.step(Stage.SUBMIT).asked is Asked.EVERYONE
    assert protocol.opening in stages
    assert len(set(stages)) == len(stages)
    for step in protocol.steps:
        assert protocol.step(step.stage) is step
        assert callable(getattr(protocol, f"answer_{step.stage.value}"))
    round_ = a_round(protocol.name, 4)
    assert protocol.stages_of(round_, round_.leader) == tuple(stages)
    others = [step.stage for step in protocol.steps if step.asked in (Asked.EVERYONE, Asked.ROSTER)]
    assert protocol.stages_of(round_, "hospital-4") == tuple(others)
    assert issubclass(protocol.aggregator, Aggregator)


def test_a_protocol_that_resists_says_how_sound_it_is_and_the_others_do_not(protocol: Protocol) -> None:
    bits = protocol.soundness_bits(a_round(protocol.name, 3, decision_points=100))
    # Where members are shown what others have signed, there is nothing left to verify by chance.
    assert (bits is not None) == (protocol.resists and protocol.name != "committee")
    assert bits is None or bits > 50
    assert (protocol.tolerance > 0) == (protocol.name == "paper-malicious")


def test_options_of_a_protocol_have_defaults_that_make_sense(protocol: Protocol) -> None:
    for option in protocol.options:
        option.check(option.default)
        assert option.help
    names = [option.name for each in PROTOCOLS.values() for option in each.options]
    assert len(set(names)) == len(names), "the command line offers all of them side by side"


def test_ways_to_release_counts_are_protocols_of_their_own() -> None:
    found = {name: each.counts for name, each in PROTOCOLS.items()}
    assert {name for name, counts in found.items() if counts} == {"padded", "padded-verified"}
    for name, counts in found.items():
        if counts:
            assert (counts.name, counts.resists) == (name, PROTOCOLS[name].resists)


# Options


@pytest.mark.parametrize("value", [1, 2, 8])
def test_a_number_in_its_range_is_taken(value: int) -> None:
    NUMBER.check(value)


@pytest.mark.parametrize("value", [0, -1, 9, 1 << 70, 1.0, "2", None, True, [2]], ids=str)
def test_any_other_number_is_refused_with_the_range(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"runs is .*\. Use a number from 1 to 8\."):
        NUMBER.check(value)


def test_a_choice_is_one_of_those_that_are_listed() -> None:
    CHOICE.check("compact")
    for value in ("loose", "", None, 1, "PAPER"):
        with pytest.raises(ConfigError, match=r"There is no packing .*\. Choose one of: paper, compact\."):
            CHOICE.check(value)


def test_a_round_without_an_option_has_its_default() -> None:
    round_ = a_round("padded-verified", 3)
    assert NUMBER.of(round_) == 2
    assert NUMBER.of(a_round("padded-verified", 3, runs=5)) == 5
    assert CHOICE.of(round_) == "paper"
