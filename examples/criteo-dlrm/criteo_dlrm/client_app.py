"""What a party does: train the model that came on its own rows, and score others with it."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import fheval.flower
from criteo_dlrm.task import TRIAL, load_party, predict, train

app = ClientApp()
fheval.flower.attach(app, TRIAL)


@app.train()
def train_(message: Message, context: Context) -> Message:
    """Train."""
    rows = load_party(context, training=True)
    trained, loss = train(message.content["arrays"].to_numpy_ndarrays(), rows)
    metrics = MetricRecord({"loss": loss, "num-examples": len(rows)})
    return Message(RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score rows that were not trained on, and leave labels and scores to this party's vault."""
    rows = load_party(context, training=False)
    fheval.flower.deposit(
        context, rows.labels, predict(message.content["arrays"].to_numpy_ndarrays(), rows), study=TRIAL
    )
    return Message(RecordDict({"metrics": MetricRecord({"num-examples": len(rows)})}), reply_to=message)
