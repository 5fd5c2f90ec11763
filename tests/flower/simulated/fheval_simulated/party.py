"""The relay of a deployment, with a vault behind it that is opened for each message and closed again.

Ray gives a party's messages to any of its processes, so that none may keep anything of a party: the ledger does.
"""

from __future__ import annotations

import os
from pathlib import Path

from flwr.app import Context

from fheval.consortium import load_kit
from fheval.engines import load_engine
from fheval.flower.relay import make_app
from fheval.party.accepted import AcceptedStudies
from fheval.party.core import VaultCore, utc_now
from fheval.party.ledger import Ledger


def to_core(context: Context, request: bytes) -> bytes:
    """Ask the vault of the party that this simulated SuperNode stands for."""
    place = Path(os.environ["FHEVAL_SIMULATED"]) / f"member-{context.node_config['partition-id']:03}"
    engine = load_engine()
    with Ledger.open(place / "ledger.db") as ledger, AcceptedStudies.open(place / "studies.db") as studies:
        core = VaultCore(load_kit(place / "kit", now=utc_now()), ledger, studies, {engine.name: engine})
        return core.handle(request)


app = make_app(to_core)
