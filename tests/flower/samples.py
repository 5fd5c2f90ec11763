"""An order and the summary of a round, for tests that need some."""

from __future__ import annotations

from fheval.aggregator.orders import Order, Summary, TriedRound

ORDER = Order(
    kit="/kits/hub",
    members=("alder", "birch", "cedar"),
    study="spring",
    engine=None,
    timeout=30.0,
    patience=5.0,
)

SUMMARY = Summary(
    round="ab" * 16,
    protocol="padded",
    engine="seal",
    decision_points=1000,
    precision=1e-4,
    roster=("member-000", "member-001"),
    dropouts=("member-002",),
    confirmed=("member-000", "member-001"),
    unconfirmed=(),
    leader="member-001",
    attempts=(
        TriedRound(round="cd" * 16, leader="member-002", failure="the leader member-002 failed.", void=True),
        TriedRound(round="ab" * 16, leader="member-001", failure=None, void=False),
    ),
    exchanges=7,
    seconds={"total": 31.4, "submit": 9.0},
    bytes={"sent": 1, "received": 2},
    fheval="0",
)
