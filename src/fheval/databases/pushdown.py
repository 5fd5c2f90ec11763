"""Counting inside the database: one SELECT whose `GROUP BY` has exactly the bins of a grid.

A sample's bin is the number of cuts below its score, strictly. For floats s > θ is s ≥ θ⁺, the next float above θ, so
that comparisons by "at least" with the cuts' next floats give the same bins for every score, one that equals a decision
point included. Two more limits, the ends of the range that the grid accepts, make bins of their own for scores that it
does not, NaN among them, which both databases sort above all numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fheval.counting import Counts, Grid
from fheval.errors import InputError


@dataclass(frozen=True, slots=True)
class Bins:
    """The limits of a grid's bins: a score's number is how many of them it is not below."""

    grid: Grid
    limits: NDArray[np.float64]

    @classmethod
    def of(cls, grid: Grid) -> Bins:
        low, high = grid.score_range
        # Beyond the largest float is infinity, which is what we want.
        with np.errstate(over="ignore"):
            return cls(grid, np.array([low, *np.nextafter([*grid.cuts[-2:0:-1], high], np.inf)]))

    def counts(self, who: str, rows: Iterable[tuple[int | None, int, int, int]]) -> Counts:
        """Counts from rows of the SELECT: a number or NULL, all samples, positive ones, negative ones."""
        tp, fp = (np.zeros(len(self.grid), dtype=np.int64) for _ in range(2))
        samples = missing = outside = labelled = 0
        for number, total, positive, negative in rows:
            samples += total
            labelled += positive + negative
            if number is None:
                missing += total
            elif not 1 <= number < len(self.limits):
                outside += total
            else:
                # The highest bin comes first, behind a point that counts nothing.
                tp[len(self.grid) - number] += positive
                fp[len(self.grid) - number] += negative
        _refuse(who, self.grid, samples, missing, outside, samples - labelled)
        return Counts(tp=np.cumsum(tp), fp=np.cumsum(fp), grid=self.grid)


def _refuse(who: str, grid: Grid, samples: int, missing: int, outside: int, unlabelled: int) -> None:
    """Refuse what cannot be counted; rows of a query have no numbers to name them by."""
    if not samples:
        raise InputError(f"{who}: there are no rows. Give at least one label and score.")
    wanted = "in [0, 1]" if grid.scores == "probability" else "a finite number"
    for bad, fault in (
        (missing, "has no score"),
        (outside, f"has a score that is not {wanted}"),
        (unlabelled, "has a label that is missing, or neither 0 nor 1"),
    ):
        if bad:
            more = f" ({bad:,} of {samples:,} rows)" if bad > 1 else ""
            raise InputError(f"{who}: a row {fault}{more}. Nothing was sent; leave such rows out of the query.")


def postgresql(bins: Bins, rows: str, label: str, score: str) -> str:
    """The SELECT for PostgreSQL, over a subquery `rows` with the expressions `label` and `score`.

    A subquery whose output holds a volatile function is planned by itself: the planner then expects few groups, which
    is right, instead of one for each score, and lets all of its workers count. The function is the cheapest of those
    that workers may call.
    """
    limits = ",".join(map(repr, bins.limits.tolist())).replace("inf", "Infinity")
    number = f"width_bucket({score}, '{{{limits}}}'::float8[])"
    return _grouped(f"SELECT {number} AS bin, {label} AS y, pg_is_in_recovery() AS apart FROM {rows}")


def duckdb(bins: Bins, rows: str, label: str, score: str) -> str:
    """The SELECT for DuckDB, which has no such function: comparisons in a balanced tree."""
    inner = f"SELECT {score} AS s, {label} AS y FROM {rows}"
    tree = _tree([repr(limit) for limit in bins.limits.tolist()], 0)
    return _grouped(f"SELECT CASE WHEN s IS NULL THEN NULL ELSE {tree} END AS bin, y FROM ({inner}) AS scored")


def _grouped(numbered: str) -> str:
    return (
        "SELECT bin, count(*) AS n, count(*) FILTER (WHERE y = 1) AS p, count(*) FILTER (WHERE y = 0) AS q "
        f"FROM ({numbered}) AS numbered GROUP BY bin"
    )


def _tree(limits: Sequence[str], below: int) -> str:
    """How many limits s is not below, given that it is not below `below` others."""
    if not limits:
        return str(below)
    middle = len(limits) // 2
    under, over = _tree(limits[:middle], below), _tree(limits[middle + 1 :], below + middle + 1)
    return f"CASE WHEN s >= '{limits[middle]}'::DOUBLE THEN {over} ELSE {under} END"


PUSHDOWN = {"postgresql": postgresql, "duckdb": duckdb}
