"""Differential privacy: noise that parties add in shares, what it protects, and what it costs in accuracy."""
