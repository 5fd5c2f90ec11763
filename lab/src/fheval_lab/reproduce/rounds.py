"""Rounds without data, played for the sizes of their messages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fheval.engines import Engine
from fheval.metrics.forms import Contribution, auc_form
from fheval.protocols import run_round
from fheval.protocols.round import DEFAULT_MAX_SAMPLES, Round, new_round_id
from fheval.protocols.watch import InProcess
from fheval.secrets import SystemRandomness


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
    rng = SystemRandomness()
    names = tuple(f"party-{number}" for number in range(1, parties + 1))
    round_ = Round(
        id=new_round_id(rng),
        protocol=protocol,
        engine=engine.name,
        forms=(auc_form(decision_points, DEFAULT_MAX_SAMPLES),),
        parties=names,
        leader=names[0],
        precision=1e-4 if protocol == "padded" else None,
    )
    post = InProcess()
    run_round(engine, round_, {name: [_steps(decision_points)] for name in names}, rng, post)
    return _traffic(post.sizes)


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
