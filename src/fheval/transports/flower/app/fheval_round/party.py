"""The ClientApp, by the name under which Flower looks for it."""

from fheval.transports.flower.shim import app

__all__ = ["app"]
