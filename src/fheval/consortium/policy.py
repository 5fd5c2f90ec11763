"""The policy: who is a member and what holds for all rounds, signed by the consortium's authority.

Members believe neither the aggregator's roster nor its description of a round; they check both against the
policy. A policy is replaced as a whole by one of a higher version, and a member is removed by a version
that does not list it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import inf

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fheval.consortium.certificates import to_the_minute
from fheval.consortium.records import MemberRecord, Timestamp, TrustAnchor, digest, domain
from fheval.errors import CohortTooSmall, ConfigError, RemoteProtocolError
from fheval.privacy.accounting import Cost, epsilon_of
from fheval.secrets import Secret
from fheval.study import Study
from fheval.wire import Message, decode, encode

_SIGNED = "policy"


class Rules(Message, frozen=True, kw_only=True):
    """What holds for all studies together: the fewest parties of a round, and what a lineage may release in all.

    Rounds under noise spend privacy: at most (`epsilon_per_lineage`, `delta_per_lineage`), all of them together.
    """

    minimum_cohort: int = 3
    releases_per_lineage: int = 10
    epsilon_per_lineage: float = 10.0
    delta_per_lineage: float = 1e-6

    def check(self) -> None:
        _require(self.minimum_cohort >= 2, "The minimum cohort must be at least 2 parties")
        _require(self.releases_per_lineage >= 1, "At least one release per lineage must be allowed")
        _require(0 < self.epsilon_per_lineage < inf, "A lineage needs some epsilon to spend")
        _require(0 < self.delta_per_lineage < 1, "A lineage's delta lies between 0 and 1")


class RosterContent(Message, frozen=True, kw_only=True):
    """What the roster hash covers: the names in order, each with its certificate's fingerprint."""

    members: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Roster:
    """The members of one round, in the order of their names; `Policy.roster` makes it."""

    members: tuple[MemberRecord, ...]

    def hash(self) -> bytes:
        """The digest that messages and bundles are bound to."""
        return _roster_hash(self.members)

    def names(self) -> tuple[str, ...]:
        return tuple(record.name for record in self.members)

    def member(self, name: str) -> MemberRecord:
        for record in self.members:
            if record.name == name:
                return record
        raise RemoteProtocolError(
            f"{name!r} is not on the roster of this round. Its message was ignored.", step="roster", culprit=name
        )


class Policy(Message, frozen=True, kw_only=True):
    """One version of the consortium's rules and members."""

    consortium: str
    version: int
    not_before: Timestamp
    not_after: Timestamp
    members: tuple[MemberRecord, ...]
    rules: Rules

    def hash(self) -> bytes:
        """The digest that bundles are bound to."""
        return _policy_hash(self)

    def member(self, name: str) -> MemberRecord:
        return self._members([name])[0]

    def roster(self, names: Sequence[str]) -> Roster:
        """Turn a round's names into records; unknown or repeated names and a small cohort are refused."""
        if len(set(names)) != len(names):
            raise _broken("The roster names a member twice")
        members = self._members(sorted(names))
        if len(members) < self.rules.minimum_cohort:
            raise CohortTooSmall(
                f"The round has {len(members)} parties and the policy asks for at least "
                f"{self.rules.minimum_cohort}: nothing is released. Wait until more members are there."
            )
        return Roster(members)

    def check_round(self, study: Study, parties: Sequence[str], *, now: datetime) -> Roster:
        """Refuse a round of a study that breaks a rule, and return the roster of one that breaks none."""
        self.check_dates(now=now)
        cohort, least = study.minimum_cohort, self.rules.minimum_cohort
        if cohort < least:
            raise _broken(f"The round would go on with {cohort} parties; the policy asks for at least {least}")
        return self.roster(parties)

    def check_dates(self, *, now: datetime) -> None:
        which, start, end = f"Policy version {self.version}", self.not_before, self.not_after
        if now.timestamp() > end:
            advice = "Ask the consortium's authority for a new version."
            raise _broken(f"{which} expired on {to_the_minute(end)}", advice)
        if now.timestamp() < start:
            raise _broken(f"{which} is not valid before {to_the_minute(start)}", "Check this machine's clock.")

    def check_release(self, released_before: int) -> None:
        """Refuse one more release from a lineage of data that has used up its releases."""
        most = self.rules.releases_per_lineage
        if released_before >= most:
            raise _broken(f"This lineage has had {released_before} releases; {most} are allowed")

    def check_privacy(self, costs: Sequence[Cost]) -> None:
        """Refuse a round under noise with which a lineage would have spent more of its privacy than it may.

        What was spent is a public fact: it follows from which rounds were asked for, and from nobody's data.
        """
        spent, most = epsilon_of(costs, self.rules.delta_per_lineage), self.rules.epsilon_per_lineage
        # The slack is for what floating point makes of ten rounds of 0.1.
        if spent > most * (1 + 1e-9):
            raise _broken(f"With this round the lineage would have spent ε = {spent:.3g}; {most:g} are allowed")

    def check_succeeds(self, older: Policy) -> None:
        """Refuse to replace a policy by an older or equal version, or by another consortium's."""
        if self.consortium != older.consortium:
            raise _broken(f"The policy is of {self.consortium}, not of {older.consortium}", culprit="authority")
        if self.version <= older.version:
            what = f"Policy version {self.version} does not replace version {older.version}"
            raise _broken(what, "Only a higher version does.", culprit="authority")

    def _members(self, names: Sequence[str]) -> tuple[MemberRecord, ...]:
        known = {record.name: record for record in self.members}
        for name in names:
            if name not in known:
                raise _broken(f"{name!r} is not a member of {self.consortium} under policy version {self.version}")
        return tuple(known[name] for name in names)


