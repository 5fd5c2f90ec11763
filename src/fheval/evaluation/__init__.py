"""One round of evaluations, all roles in this process: from every party's rows to metrics of the pooled data."""

from __future__ import annotations

from fheval.evaluation.data import PartyData
from fheval.evaluation.result import Result, Row
from fheval.evaluation.run import DEFAULT_DECISION_POINTS, default_points, evaluate, require_batch_protocol

__all__ = [
    "DEFAULT_DECISION_POINTS",
    "PartyData",
    "Result",
    "Row",
    "default_points",
    "evaluate",
    "require_batch_protocol",
]
