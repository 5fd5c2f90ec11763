"""How likely a cheating aggregator is to pass: the paper's bound at its three examples, and ours."""

from __future__ import annotations

from collections.abc import Sequence

from fheval.metrics.registry import auc_batch
from fheval.protocols import padded_verified, paper_malicious
from fheval.protocols.round import DEFAULT_MAX_SAMPLES
from fheval_lab.reproduce.cells import Cell, Plan
from fheval_lab.reproduce.printed import SOUNDNESS_BITS
from fheval_lab.reproduce.rows import Row


def plan() -> Plan:
    """One cell: these are formulas."""
    return Plan((Cell(name="security", weight=0.1, work=bounds),))


def bounds() -> Sequence[Row]:
    """x for a bound of 2^-x."""
    rows = [
        Row(
            decision_points=points,
            column=f"{paper_malicious.NAME} S={splits}",
            value=paper_malicious.soundness_bits(points, splits),
            printed=float(said),
            unit="bits",
        )
        for (points, splits), said in SOUNDNESS_BITS.items()
    ]
    bound = auc_batch(2, DEFAULT_MAX_SAMPLES).forms[0].bound
    for runs in (1, 2, 3):
        primes = padded_verified.enough_primes(bound, runs)
        column = f"{padded_verified.NAME} primes={len(primes)} runs={runs}"
        bits = padded_verified.soundness_bits(bound, primes, runs)
        rows.append(Row(column=column, value=bits, unit="bits", note="whatever the number of decision points"))
    return rows
