"""Parties on disk for tests without processes of their own: kits, data and the aggregator's kit, valid today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from fheval.aggregator.orders import Order
from fheval.consortium import Rules, install_policy, install_study
from fheval.consortium.authority import create_authority
from fheval.consortium.enrolment import enrol_aggregator, enrol_with_new_keys
from fheval.counting import Counts, Grid
from fheval.party.accepted import Acceptance, AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.ledger import Ledger
from fheval.party.prepare import accept_study
from fheval.protocols.round import Verdict
from fheval.secrets import SystemRandomness
from fheval.study import Study

POINTS = 50
ROWS = 40


@dataclass(frozen=True)
class Parties:
    """A directory for each member, with `kit`, `data.csv` and, once it has answered, `ledger.db`."""

    root: Path
    members: tuple[str, ...]

    def order(self, protocol: str, *, timeout: float = 30.0) -> Order:
        return Order(
            kit=str(self.root / "hub"),
            members=self.members,
            study=protocol,
            engine=None,
            timeout=timeout,
            patience=5.0,
        )

    def verdicts(self, name: str) -> list[Verdict | None]:
        """How this member's rounds ended."""
        with Ledger.read(self.root / name / "ledger.db") as ledger:
            return [each.verdict for each in ledger.history()]

    def pooled(self, names: Sequence[str] | None = None) -> float:
        """The AUC of these members' data together."""
        columns = [
            np.loadtxt(self.root / name / "data.csv", delimiter=",", skiprows=1) for name in names or self.members
        ]
        rows = np.concatenate(columns)
        return float(Counts.from_scores(rows[:, 0].astype(int), rows[:, 1], Grid.even(POINTS)).auc())


def make_parties(root: Path, number: int) -> Parties:
    """Enrol so many members, and give each some rows."""
    now = datetime.now(timezone.utc)
    authority = create_authority(root / "authority", "Trial", now=now)
    members = tuple(f"member-{index:03}" for index in range(number))
    generator = np.random.default_rng(7)
    for name in members:
        (root / name).mkdir(mode=0o700)
        enrol_with_new_keys(authority, name, root / name / "kit", renew=False, now=now, days=2)
        labels = generator.integers(0, 2, ROWS)
        scores = np.clip(0.3 * labels + 0.7 * generator.random(ROWS), 0, 1)
        lines = [f"{label},{score:.6f}\n" for label, score in zip(labels, scores, strict=True)]
        (root / name / "data.csv").write_text("label,score\n" + "".join(lines))
    enrol_aggregator(authority, "hub", ["127.0.0.1"], root / "hub", certificate_pem=None, now=now, days=2)
    authority.sign_next_policy(Rules(), now=now, days=2)
    policy = authority.policy_bytes()
    assert policy is not None
    for directory in [root / "hub", *(root / name / "kit" for name in members)]:
        install_policy(directory, policy, now=now)
    for protocol in ("padded", "padded-verified"):
        options: dict[str, Any] = {"runs": 3} if protocol == "padded-verified" else {}
        grid = Grid.even(POINTS)
        study = Study.of(name=protocol, protocol=protocol, decision_points=grid, reveals="counts", **options)
        _, signed = authority.sign_study(study)
        install_study(root / "hub", signed)
        for name in members:
            acceptance = Acceptance(
                signed=signed, data=str(root / name / "data.csv"), columns=StudyColumns(), lineage="trial"
            )
            with AcceptedStudies.open(root / name / "studies.db") as studies:
                accept_study(studies, acceptance, SystemRandomness(), now=now)
    return Parties(root, members)
