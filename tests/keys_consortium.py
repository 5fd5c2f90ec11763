"""A small consortium on disk for the tests of keys: an authority, three kits and an aggregator's kit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from fheval.consortium import BundleContext, Kit, Rules, load_kit
from fheval.consortium.authority import Authority, create_authority
from fheval.consortium.enrolment import enrol_aggregator, enrol_with_new_keys

NOW = datetime(2031, 5, 17, 12, 0, tzinfo=timezone.utc)
DAY = timedelta(days=1)
NAMES = ("alder", "birch", "cedar")


@dataclass(frozen=True)
class Consortium:
    authority: Authority

    def path(self, name: str) -> Path:
        return self.authority.kits_directory() / name

    def kit(self, name: str, now: datetime = NOW) -> Kit:
        return load_kit(self.path(name), now=now)

    def enrol(self, name: str, *, days: int = 365, now: datetime = NOW) -> None:
        enrol_with_new_keys(self.authority, name, self.path(name), renew=False, now=now, days=days)

    def sign(self, rules: Rules | None = None, *, now: datetime = NOW, days: int = 365) -> bytes:
        self.authority.sign_next_policy(rules or Rules(), now=now, days=days)
        self.authority.update_local_kits(now=now)
        signed = self.authority.policy_bytes()
        assert signed is not None
        return signed

    def context(self, epoch: str = "epoch-1") -> BundleContext:
        policy = self.authority.policy()
        assert policy is not None
        return BundleContext(epoch=epoch, roster_hash=policy.roster(NAMES).hash(), policy_hash=policy.hash())


def consortium(directory: Path, *, rules: Rules | None = None, now: datetime = NOW) -> Consortium:
    made = Consortium(create_authority(directory, "Trial", now=now))
    for name in NAMES:
        made.enrol(name, now=now)
    enrol_aggregator(
        made.authority,
        "hub",
        ["127.0.0.1", "localhost"],
        made.path("hub"),
        certificate_pem=None,
        now=now,
        days=365,
    )
    made.sign(rules, now=now)
    return made