# A vault needs both at every stage of a round, and either takes a look at every member.
@lru_cache(maxsize=16)
def _roster_hash(members: tuple[MemberRecord, ...]) -> bytes:
    return digest("roster", encode(RosterContent(members=tuple((each.name, each.fingerprint()) for each in members))))


@lru_cache(maxsize=16)
def _policy_hash(policy: Policy) -> bytes:
    return digest(_SIGNED, encode(policy))


class SignedPolicy(Message, frozen=True, kw_only=True):
    """A policy's canonical bytes and the authority's Ed25519 signature over them."""

    policy: bytes
    signature: bytes


def sign_policy(policy: Policy, key: Secret[Ed25519PrivateKey], anchor: TrustAnchor) -> bytes:
    """Authority: check a policy and sign it."""
    _check_content(policy, anchor)
    body = encode(policy)
    return encode(SignedPolicy(policy=body, signature=key.reveal().sign(domain(_SIGNED) + body)))


def open_policy(data: bytes, anchor: TrustAnchor) -> Policy:
    """Member: read a policy, or refuse one that the authority did not sign; dates are checked at use."""
    signed = decode(data, SignedPolicy, sender="authority")
    try:
        anchor.policy_key.verify(signed.signature, domain(_SIGNED) + signed.policy)
    except InvalidSignature:
        what = "The policy was not signed by this consortium's authority, or was altered afterwards"
        raise _broken(what, "Get it from the authority again.", culprit="authority") from None
    policy = decode(signed.policy, Policy, sender="authority")
    if encode(policy) != signed.policy:
        raise _broken("The policy is not in canonical form", culprit="authority")
    try:
        _check_content(policy, anchor)
    except ConfigError as error:
        raise RemoteProtocolError(str(error), step="policy", culprit="authority") from error
    return policy


def _check_content(policy: Policy, anchor: TrustAnchor) -> None:
    policy.rules.check()
    _require(policy.version >= 1, "A policy's version starts at 1")
    _require(policy.not_before < policy.not_after, "A policy must begin before it ends")
    members, cohort = len(policy.members), policy.rules.minimum_cohort
    lists = f"The policy lists {members} members and asks for a cohort of {cohort}"
    _require(members >= cohort, f"{lists}: no round could run. Enrol more members first")
    for record in policy.members:
        anchor.check_issued(record)
    _check_distinct(policy.members)


def _check_distinct(members: Sequence[MemberRecord]) -> None:
    # Two members who share a key could speak for each other, or count as two in a cohort of one.
    parts: dict[str, Callable[[MemberRecord], object]] = {
        "name": lambda record: record.name,
        "signing key": lambda record: record.signing_key().public_bytes_raw(),
        "sealing key": lambda record: record.sealing_key,
        "SuperNode key": lambda record: record.supernode_key,
    }
    for part, of in parts.items():
        _require(len({of(record) for record in members}) == len(members), f"Two members have the same {part}")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConfigError(f"{otherwise}. The policy was not accepted.")


def _broken(
    what: str,
    advice: str = "The round was refused; a change of the rules needs a new policy from the authority.",
    *,
    culprit: str = "aggregator",
) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what}. {advice}", step="policy", culprit=culprit)
