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

    def as_json(self) -> str:
        return msgspec.json.encode(self).decode()


def overview(authority: Authority, *, now: datetime) -> Overview:
    """What an authority's directory holds, and whether it is valid at this moment."""
    policy = authority.policy()
    listed = set() if policy is None else {(record.name, record.certificate) for record in policy.members}
    members = [
        _entry(authority, record.name, "member", record.x509(), (record.name, record.certificate) in listed, now)
        for record in authority.members()
    ]
    aggregators = [
        _entry(authority, name, "aggregator", certificate, False, now)
        for name, certificate in authority.aggregators().items()
    ]
    return Overview(
        consortium=authority.consortium,
        authority=authority.anchor.fingerprint(),
        issues=authority.key is not None,
        policy=None if policy is None else _policy(policy),
        entries=members + aggregators,
    )


def _entry(
    authority: Authority, name: str, role: str, certificate: x509.Certificate, in_policy: bool, now: datetime
) -> Entry:
    return Entry(
        name=name,
        role=role,
        state=_state(certificate, authority.anchor.authority(), now),
        not_after=_text(certificate.not_valid_after_utc),
        fingerprint=certificate.fingerprint(SHA256()).hex(),
        in_policy=in_policy,
    )


def _state(certificate: x509.Certificate, authority: x509.Certificate, now: datetime) -> str:
    try:
        certificates.check_issuer(certificate, authority)
    except ConfigError:
        return "foreign"
    if now > certificate.not_valid_after_utc:
        return "expired"
    return "valid" if now >= certificate.not_valid_before_utc else "not yet valid"


def _policy(policy: Policy) -> dict[str, object]:
    facts: dict[str, object] = {
        "version": policy.version,
        "not_before": _text(datetime.fromtimestamp(policy.not_before, timezone.utc)),
        "not_after": _text(datetime.fromtimestamp(policy.not_after, timezone.utc)),
        "members": [record.name for record in policy.members],
        "hash": policy.hash().hex(),
    }
    rules = policy.rules
    return facts | {field: getattr(rules, field) for field in rules.__struct_fields__}


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
