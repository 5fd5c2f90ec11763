"""Table 3: what one client and the server send and receive, in rounds that are played for the sizes of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fheval.engines import Engine
from fheval.protocols import PROTOCOLS as BY_NAME
from fheval.protocols import padded, padded_verified, paper_malicious, paper_semi_honest
from fheval.protocols.play import Watch, play
from fheval.protocols.round import Contribution
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval_lab.reproduce.accuracy import PROTOCOLS
from fheval_lab.reproduce.cells import Cell, Plan, Workbench
from fheval_lab.reproduce.printed import CLIENT_MEGABYTES, SERVER_MEGABYTES
from fheval_lab.reproduce.rows import Row

DECISION_POINTS = 100
CLIENTS = (5, 10, 15)

# Which of the paper's settings withstands the same aggregator.
SETTINGS = {name: "malicious" if BY_NAME[name].resists else "semi-honest" for name in PROTOCOLS}

# Seconds for a party, about.
WEIGHTS = {padded.NAME: 0.01, padded_verified.NAME: 0.02, paper_semi_honest.NAME: 0.12, paper_malicious.NAME: 0.25}


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


def plan(setting: Workbench) -> Plan:
    """A round for each protocol and number of clients."""
    return Plan(tuple(cell(setting.engine, protocol, clients) for protocol in PROTOCOLS for clients in CLIENTS))


def cell(engine: Engine, protocol: str, parties: int) -> Cell:
    """The traffic of one round; table 3 and the figure against parties have these in common."""
    name, weight = f"traffic {protocol} M={parties} {engine.name}", 0.5 + parties * WEIGHTS[protocol]
    return Cell(name=name, weight=weight, work=partial(traffic, engine, protocol, parties))


def traffic(engine: Engine, protocol: str, parties: int) -> Sequence[Row]:
    """Megabytes of the round: client and server side as the table has them, a client's upload alone, and the set-up."""
    measured = _play(engine, protocol, parties)
    alike = SETTINGS[protocol]
    parts = {
        "client": (measured.client, CLIENT_MEGABYTES[alike]),
        "server": (measured.server(parties), SERVER_MEGABYTES.get((alike, parties))),
        "client upload": (measured.upload, None),
        "leader set-up": (measured.set_up, None),
    }
    common = Row(column="", value=0.0, decision_points=DECISION_POINTS, parties=parties, unit="MB")
    return [
        replace(common, column=f"{protocol} {part}", value=size / 1e6, printed=said, note=f"engine {engine.name}")
        for part, (size, said) in parts.items()
    ]


def _play(engine: Engine, protocol: str, parties: int) -> Traffic:
    """Play a round over a straight curve; sizes do not depend on what is counted."""
    rng, watch = SystemRandomness(), Watch()
    names = [f"party-{number}" for number in range(1, parties + 1)]
    study = Study.of(protocol=protocol, decision_points=DECISION_POINTS)
    round_ = study.round(study.call(rng, engine=engine.name, parties=names, leader=names[0]))
    own = Contribution(np.ones((1, 2 * DECISION_POINTS - 2), dtype=np.int64))
    play(BY_NAME[protocol], engine, round_, dict.fromkeys(names, own), rng, watch)
    uploads, result, told = watch.sizes["party_upload"], sum(watch.sizes["result"]), watch.sizes.get("broadcast", [])
    pads = watch.sizes["leader_upload"]
    # With pads the leader alone fetches the result, and tells the others; else everyone fetches it.
    return Traffic(
        upload=round(sum(uploads) / len(uploads)),
        download=told[0] if told else result,
        leader=sum(pads) + result if told else 0,
        set_up=sum(watch.sizes["keys"]),
    )
