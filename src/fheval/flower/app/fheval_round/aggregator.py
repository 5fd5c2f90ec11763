"""The ServerApp, by the name under which Flower looks for it."""

from fheval.flower.aggregator import app

__all__ = ["app"]
