"""Rounds without data, played for the sizes of their messages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fheval.engines import Engine
from fheval.protocols import PROTOCOLS
from fheval.protocols.play import Watch, play
from fheval.protocols.round import Contribution
from fheval.secrets import SystemRandomness
from fheval.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes of one round: a party's upload and what it receives, what the leader adds, and its set-up before it."""

    upload: int
    download: int
    leader: int
    set_up: int

    @property
    def client(self) -> int:
        """What an ordinary party sends and receives."""
        return self.upload + self.download

    def server(self, parties: int) -> int:
        """All that passes the aggregator, set-up apart."""
        return parties * self.client + self.leader


def play_for_traffic(engine: Engine, protocol: str, parties: int, decision_points: int) -> Traffic:
    """Play a round; sizes do not depend on what is counted."""
    rng, watch = SystemRandomness(), Watch()
    names = [f"party-{number}" for number in range(1, parties + 1)]
    study = Study.of(protocol=protocol, decision_points=decision_points)
    round_ = study.round(study.call(rng, engine=engine.name, parties=names, leader=names[0]))
    play(PROTOCOLS[protocol], engine, round_, {name: [_steps(decision_points)] for name in names}, rng, watch)
    return _traffic(watch.sizes)


def _steps(points: int) -> Contribution:
    """A straight curve: one positive and one negative sample between any two points."""
    reached = np.arange(points, dtype=np.int64)
    return Contribution(
        np.append(reached[1:] + reached[:-1], reached[-1]),
        np.append(np.ones(points - 1, dtype=np.int64), 2 * reached[-1]),
    )


def _traffic(sizes: dict[str, list[int]]) -> Traffic:
    set_up, *pads = sizes["leader_upload"]
    result = sum(sizes["result"])
    told = sizes.get("broadcast", [])
    # With pads the leader alone fetches the result, and tells the others; else everyone fetches it.
    return Traffic(
        upload=round(sum(sizes["party_upload"]) / len(sizes["party_upload"])),
        download=told[0] if told else result,
        leader=sum(pads) + result if told else 0,
        set_up=set_up,
    )
