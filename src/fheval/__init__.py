"""Private evaluation of models across organisations: the pooled ROC AUC without pooling the data."""

from fheval.counting import Counts, Grid, Table
from fheval.errors import (
    CapacityError,
    CohortTooSmall,
    ConfigError,
    EngineError,
    FhevalError,
    InputError,
    LocalProtocolError,
    PrecisionError,
    RemoteProtocolError,
    TransportError,
    UndefinedMetric,
    VerificationFailed,
)
from fheval.evaluation import Result, Row, evaluate
from fheval.version import __version__

__all__ = [
    "CapacityError",
    "CohortTooSmall",
    "ConfigError",
    "Counts",
    "EngineError",
    "FhevalError",
    "Grid",
    "InputError",
    "LocalProtocolError",
    "PrecisionError",
    "RemoteProtocolError",
    "Result",
    "Row",
    "Table",
    "TransportError",
    "UndefinedMetric",
    "VerificationFailed",
    "__version__",
    "evaluate",
]
