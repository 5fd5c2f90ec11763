"""Tables 1 and 2: the AUC of each data set by our protocols, the libraries, DPAUC and MPC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import numpy as np

from fheval.counting import Counts
from fheval.engines import Engine
from fheval.evaluation import evaluate
from fheval.protocols import padded, padded_verified, paper_malicious, paper_semi_honest
from fheval_lab.baselines.dpauc import ESTIMATORS, Estimator, aggregator_add, laplace_mechanism, party_statistics
from fheval_lab.baselines.mpc import mpc_auc
from fheval_lab.baselines.pooled import sklearn_auc
from fheval_lab.baselines.tensorflow import keras_auc, tensorflow_auc
from fheval_lab.reproduce.cells import Cell
from fheval_lab.reproduce.data_sets import DataSet, Name
from fheval_lab.reproduce.experiment import Plan, Setting, present_and_missing
from fheval_lab.reproduce.printed import PARTIES, REPETITIONS
from fheval_lab.reproduce.rows import Row

# About the seconds that a round of 15 parties takes on two cores, for the progress bar.
WEIGHTS = {padded.NAME: 0.5, padded_verified.NAME: 0.4, paper_semi_honest.NAME: 2.0, paper_malicious.NAME: 4.0}
PROTOCOLS = tuple(WEIGHTS)

# `padded` as it is by default: the table's own columns are exact releases, as the paper's is.
ROUNDED = "padded, four decimals"
ROUNDING = 1e-4

EPSILONS = (1, 8)
# As in the paper's tables, and with the post-processing of Sun et al., which costs no privacy.
DPAUC_COLUMNS: dict[str, Estimator] = {"dpauc": "first-totals", "dpauc-sorted": "sorted"}

# MPC takes minutes beyond.
MPC_LARGEST = 1000


def plan(name: Name, setting: Setting) -> Plan:
    """The cells of one table."""
    present, missing = present_and_missing(setting.data, name)
    return Plan(tuple(cell for each in present for cell in _cells(each, setting.engine)), tuple(missing))


def _cells(data: DataSet, engine: Engine) -> Iterator[Cell]:
    inputs = {"data": data.digest()}
    label = f"{data.name} {data.size}"
    yield Cell(name=f"{label} libraries", inputs=inputs, weight=1.0, work=partial(libraries, data))
    for points in data.printed.points:
        for protocol in (*PROTOCOLS, ROUNDED):
            yield Cell(
                name=f"{label} N={points} {protocol} {engine.name}",
                inputs=inputs,
                weight=WEIGHTS.get(protocol, WEIGHTS[padded.NAME]),
                work=partial(ours, data, points, protocol, engine),
            )
        for epsilon in EPSILONS:
            yield Cell(
                name=f"{label} N={points} dpauc epsilon={epsilon}",
                inputs=inputs,
                weight=4.0,
                work=partial(under_noise, data, points, epsilon),
            )
    if data.size <= MPC_LARGEST:
        weight = 5.0 if data.size < MPC_LARGEST else 25.0
        yield Cell(name=f"{label} mpc", inputs=inputs, weight=weight, work=partial(by_mpc, data))


def ours(data: DataSet, points: int, protocol: str, engine: Engine) -> Sequence[Row]:
    """One round of 15 parties."""
    rounded = protocol == ROUNDED
    result = evaluate(
        data.shares(PARTIES),
        protocol=padded.NAME if rounded else protocol,
        decision_points=points,
        precision=ROUNDING if rounded else "exact",
        engine=engine,
    )
    return [
        Row(
            data=data.name,
            size=data.size,
            decision_points=points,
            column=protocol,
            value=result.auc,
            std=0.0,
            printed=data.printed.points[points].ours,
            parties=PARTIES,
            note=f"engine {result.engine}",
        )
    ]


def libraries(data: DataSet) -> Sequence[Row]:
    """The AUC of the pooled data by TensorFlow's metric and by scikit-learn."""
    pooled = [data.load()]
    keras = (tensorflow_auc if find_spec("tensorflow") else keras_auc)(pooled)
    exact = sklearn_auc(pooled)
    return [
        Row(
            data=data.name,
            size=data.size,
            decision_points=keras.thresholds,
            column="tensorflow",
            value=keras.auc,
            printed=data.printed.tensorflow,
            note="TensorFlow's metric, computed without it" if keras.library == "numpy" else keras.library,
        ),
        Row(
            data=data.name,
            size=data.size,
            column="scikit-learn",
            value=exact.auc,
            printed=data.printed.scikit_learn,
        ),
    ]


def under_noise(data: DataSet, points: int, epsilon: int) -> Sequence[Row]:
    """DPAUC a hundred times; the same noisy counts with and without post-processing."""
    mechanism = laplace_mechanism(epsilon, points)
    counts = [Counts.from_scores(labels, scores, points) for labels, scores in data.shares(PARTIES)]
    noisy = aggregator_add([party_statistics(own) for own in counts], mechanism, REPETITIONS)
    said = data.printed.points[points].dpauc(epsilon)
    rows = []
    for column, estimator in DPAUC_COLUMNS.items():
        values = ESTIMATORS[estimator](*noisy)
        rows.append(
            Row(
                data=data.name,
                size=data.size,
                decision_points=points,
                column=f"{column}-epsilon-{epsilon}",
                value=float(np.mean(values)),
                std=float(np.std(values)),
                printed=said.mean,
                printed_std=said.std,
                parties=PARTIES,
            )
        )
    return rows


def by_mpc(data: DataSet) -> Sequence[Row]:
    """The exact AUC of 15 parties on secret shares, beside scikit-learn's printed value, and how long it took."""
    done = mpc_auc(data.shares(PARTIES))
    row = Row(
        data=data.name,
        size=data.size,
        parties=PARTIES,
        column="mpc",
        value=done.auc,
        printed=data.printed.scikit_learn,
    )
    return [row, replace(row, column="mpc-seconds", value=done.computing_seconds, printed=None, unit="s")]
