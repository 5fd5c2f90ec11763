"""The bench: what it measures is there, in turn, and the ratios are those of one repetition each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fheval.engines import load_engine
from fheval.protocols import PROTOCOLS
from fheval_lab.bench import suite as bench_suite
from fheval_lab.bench.aggregators import Played
from fheval_lab.bench.growth import Growth, grow, powers_of_ten
from fheval_lab.bench.members import member_ratios
from fheval_lab.bench.suite import MANY_PARTIES, PARTIES, aggregator_times, engine_ratios, work
from fheval_lab.clear import ClearEngine

PADDED, VERIFIED = "padded", "padded-verified"
SEMI_HONEST, MALICIOUS = "paper-semi-honest", "paper-malicious"


def test_every_protocol_is_measured_and_those_with_pads_among_many_as_well() -> None:
    assert {(protocol, PARTIES) for protocol in PROTOCOLS} <= set(work())
    assert {protocol for protocol, parties in work() if parties == MANY_PARTIES} == {PADDED, VERIFIED}
    assert len(set(work())) == len(work()) == 7


def played(*seconds: float) -> list[Played]:
    """Rounds of which 0.02 s came after the last upload."""
    return [Played(each, 0.02) for each in seconds]


def test_ratios_are_medians_over_pairs_of_one_repetition() -> None:
    times = {key: played(1.0, 1.0, 1.0) for key in work()}
    # A machine that is twice as slow in one repetition, and a hiccup in another.
    times[SEMI_HONEST, PARTIES] = played(0.9, 1.8, 0.9)
    times[MALICIOUS, PARTIES] = played(1.8, 3.6, 9.0)
    times[PADDED, PARTIES] = played(0.027, 0.054, 0.027)
    times[PADDED, MANY_PARTIES] = played(0.09, 0.18, 0.09)
    times[VERIFIED, PARTIES] = played(0.1, 0.1, 0.1)
    times[VERIFIED, MANY_PARTIES] = played(0.1, 0.1, 0.2)
    found = {ratio.name: ratio for ratio in engine_ratios("seal", times)}
    a_party = found["paper-semi-honest: seconds a party, 100 parties"]
    assert (a_party.value, a_party.low, a_party.high) == pytest.approx((0.009, 0.009, 0.018))
    assert a_party.holds
    doubled = found["paper-malicious / paper-semi-honest"]
    assert (doubled.value, doubled.high) == pytest.approx((2.0, 10.0))
    assert doubled.holds
    assert found["committee: seconds, 100 parties"].value == pytest.approx(1.0)
    assert not found["committee: seconds, 100 parties"].holds
    assert found["padded / paper-semi-honest"].value == pytest.approx(0.03)
    assert found["padded / paper-semi-honest"].holds
    assert not found["padded-verified / paper-malicious"].holds
    assert not found["padded: 10,000 parties / 100"].holds
    assert found["padded-verified: 10,000 parties / 100"].holds
    assert not found["padded: after the last upload / all"].holds
    assert found["padded-verified: after the last upload / all"].value == pytest.approx(0.2)


def test_every_protocol_takes_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [(protocol, 4) for protocol in PROTOCOLS]
    monkeypatch.setattr(bench_suite, "work", lambda: few)
    monkeypatch.setattr(bench_suite, "DECISION_POINTS", 5)
    monkeypatch.setattr(bench_suite, "LEAST_SECONDS", 0.001)
    steps: list[str] = []
    times = aggregator_times(ClearEngine(), 2, steps.append)
    assert list(times) == few
    assert all(len(found) == 2 and min(found) > (0, 0) for found in times.values())
    assert all(0 < each.online < each.seconds for found in times.values() for each in found)
    assert steps[-1] == "clear: repetition 2 of 2"
    assert len(steps) == len(few) + 2


def test_a_member_is_measured_beside_a_leader_and_the_papers_round() -> None:
    steps: list[str] = []
    measured = member_ratios(ClearEngine(), (100,), 5, steps.append)
    found = {each.name.partition("parties: ")[2]: each for each in measured}
    assert set(found) == {
        "a member's seconds",
        "a member / the leader of padded",
        "MB that a member sends",
        "kB that a party sends",
        "all roles / those of paper-semi-honest",
    }
    assert all(each.value > 0 for each in found.values())


def test_short_works_take_turns_until_each_has_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_suite, "LEAST_SECONDS", 0.5)
    turns: list[str] = []

    def lasting(name: str, *times: float) -> Callable[[], Played]:
        left = iter(times)

        def work() -> Played:
            turns.append(name)
            return Played(next(left), 0.05)

        return work

    works = {("long", 1): lasting("long", 9.0), ("a", 1): lasting("a", 0.1, 0.2, 0.3), ("b", 1): lasting("b", 0.4, 0.4)}
    means = {key: mean.seconds for key, mean in bench_suite._repetition(works).items()}
    assert means == pytest.approx({("long", 1): 9.0, ("a", 1): 0.2, ("b", 1): 0.4})
    assert turns == ["long", "a", "b", "a", "b", "a"]


def test_whole_rounds_are_played_for_each_power_of_ten() -> None:
    lines = list(grow(PADDED, load_engine().name, 100))
    assert [line.parties for line in lines] == powers_of_ten(100) == [10, 100]
    assert all(min(line.leader, line.aggregator, line.party, line.megabytes) > 0 and line.holds for line in lines)


def test_a_leader_that_takes_too_long_is_told() -> None:
    rest = {"name": PADDED, "engine": "seal", "aggregator": 1.0, "party": 1.0, "megabytes": 1.0}
    assert Growth(**rest, parties=10_000, leader=0.5).holds  # type: ignore[arg-type]
    assert not Growth(**rest, parties=10_000, leader=0.51).holds  # type: ignore[arg-type]
    assert Growth(**rest, parties=1000, leader=0.51).holds  # type: ignore[arg-type]
