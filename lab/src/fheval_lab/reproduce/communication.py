"""Table 3: what one client and the server send and receive."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fheval.engines import Engine
from fheval.protocols import padded, padded_verified, paper_malicious, paper_semi_honest
from fheval_lab.reproduce.accuracy import PROTOCOLS
from fheval_lab.reproduce.cells import Cell
from fheval_lab.reproduce.experiment import Plan, Setting
from fheval_lab.reproduce.printed import CLIENT_MEGABYTES, SERVER_MEGABYTES
from fheval_lab.reproduce.rounds import play_for_traffic
from fheval_lab.reproduce.rows import Row

DECISION_POINTS = 100
CLIENTS = (5, 10, 15)

# Which of the paper's settings withstands the same aggregator.
SETTINGS = {
    padded.NAME: "semi-honest",
    paper_semi_honest.NAME: "semi-honest",
    padded_verified.NAME: "malicious",
    paper_malicious.NAME: "malicious",
}

# Seconds for a party, about.
WEIGHTS = {padded.NAME: 0.01, padded_verified.NAME: 0.02, paper_semi_honest.NAME: 0.12, paper_malicious.NAME: 0.25}


def plan(setting: Setting) -> Plan:
    """A round for each protocol and number of clients."""
    return Plan(tuple(cell(setting.engine, protocol, clients) for protocol in PROTOCOLS for clients in CLIENTS))


def cell(engine: Engine, protocol: str, parties: int) -> Cell:
    """The traffic of one round; table 3 and the figure against parties have these in common."""
    return Cell(
        name=f"traffic {protocol} M={parties} {engine.name}",
        weight=0.5 + parties * WEIGHTS[protocol],
        work=partial(traffic, engine, protocol, parties),
    )


def traffic(engine: Engine, protocol: str, parties: int) -> Sequence[Row]:
    """Megabytes of the round: client and server side as the table has them, a client's upload alone, and the set-up."""
    measured = play_for_traffic(engine, protocol, parties, DECISION_POINTS)
    alike = SETTINGS[protocol]
    parts = {
        "client": (measured.client, CLIENT_MEGABYTES[alike]),
        "server": (measured.server(parties), SERVER_MEGABYTES.get((alike, parties))),
        "client upload": (measured.upload, None),
        "leader set-up": (measured.set_up, None),
    }
    return [
        Row(
            decision_points=DECISION_POINTS,
            parties=parties,
            column=f"{protocol} {part}",
            value=size / 1e6,
            printed=said,
            unit="MB",
            note=f"engine {engine.name}",
        )
        for part, (size, said) in parts.items()
    ]
