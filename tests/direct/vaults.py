"""Vaults as processes, and the test as their aggregator: it asks on their sockets, as a relay does for the hub."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from typing import Any

import pytest

from fheval.aggregator.conductor import Report, conduct, drive
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import load_aggregator_kit
from fheval.engines import load_engine
from fheval.party.client import ask
from fheval.protocols.base import Stage
from fheval.secrets import SystemRandomness
from fheval.study import Study
from flower.loopback import FHEVAL, Loopback, Program


class Vaults(Loopback):
    """The vaults alone, as processes; nobody relays for them but the test."""

    def start(self) -> None:
        for name in self.members:
            self.start_vault(name)
        for name in self.members:
            self.programs[f"vault-{name}"].wait_for("listens on")

    def restart(self, name: str, without: str | None = None) -> None:
        """Stop a vault if it runs, and start it again; without this guard of `direct.weakened`, if one is named."""
        old = self.programs[f"vault-{name}"]
        if old.process.poll() is None:
            assert old.stop() == 0, old.text()
        starts = old.text().count("listens on")
        command = (FHEVAL,) if without is None else (sys.executable, "-m", "direct.weakened", without)
        place = ("vault", "--kit", str(self.kit(name)))
        started = Program(old.log, *place, command=command)
        self.programs[f"vault-{name}"] = started
        started.wait_for("listens on", times=starts + 1)

    def handle(self, name: str, data: bytes) -> bytes:
        return ask(self.kit(name) / "vault" / "vault.sock", data, seconds=60)

    def study(self, name: str) -> Study:
        return load_aggregator_kit(self.kit("hub"), now=now()).study(name)

    def conduct(self, name: str, carry: Any, members: tuple[str, ...] | None = None, **options: Any) -> Report:
        kit = load_aggregator_kit(self.kit("hub"), now=now())
        conducting = conduct(
            kit.study(name),
            members or self.members,
            kit.policy,
            load_engine("seal"),
            SystemRandomness(),
            attempts=1,
            **options,
        )
        return drive(conducting, carry)

    def carry(self, asked: Exchange) -> dict[str, bytes]:
        return {name: self.handle(name, data) for name, data in asked.requests.items()}

    def until(self, study: str, stage: Stage, **options: Any) -> Exchange:
        """Play honestly up to a stage; gives what would be asked then."""

        class Reached(Exception):  # noqa: N818
            pass

        pending: list[Exchange] = []

        def carry(asked: Exchange) -> dict[str, bytes]:
            if asked.stage is stage:
                pending.append(asked)
                raise Reached
            return self.carry(asked)

        with pytest.raises(Reached):
            self.conduct(study, carry, **options)
        return pending[0]


def now() -> datetime:
    return datetime.now(timezone.utc)
