"""Carries the bytes of rounds over gRPC and mutual TLS: members dial out, hold one stream, and answer on it."""

from __future__ import annotations

import os

# What goes wrong is said in our own words; gRPC's own lines would stand between them.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
