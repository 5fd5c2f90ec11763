"""What a party does: train on its rows, and evaluate on others."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import fheval.flower
from quickstart.task import TRIAL, load_data, predict, train

app = ClientApp()
fheval.flower.attach(app, TRIAL)


@app.train()
def train_(message: Message, context: Context) -> Message:
    """Train the model that came."""
    x, y, _, _ = load_data(int(context.node_config["partition-id"]))
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    content = {
        "arrays": ArrayRecord([train(weights, x, y)]),
        "metrics": MetricRecord({"num-examples": len(y)}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model that came."""
    _, _, x, y = load_data(int(context.node_config["partition-id"]))
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    scores = predict(weights, x)
    fheval.flower.deposit(context, y, scores, study=TRIAL)
    accuracy = float(np.mean((scores > 0.5) == y))
    metrics = MetricRecord({"accuracy": accuracy, "num-examples": len(y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
