"""A thousand members: their vaults' cores and relays behind a few processes, connected to one hub.

As a program it is one of these processes: it serves a share of the members until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.serialization import Encoding

from fheval.consortium import Identity, Kit, MemberRecord, Policy, Rules, TransportFiles, install_policy
from fheval.consortium.authority import Authority, create_authority, load_authority
from fheval.consortium.enrolment import enrol_aggregator
from fheval.consortium.files import write_public
from fheval.consortium.kit import install_study
from fheval.consortium.member_keys import (
    OPENING_KEY,
    SIGNING_KEY,
    TRANSPORT_DIRECTORY,
    TRANSPORT_KEY,
    MemberKeys,
    read_opening_key,
    read_signing_key,
)
from fheval.direct import relay as relay_module
from fheval.direct.relay import Relay
from fheval.direct.signals import while_open
from fheval.engines import load_engine
from fheval.party.accepted import Acceptance, AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.core import VaultCore
from fheval.party.ledger import Ledger
from fheval.party.prepare import accept_study
from fheval.secrets import SystemRandomness
from fheval.study import Study

STUDY = "crowd"
DAYS = 2
ROWS = 40


def now() -> datetime:
    return datetime.now(timezone.utc)


def names_of(members: int) -> list[str]:
    return [f"m{number:04d}" for number in range(members)]


def found(root: Path, members: int) -> None:
    """An authority, the keys of all members, the hub's kit, a policy, and one signed study."""
    authority = create_authority(root / "authority", "Crowd", now=now() - timedelta(hours=1))
    issuer = authority.issuer(now=now())
    for name in names_of(members):
        keys, folder = MemberKeys.generate(), root / name
        folder.mkdir(mode=0o700)
        keys.write(folder)
        certificate = issuer.member(name, keys.signing.reveal().public_key(), now=now(), days=DAYS)
        transport = issuer.transport(name, keys.supernode.reveal().public_key(), now=now(), days=DAYS)
        write_public(folder / TRANSPORT_DIRECTORY / "certificate.pem", transport.public_bytes(Encoding.PEM))
        write_public(folder / TRANSPORT_DIRECTORY / "authority.pem", authority.anchor.authority_pem)
        authority.register(keys.record(name, certificate), renew=False)
        _write_scores(folder / "scores.csv", int(name[1:]))
    enrol_aggregator(authority, "hub", ["127.0.0.1"], root / "hub", certificate_pem=None, now=now(), days=DAYS)
    authority.sign_next_policy(Rules(releases_per_lineage=100_000), now=now(), days=DAYS)
    signed = authority.policy_bytes()
    assert signed is not None
    install_policy(root / "hub", signed, now=now())
    study = Study.of(name=STUDY, metrics=["auc"], protocol="padded", decision_points=100, reveals="counts", rounds=1000)
    install_study(root / "hub", authority.sign_study(study)[1])


def _write_scores(path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, ROWS)
    scores = np.clip(draw.normal(0.35 + 0.3 * labels, 0.2), 0, 1)
    path.write_text("label,score\n" + "".join(f"{a},{b:.6f}\n" for a, b in zip(labels, scores, strict=True)))


def core_of(root: Path, authority: Authority, policy: Policy, record: MemberRecord, signed: bytes) -> VaultCore:
    """The vault of one member, without its socket. All of a process share the policy, which is checked once."""
    folder = root / record.name
    identity = Identity(
        record=record,
        anchor=authority.anchor,
        signing_key=read_signing_key(folder / SIGNING_KEY),
        opening_key=read_opening_key(folder / OPENING_KEY),
    )
    ledger = Ledger.open(folder / "ledger.sqlite")
    studies = AcceptedStudies.open(folder / "studies.sqlite")
    data = str(folder / "scores.csv")
    acceptance = Acceptance(signed=signed, data=data, columns=StudyColumns(), lineage="trial")
    accept_study(studies, acceptance, SystemRandomness(), now=now())
    engine = load_engine("seal")
    kit = Kit(directory=folder, identity=identity, policy=policy)
    return VaultCore(kit, ledger, studies, {engine.name: engine})


def relay_of(root: Path, name: str, hub: str) -> Relay:
    transport = root / name / TRANSPORT_DIRECTORY
    files = TransportFiles(
        key=transport / TRANSPORT_KEY,
        certificate=transport / "certificate.pem",
        authority=transport / "authority.pem",
    )
    return Relay(hub=hub, files=files, vault=Path(name), say=lambda _: None)


async def serve(root: Path, names: list[str], hub: str, handlers: Mapping[str, Callable[[bytes], bytes]]) -> None:
    """The relays of these members, whose vaults are in this process."""

    def ask(vault: Path, data: bytes) -> bytes:
        return handlers[vault.name](data)

    setattr(relay_module, "ask", ask)  # noqa: B010 (a name that the module does not offer)

    async def one(number: int, name: str) -> None:
        # A hundred a second: who all come from one address at once are taken for an attack.
        await asyncio.sleep(number / 50)
        await relay_of(root, name, hub).run()

    await asyncio.gather(*(one(number, name) for number, name in enumerate(names)), return_exceptions=True)


def main() -> None:
    """Arguments: the folder, the hub's address, how many members there are, this share's number, how many shares."""
    root, hub, members, share, shares = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])
    os.nice(5)
    authority = load_authority(root / "authority")
    policy = authority.policy()
    assert policy is not None
    (signed,) = authority.studies()
    names = names_of(members)[share::shares]
    records = {record.name: record for record in policy.members}
    handlers = {name: core_of(root, authority, policy, records[name], signed).handle for name in names}
    print("ready", flush=True)
    asyncio.run(while_open(sys.stdin, serve(root, names, hub, handlers)))


if __name__ == "__main__":
    main()
