"""The aggregator's state directory: where each thing lies that `fheval aggregator` keeps between commands.

Nothing in it is a secret of a party. It can be deleted while the aggregator is down; members are then registered anew.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fheval.consortium.certificates import Issuer, authority_certificate
from fheval.consortium.files import check_private_directory, private_subdirectory, replace_public, write_secret
from fheval.consortium.member_keys import new_server_key, private_pem
from fheval.errors import ConfigError
from fheval.secrets import Secret

LOOPBACK = "127.0.0.1"

# The variable that tells the ServerApp, a process of its own, where the state directory is.
STATE_VARIABLE = "FHEVAL_AGGREGATOR_STATE"

# The certificate inside is made anew at each start, and only ever used on this machine.
_INSIDE_DAYS = 3650

T = TypeVar("T", bound=msgspec.Struct)


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` tells `evaluate`: where the SuperLink listens on loopback, and with which kit it was started."""

    pid: int
    port: int
    kit: str


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A SuperNode as SuperLink knows it: its public key, and the number that SuperLink gave it."""

    key: str
    node: int


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """Which SuperNode belongs to which member. Says where to send things, and never who has answered."""

    members: dict[str, Registered] = {}


class State:
    """A state directory, opened with `State.at`, and where everything in it lies."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # What Flower uses in place of ~/.flwr, and SuperLink's own database.
        self.flower_home = directory / "flwr"
        self.database = directory / "superlink.db"
        # What SuperLink shows on loopback, its key, and the certificate that vouches for it.
        self.inside_certificate = directory / "inside" / "server.pem"
        self.inside_key = directory / "inside" / "server.key"
        self.inside_authority = directory / "inside" / "authority.pem"
        # What later rounds may use again of an earlier one's set-up.
        self.keys = directory / "keys"
        # What `evaluate` asks of the ServerApp, and how that went.
        self._rounds = directory / "rounds"
        self._running = directory / "running.json"
        self._registry = directory / "registry.json"

    @classmethod
    def at(cls, directory: Path) -> State:
        """Use a directory, and make it if it is not there: of mode 0700, because apps and their requests lie in it."""
        directory = directory.absolute()
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        check_private_directory(directory)
        state = cls(directory)
        private_subdirectory(state.flower_home)
        private_subdirectory(state._rounds)
        return state

    def request(self, name: str) -> Path:
        return self._rounds / f"{name}.request"

    def outcome(self, name: str) -> Path:
        return self._rounds / f"{name}.outcome"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Refuse to run two SuperLinks in one directory."""
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"An aggregator is already up in {self.directory}. Stop it, or name another --state directory."
            ) from None
        else:
            yield
        finally:
            os.close(descriptor)

    def write_running(self, running: Running) -> None:
        replace_public(self._running, msgspec.json.encode(running))

    def forget_running(self) -> None:
        self._running.unlink(missing_ok=True)

    def read_running(self) -> Running:
        """Find the SuperLink that was started in this directory."""
        found = self._read(self._running, Running)
        if found is None:
            raise ConfigError(
                f"No aggregator is up in {self.directory}. Start one: fheval aggregator up --state {self.directory} …"
            )
        return found

    def write_registry(self, registry: Registry) -> None:
        replace_public(self._registry, msgspec.json.encode(registry))

    def read_registry(self) -> Registry:
        return self._read(self._registry, Registry) or Registry()

    def _read(self, path: Path, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path} is damaged ({error}). Stop the aggregator and delete {self.directory}."
            ) from None

    def renew_inside(self, *, now: datetime) -> None:
        """Make a certificate for SuperLink on loopback; the kit's own is for the names that members use."""
        shutil.rmtree(self.inside_key.parent, ignore_errors=True)
        private_subdirectory(self.inside_key.parent)
        authority_key, server_key = Ed25519PrivateKey.generate(), new_server_key()
        authority = authority_certificate("inside", authority_key, now=now, days=_INSIDE_DAYS)
        issuer, public = Issuer(authority, Secret(authority_key)), server_key.reveal().public_key()
        server = issuer.server("superlink", public, [LOOPBACK], now=now, days=_INSIDE_DAYS)
        write_secret(self.inside_key, private_pem(server_key))
        replace_public(self.inside_certificate, server.public_bytes(serialization.Encoding.PEM))
        replace_public(self.inside_authority, authority.public_bytes(serialization.Encoding.PEM))
