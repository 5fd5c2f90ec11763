"""Rounds over Flower: the only place that imports `flwr`. See README.md."""
