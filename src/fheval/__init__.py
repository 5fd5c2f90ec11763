"""Private evaluation of models across organisations: the pooled ROC AUC without pooling the data."""

from fheval.counting import Counts, Grid
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
from fheval.evaluation import Result, evaluate
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
    "TransportError",
    "UndefinedMetric",
    "VerificationFailed",
    "__version__",
    "evaluate",
]
