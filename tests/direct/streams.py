"""A hub on loopback and relays to vaults that echo, all in one event loop, for the tests of the transport itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import (
    MemberRecord,
    Rules,
    TransportFiles,
    install_policy,
    load_aggregator_kit,
    transport_files,
)
from fheval.consortium.authority import Authority, create_authority
from fheval.consortium.enrolment import enrol_aggregator, enrol_with_new_keys
from fheval.direct.hub import Hub, listening
from fheval.direct.relay import Relay
from fheval.party.listening import listening as listening_on
from fheval.party.server import VaultServer
from fheval.protocols.base import Stage

NAMES = ("alder", "birch", "cedar")


def now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass
class Consortium:
    """An authority, kits, and vaults that answer each request with their name in front of it."""

    root: Path
    authority: Authority
    said: dict[str, list[str]] = field(default_factory=dict)

    def files(self, name: str) -> TransportFiles:
        return transport_files(self.root / name / "transport")

    def socket(self, name: str) -> Path:
        return self.root / name / "vault.sock"

    def exchange(self, body: bytes = b"hello", names: Sequence[str] = NAMES) -> Exchange:
        return Exchange(stage=Stage.HELLO, round="trial", requests=dict.fromkeys(names, body))

    def relay(self, name: str, port: int, *, host: str = "127.0.0.1", files: TransportFiles | None = None) -> Relay:
        said = self.said.setdefault(name, [])
        return Relay(hub=f"{host}:{port}", files=files or self.files(name), vault=self.socket(name), say=said.append)

    def sign(self, remove: Sequence[str] = ()) -> None:
        self.authority.sign_next_policy(Rules(), now=now(), days=2, remove=remove)
        self.authority.update_local_kits(now=now())

    @contextmanager
    def vault(self, name: str, handle: Callable[[bytes], bytes] | None = None) -> Iterator[None]:
        with (
            listening_on(self.socket(name)) as listener,
            VaultServer(handle or (lambda data: name.encode() + b":" + data), listener, seconds=5.0) as server,
        ):
            serving = threading.Thread(target=server.serve)
            serving.start()
            try:
                yield
            finally:
                server.stop()
                serving.join()

    @asynccontextmanager
    async def hub(self, port: int = 0) -> AsyncIterator[tuple[Hub, int]]:
        hub = Hub(lambda: {each.name: each for each in self._policy_members()})
        async with self.listening(hub, port) as bound:
            yield hub, bound

    @asynccontextmanager
    async def listening(self, hub: Hub, port: int = 0) -> AsyncIterator[int]:
        kit = load_aggregator_kit(self.root / "hub", now=now())
        async with listening(hub, kit, self.root / "hub" / "authority.pem", "127.0.0.1", port) as bound:
            yield bound

    def _policy_members(self) -> Sequence[MemberRecord]:
        policy = self.authority.policy()
        assert policy is not None
        return policy.members

    @asynccontextmanager
    async def relays(self, port: int, names: Sequence[str] = NAMES) -> AsyncIterator[dict[str, asyncio.Task[None]]]:
        tasks = {name: asyncio.create_task(self.relay(name, port).run()) for name in names}
        try:
            yield tasks
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)


def make_consortium(root: Path, names: Sequence[str] = NAMES, *, days: int = 2) -> Consortium:
    authority = create_authority(root / "authority", "Trial", now=now() - timedelta(days=1))
    for name in names:
        enrol_with_new_keys(authority, name, root / name, renew=False, now=now(), days=days)
    enrol_aggregator(authority, "hub", ["127.0.0.1"], root / "hub", certificate_pem=None, now=now(), days=2)
    made = Consortium(root, authority)
    authority.sign_next_policy(Rules(), now=now(), days=2)
    signed = authority.policy_bytes()
    assert signed is not None
    for name in ("hub", *names):
        install_policy(root / name, signed, now=now())
    return made
