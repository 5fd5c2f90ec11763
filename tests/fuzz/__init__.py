"""Campaigns of random damage: what `make fuzz` and `make schedules` run, and what tests take small pieces of."""
