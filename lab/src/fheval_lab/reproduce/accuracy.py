"""Tables 1 and 2: the AUC of each data set by our protocols, the libraries, DPAUC, noisy curves and MPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from fheval.counting import Counts, Grid
from fheval.engines import Engine
from fheval.evaluation import evaluate
from fheval.protocols import padded, padded_verified, paper_malicious, paper_semi_honest
from fheval_lab.baselines.dpauc import ESTIMATORS, Estimator, aggregator_add, laplace_mechanism, party_statistics
from fheval_lab.baselines.mpc import mpc_auc
from fheval_lab.baselines.pooled import keras_auc, sklearn_auc, tensorflow_auc
from fheval_lab.reproduce import noise
from fheval_lab.reproduce.cells import Cell, Plan, Workbench
from fheval_lab.reproduce.data_sets import DataSet, Name, present_and_missing
from fheval_lab.reproduce.noise import EPSILONS
from fheval_lab.reproduce.printed import PARTIES, REPETITIONS
from fheval_lab.reproduce.rows import Row

# About the seconds that a round of 15 parties takes on two cores, for the progress bar.
WEIGHTS = {padded.NAME: 0.5, padded_verified.NAME: 0.4, paper_semi_honest.NAME: 2.0, paper_malicious.NAME: 4.0}
PROTOCOLS = tuple(WEIGHTS)

# `padded` as it is by default: the table's own columns are exact releases, as the paper's is.
ROUNDED = "padded, four decimals"
ROUNDING = 1e-4

# As in the paper's tables, and with the post-processing of Sun et al., which costs no privacy.
DPAUC_COLUMNS: dict[str, Estimator] = {"dpauc": "first-totals", "dpauc-sorted": "sorted"}

# MPC takes minutes beyond.
MPC_LARGEST = 1000


def plan(name: Name, setting: Workbench) -> Plan:
    """The cells of one table."""
    present, missing = present_and_missing(setting.data, name)
    return Plan(tuple(cell for each in present for cell in _cells(each, setting.engine)), tuple(missing))


def _cells(data: DataSet, engine: Engine) -> Iterator[Cell]:
    inputs = {"data": data.digest()}

    def cell(what: str, weight: float, work: Callable[[], Sequence[Row]]) -> Cell:
        return Cell(name=f"{data.name} {data.size} {what}", inputs=inputs, weight=weight, work=work)

    yield cell("libraries", 1.0, partial(libraries, data))
    for points in data.printed.points:
        for protocol in (*PROTOCOLS, ROUNDED):
            weight = WEIGHTS.get(protocol, WEIGHTS[padded.NAME])
            yield cell(f"N={points} {protocol} {engine.name}", weight, partial(ours, data, points, protocol, engine))
        for epsilon in EPSILONS:
            yield cell(f"N={points} dpauc epsilon={epsilon}", 4.0, partial(under_noise, data, points, epsilon))
    yield from noise.cells_of(data, engine)
    if data.size <= MPC_LARGEST:
        yield cell("mpc", 5.0 if data.size < MPC_LARGEST else 25.0, partial(by_mpc, data))


def ours(data: DataSet, points: int, protocol: str, engine: Engine) -> Sequence[Row]:
    """One round of 15 parties."""
    rounded = protocol == ROUNDED
    result = evaluate(
        data.shares(PARTIES),
        protocol=padded.NAME if rounded else protocol,
        decision_points=Grid.even(points),
        precision=ROUNDING if rounded else "exact",
        engine=engine,
    )
    said, note = data.printed.points[points].ours, f"engine {result.engine}"
    return [data.row(protocol, result.auc, decision_points=points, std=0.0, printed=said, parties=PARTIES, note=note)]


def libraries(data: DataSet) -> Sequence[Row]:
    """The AUC of the pooled data by TensorFlow's metric and by scikit-learn."""
    pooled = [data.load()]
    keras = (tensorflow_auc if find_spec("tensorflow") else keras_auc)(pooled)
    note = "TensorFlow's metric, computed without it" if keras.library == "numpy" else keras.library
    printed = data.printed
    return [
        data.row("tensorflow", keras.auc, decision_points=keras.decision_points, printed=printed.tensorflow, note=note),
        data.row("scikit-learn", sklearn_auc(pooled).auc, printed=printed.scikit_learn),
    ]


def under_noise(data: DataSet, points: int, epsilon: int) -> Sequence[Row]:
    """DPAUC a hundred times; the same noisy counts with and without post-processing."""
    mechanism = laplace_mechanism(epsilon, points)
    counts = [Counts.from_scores(labels, scores, Grid.even(points)) for labels, scores in data.shares(PARTIES)]
    noisy = aggregator_add([party_statistics(own) for own in counts], mechanism, REPETITIONS)
    printed, printed_std = data.printed.points[points].dpauc[epsilon]
    row = data.row("dpauc", 0.0, decision_points=points, printed=printed, printed_std=printed_std, parties=PARTIES)
    found = {column: ESTIMATORS[estimator](*noisy) for column, estimator in DPAUC_COLUMNS.items()}
    return [
        replace(row, column=f"{column}-epsilon-{epsilon}", value=float(values.mean()), std=float(values.std()))
        for column, values in found.items()
    ]


def by_mpc(data: DataSet) -> Sequence[Row]:
    """The exact AUC of 15 parties on secret shares, beside scikit-learn's printed value, and how long it took."""
    done = mpc_auc(data.shares(PARTIES))
    row = data.row("mpc", done.auc, parties=PARTIES, printed=data.printed.scikit_learn)
    return [row, replace(row, column="mpc-seconds", value=done.computing_seconds, printed=None, unit="s")]
