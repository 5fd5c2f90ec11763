"""What a round costs the members of a committee, in figures with the limits that the project holds itself to."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np

from fheval.engines import Engine
from fheval.protocols import PROTOCOLS, Protocol
from fheval.protocols.play import Members, Watch
from fheval.protocols.round import Contribution
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval_lab.bench.aggregators import Ratio

# A member's processor seconds for so many parties, and how many times those of a leader who holds all pads alone.
MEMBER_SECONDS = {100: 0.25, 10_000: 1.0}
TIMES_A_LEADER = {100: 10.0, 10_000: 4.0}
MEMBER_MEGABYTES = 4.0
PARTY_KILOBYTES = 7.0
AGGREGATOR_SECONDS = 0.005


def with_committee() -> list[Protocol]:
    """The protocols in which several parties make keys."""
    return [each for each in PROTOCOLS.values() if each.keepers_wanted(()) > 1]


def with_one_leader() -> Protocol:
    """The protocol in which a leader holds the pads, and nobody verifies."""
    return next(each for each in PROTOCOLS.values() if each.batch and not each.resists)


def of_paper() -> Protocol:
    """The paper's protocol for an aggregator that follows it."""
    return next(each for each in PROTOCOLS.values() if not each.batch and not each.resists)


def played(engine: Engine, protocol: Protocol, parties: int, decision_points: int) -> Watch:
    """A whole round under keys that are there already, every party submitting for itself; times of one thread."""
    rng, names = SystemRandomness(), [f"party-{number}" for number in range(parties)]
    study = Study.of(protocol=protocol.name, decision_points=decision_points)
    round_ = study.round(study.call(rng, engine=engine.name, parties=names, leader=names[0]))
    if round_.batch is None:
        raise ValueError("A study of one AUC asks for a ratio.")
    own = Contribution(np.ones((1, round_.batch.size), dtype=np.int64))
    members = Members(protocol, engine, round_, dict.fromkeys(names, own), rng)
    members.watch = Watch(clock=process_time)
    members.play()
    return members.watch


def member_ratios(
    engine: Engine, parties: tuple[int, ...], decision_points: int, say: Callable[[str], None]
) -> list[Ratio]:
    """What rounds cost a member and all roles together, beside those of other protocols in the same run."""
    ratios = []
    few, other, paper = min(parties), with_one_leader(), of_paper()
    for protocol in with_committee():
        members = protocol.keepers_wanted(())
        for count in parties:
            say(f"{engine.name}: a member of {protocol.name}, {count:,} parties")
            watch = played(engine, protocol, count, decision_points)
            beside = played(engine, other, count, decision_points)
            name = f"{protocol.name}, {members} members, {count:,} parties"
            seconds = watch.seconds["member"] / members
            figures = [
                (f"{name}: a member's seconds", seconds, MEMBER_SECONDS.get(count, 1.0)),
                (
                    f"{name}: a member / the leader of {other.name}",
                    seconds / beside.seconds["leader"],
                    TIMES_A_LEADER.get(count, 10.0),
                ),
            ]
            if count == few:
                sent, uploads = sum(watch.sizes["member_upload"]) / members, watch.sizes["party_upload"]
                on_paper = played(engine, paper, count, decision_points)
                figures += [
                    (f"{name}: MB that a member sends", sent / 1e6, MEMBER_MEGABYTES),
                    (f"{name}: kB that a party sends", sum(uploads) / len(uploads) / 1e3, PARTY_KILOBYTES),
                    (f"{name}: all roles / those of {paper.name}", _all_roles(watch) / _all_roles(on_paper), 1.0),
                ]
            ratios += [_figure(each, engine.name, value, limit) for each, value, limit in figures]
    return ratios


def _all_roles(watch: Watch) -> float:
    """Everybody's processor seconds together."""
    return sum(watch.seconds.values())


def _figure(name: str, engine: str, value: float, limit: float) -> Ratio:
    return Ratio(name=name, engine=engine, value=value, low=value, high=value, limit=limit)
