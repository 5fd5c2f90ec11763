"""From every party's rows to metrics of the pooled data; `evaluate` does all of it in one process."""

from __future__ import annotations

from fheval.evaluation.parties import PartyData
from fheval.evaluation.result import Result, Row
from fheval.evaluation.run import evaluate, evaluate_study

__all__ = ["PartyData", "Result", "Row", "evaluate", "evaluate_study"]
