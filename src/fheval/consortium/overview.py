"""The state of a consortium as plain data, for people's tables and machines' JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

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
    """What an authority's directory holds, and whether it is valid at this moment."""
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


def _state(certificate: x509.Certificate, authority: x509.Certificate, now: datetime) -> str:
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
