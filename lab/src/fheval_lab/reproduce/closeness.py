"""How near the AUC on N decision points comes to the exact one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from fheval.engines import Engine
from fheval.evaluation import evaluate
from fheval.protocols import padded_verified
from fheval_lab.baselines.pooled import sklearn_auc
from fheval_lab.reproduce.cells import Cell
from fheval_lab.reproduce.data_sets import DataSet
from fheval_lab.reproduce.printed import ACCURACY, PARTIES
from fheval_lab.reproduce.rows import Row

POINTS = (10, 25, 50, 100, 250, 500, 1000)

_PRINTED_AT = ("celeba", 100_000, 100)


def cells(data: DataSet, engine: Engine) -> Iterator[Cell]:
    """One for each number of points."""
    for points in POINTS:
        yield Cell(
            name=f"accuracy {data.name} {data.size} N={points} {engine.name}",
            inputs={"data": data.digest()},
            weight=0.6,
            work=partial(accuracy, data, points, engine),
        )


def accuracy(data: DataSet, points: int, engine: Engine) -> Sequence[Row]:
    """100·(1 − |AUC − exact|/exact), the AUC being a verified exact release of 15 parties."""
    exact = sklearn_auc([data.load()]).auc
    found = evaluate(data.shares(PARTIES), protocol=padded_verified.NAME, decision_points=points, engine=engine)
    return [
        Row(
            data=data.name,
            size=data.size,
            decision_points=points,
            parties=PARTIES,
            column="accuracy",
            value=100 * (1 - abs(found.auc - exact) / exact),
            printed=ACCURACY if (data.name, data.size, points) == _PRINTED_AT else None,
            unit="%",
        )
    ]
