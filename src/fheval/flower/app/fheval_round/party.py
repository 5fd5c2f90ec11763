"""The ClientApp, by the name under which Flower looks for it."""

from fheval.flower.shim import app

__all__ = ["app"]
