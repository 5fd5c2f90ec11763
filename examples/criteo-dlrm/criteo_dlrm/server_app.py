"""What the server does: federated averaging, a private AUC after every round, and, for comparison, the pooled one.

Only a simulation can compute the pooled AUC: it takes every party's rows.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import fheval.flower
from criteo_dlrm.task import TRIAL, first_weights, load, pooled_auc, predict

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and write what came out beside the pooled truth: numbers and a plot."""
    settings, parties = context.run_config, len(list(grid.get_node_ids()))
    held_out = [load(str(settings["data"]), number, parties, training=False) for number in range(parties)]
    truth: dict[int, float] = {}

    def pooled(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        if server_round == 0:
            return None
        weights = arrays.to_numpy_ndarrays()
        labels = np.concatenate([rows.labels for rows in held_out])
        truth[server_round] = pooled_auc(labels, np.concatenate([predict(weights, rows) for rows in held_out]))
        return MetricRecord({"pooled-auc": truth[server_round]})

    strategy = fheval.flower.PrivateMetrics(FedAvg(), TRIAL)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(first_weights()),
        num_rounds=int(settings["num-server-rounds"]),
        evaluate_fn=pooled,
    )
    folder = Path(str(settings["results"]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "auc.html").write_text(strategy.plot("auc", pooled=truth), encoding="utf-8")
    found = {
        number: {**row.to_dict(), "pooled": truth[number], "error": fheval.flower.error_of(row)}
        for number, (row,) in strategy.results.items()
    }
    (folder / "auc.json").write_text(json.dumps(found, indent=2), encoding="utf-8")
