"""Private evaluation of models across organisations: the pooled ROC AUC without pooling the data.

Names are imported when they are first used, so that `fheval --help` need not wait for numpy and Polars.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fheval.version import __version__

if TYPE_CHECKING:
    from fheval.counting import Counts, Grid, Table
    from fheval.databases import read_query
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
    from fheval.study import Study

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
    "Study",
    "Table",
    "TransportError",
    "UndefinedMetric",
    "VerificationFailed",
    "__version__",
    "evaluate",
    "read_query",
]

# Where a name comes from; the errors are all of fheval.errors.
_HOMES = {
    "Counts": "fheval.counting",
    "Grid": "fheval.counting",
    "Table": "fheval.counting",
    "Result": "fheval.evaluation",
    "Row": "fheval.evaluation",
    "Study": "fheval.study",
    "evaluate": "fheval.evaluation",
    "read_query": "fheval.databases",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("Result", "evaluate"):
        # What shows results in notebooks and at a prompt.
        import_module("fheval.report.presentation")
    return getattr(import_module(_HOMES.get(name, "fheval.errors")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
