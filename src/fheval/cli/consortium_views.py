"""What `fheval consortium list` shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Certificate
from rich import box
from rich.console import Console
from rich.table import Column, Table

from fheval.consortium import certificates
from fheval.consortium.authority import Authority
from fheval.consortium.policy import Policy
from fheval.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member or aggregator; `state` is valid, expired, not yet valid or foreign."""

    name: str
    role: str
    state: str
    not_after: str
    fingerprint: str
    in_policy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """An authority, its policy and everybody that it enrolled; `issues` tells whether its key is here."""

    consortium: str
    authority: str
    issues: bool
    policy: dict[str, object] | None
    entries: list[Entry]


def overview(authority: Authority, *, now: datetime) -> Overview:
    """Everybody that the authority enrolled, and its policy."""
    policy = authority.policy()
    listed = () if policy is None else [record.x509() for record in policy.members]
    enrolled = [(record.name, "member", record.x509()) for record in authority.members()]
    enrolled += [(name, "aggregator", certificate) for name, certificate in authority.aggregators().items()]
    return Overview(
        consortium=authority.consortium,
        authority=authority.anchor.fingerprint(),
        issues=authority.key is not None,
        policy=None if policy is None else _facts(policy),
        entries=[
            Entry(
                name=name,
                role=role,
                state=_state(certificate, authority.anchor.authority(), now),
                not_after=_text(certificate.not_valid_after_utc),
                fingerprint=certificate.fingerprint(SHA256()).hex(),
                in_policy=certificate in listed,
            )
            for name, role, certificate in enrolled
        ],
    )


def _state(certificate: Certificate, authority: Certificate, now: datetime) -> str:
    try:
        certificates.check_issuer(certificate, authority)
    except ConfigError:
        return "foreign"
    if now > certificate.not_valid_after_utc:
        return "expired"
    return "valid" if now >= certificate.not_valid_before_utc else "not yet valid"


def _facts(policy: Policy) -> dict[str, object]:
    return {
        "version": policy.version,
        "not_before": _text(datetime.fromtimestamp(policy.not_before, timezone.utc)),
        "not_after": _text(datetime.fromtimestamp(policy.not_after, timezone.utc)),
        "members": [record.name for record in policy.members],
        "hash": policy.hash().hex(),
        **msgspec.structs.asdict(policy.rules),
    }


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def show_overview(found: Overview) -> None:
    """Print it for people."""
    console = Console()
    console.print(f"{found.consortium}, authority {found.authority}", markup=False, highlight=False)
    if found.policy is None:
        console.print("No policy has been signed yet.")
    else:
        rules = Table("policy", str(found.policy["version"]), box=box.SIMPLE_HEAD)
        for rule, value in found.policy.items():
            if rule not in {"version", "members"}:
                rules.add_row(rule.replace("_", " "), _shown(value))
        console.print(rules)
    names = Column("name", overflow="fold")
    table = Table(names, "role", "certificate", "valid until", "in policy", box=box.SIMPLE_HEAD)
    for entry in found.entries:
        in_policy = "" if entry.role == "aggregator" else _shown(entry.in_policy)
        table.add_row(entry.name, entry.role, entry.state, entry.not_after.partition("T")[0], in_policy)
    console.print(table)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if value is None:
        return "exact"
    return ", ".join(value) if isinstance(value, tuple) else str(value)
