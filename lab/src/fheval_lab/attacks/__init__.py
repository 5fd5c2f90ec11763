"""The adversary suite: an aggregator that deviates, and key holders and an aggregator that are curious.

`catalogue` lists the strategies, `suite` tries them, `findings` puts everything together that concerns one protocol.
"""

from __future__ import annotations

from fheval_lab.attacks.catalogue import STRATEGIES, strategies_named
from fheval_lab.attacks.consortium import Consortium
from fheval_lab.attacks.findings import Findings, experiments
from fheval_lab.attacks.suite import DEFAULT_TRIES, Suite, run_suite

__all__ = [
    "DEFAULT_TRIES",
    "STRATEGIES",
    "Consortium",
    "Findings",
    "Suite",
    "experiments",
    "run_suite",
    "strategies_named",
]
