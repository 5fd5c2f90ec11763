"""The ServerApp of a deployment, unchanged."""

from fheval.transports.flower.aggregator import app

__all__ = ["app"]
