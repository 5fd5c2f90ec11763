"""Keys and identities of a consortium: authority, kits, signed policy, signatures, key bundles.

The parts that the rest of fheval uses; `README.md` beside this file says how they fit together.
"""

from __future__ import annotations

from fheval.consortium.bundle import BundleContext, bundle_id, open_bundle, seal_bundle
from fheval.consortium.identity import Identity, sign, verify
from fheval.consortium.kit import (
    AggregatorKit,
    Kit,
    LedgerPlace,
    TransportFiles,
    install_policy,
    install_study,
    ledger_place,
    load_aggregator_kit,
    load_kit,
    place_ledger,
    transport_files,
)
from fheval.consortium.policy import Policy, Roster, Rules
from fheval.consortium.records import MemberRecord, TrustAnchor
from fheval.consortium.signed_study import check_study, open_study

__all__ = [
    "AggregatorKit",
    "BundleContext",
    "Identity",
    "Kit",
    "LedgerPlace",
    "MemberRecord",
    "Policy",
    "Roster",
    "Rules",
    "TransportFiles",
    "TrustAnchor",
    "bundle_id",
    "check_study",
    "install_policy",
    "install_study",
    "ledger_place",
    "load_aggregator_kit",
    "load_kit",
    "open_bundle",
    "open_study",
    "place_ledger",
    "seal_bundle",
    "sign",
    "transport_files",
    "verify",
]
