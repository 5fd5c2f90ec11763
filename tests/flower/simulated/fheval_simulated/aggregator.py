"""The ServerApp of a deployment, unchanged."""

from fheval.flower.aggregator import app

__all__ = ["app"]
