"""What the server does: federated averaging."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import fheval.flower
from quickstart.task import FEATURES, TRIAL

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    strategy = fheval.flower.PrivateMetrics(FedAvg(), TRIAL)
    rounds = int(context.run_config["num-server-rounds"])
    strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(FEATURES)]), num_rounds=rounds)
