"""How likely a cheating aggregator is to pass: the paper's bound at its three examples, and ours."""

from __future__ import annotations

from collections.abc import Sequence

from fheval.engines.parameters import plain_moduli
from fheval.experiments.reproduce.cells import Cell
from fheval.experiments.reproduce.experiment import Plan
from fheval.experiments.reproduce.printed import SOUNDNESS_BITS
from fheval.experiments.reproduce.rows import Row
from fheval.protocols import padded_verified, paper_malicious

RUNS = (2, 3, 4)


def plan() -> Plan:
    """One cell: these are formulas."""
    return Plan((Cell(name="security", weight=0.1, work=bounds),))


def bounds() -> Sequence[Row]:
    """x for a bound of 2^-x."""
    papers = [
        Row(
            decision_points=points,
            column=f"{paper_malicious.NAME} S={splits}",
            value=paper_malicious.soundness_bits(points, splits),
            printed=float(said),
            unit="bits",
        )
        for (points, splits), said in SOUNDNESS_BITS.items()
    ]
    prime = min(plain_moduli(4))
    verified = [
        Row(
            column=f"{padded_verified.NAME} runs={runs}",
            value=padded_verified.soundness_bits(runs, prime),
            unit="bits",
            note="whatever the number of decision points",
        )
        for runs in RUNS
    ]
    return papers + verified
