"""Putting a newer signed policy into a kit, a member's or the aggregator's."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from fheval.consortium import aggregator_kit, kit
from fheval.consortium.authority import Authority
from fheval.consortium.files import check_private_directory, replace_public
from fheval.consortium.policy import Policy


def install_policy(directory: Path, data: bytes, *, now: datetime) -> Policy:
    """Put a newer signed policy into a kit; older, foreign, altered and expired ones are refused."""
    check_private_directory(directory)
    policy = kit.check_new_policy(directory, data, kit.read_anchor(directory), now=now)
    if (directory / aggregator_kit.SERVER_CERTIFICATE).exists():
        aggregator_kit.write_supernode_keys(directory, policy)
    replace_public(directory / kit.POLICY, data)
    return policy


def update_local_kits(authority: Authority, *, now: datetime) -> list[Path]:
    """Put the current policy into the kits that still lie with the authority; return their directories."""
    data = authority.policy_bytes()
    if data is None:
        return []
    kits = sorted(path.parent for path in authority.kits_directory().glob(f"*/{kit.POLICY_KEY}"))
    for directory in kits:
        install_policy(directory, data, now=now)
    return kits
