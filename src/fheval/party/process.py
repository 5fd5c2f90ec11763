"""A vault from its files to its end: open everything, listen, serve, and stop when told to."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from fheval.consortium import load_kit
from fheval.engines import available_engines, load_engine
from fheval.errors import FhevalError
from fheval.party import prepare
from fheval.party.accepted import AcceptedStudies
from fheval.party.core import VaultCore, reason_of, utc_now
from fheval.party.ledger_place import ledger_file, open_ledger
from fheval.party.listening import listening, passed_socket
from fheval.party.server import VaultServer, log_kinds_only, stopped_by_signals

_log = logging.getLogger("fheval.vault")


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultFiles:
    """Where a vault finds and keeps things; the socket lies beside the ledger unless it is given."""

    kit: Path
    ledger: Path
    socket: Path

    @classmethod
    def of(cls, kit: Path, state: Path | None = None, socket_path: Path | None = None) -> VaultFiles:
        ledger = ledger_file(kit, state)
        return cls(
            kit=kit, ledger=ledger, socket=ledger.with_name("vault.sock") if socket_path is None else socket_path
        )

    @property
    def studies(self) -> Path:
        return self.ledger.with_name("studies.sqlite")


def run_vault(files: VaultFiles, *, beside: AbstractContextManager[None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; whatever cannot be used is refused before anybody can connect.

    `beside` is entered when the vault listens, and left when it stops.
    """
    keep_memory_private()
    log_kinds_only()
    kit = load_kit(files.kit, now=utc_now())
    names = available_engines()
    if not names:
        load_engine()  # says why none loads
    with (
        open_ledger(files.kit, kit.identity.name, files.ledger, now=utc_now()) as ledger,
        AcceptedStudies.open(files.studies) as studies,
    ):
        engines = {name: load_engine(name) for name in names}
        core = VaultCore(kit, ledger, studies, engines)
        with (
            _preparing(files.studies),
            _listener(files.socket) as (listener, place),
            VaultServer(core.handle, listener) as server,
            stopped_by_signals(server, lambda: _reload(core, files.kit)),
            beside or nullcontext(),
        ):
            _log.info("The vault of %s listens on %s, policy version %d.", core.name, place, kit.policy.version)
            accepted = [each.acceptance.study.name for each in studies.all()]
            _log.info("It answers rounds of: %s.", ", ".join(accepted) or "no study yet; see fheval vault accept")
            server.serve()
    _log.info("The vault of %s has stopped.", core.name)


@contextmanager
def _preparing(studies: Path) -> Iterator[None]:
    """A process of its own that prepares what has changed; it ends with this one, however that ends.

    A damaged file may end it, since a library that reads it may: it is started again after a while.
    """
    stopping = threading.Event()
    keeper = threading.Thread(target=_keep_preparing, args=(studies, stopping), name="vault preparing")
    keeper.start()
    try:
        yield
    finally:
        stopping.set()
        keeper.join()


_PREPARE_AGAIN = 60.0
_LOOK_EVERY = 0.2


def _keep_preparing(studies: Path, stopping: threading.Event) -> None:
    command = [sys.executable, "-m", prepare.__name__, str(studies)]
    while not stopping.is_set():
        try:
            with subprocess.Popen(command, stdin=subprocess.PIPE) as child:  # noqa: S603 (this Python, a module of ours)
                while child.poll() is None and not stopping.wait(_LOOK_EVERY):
                    pass
                child.terminate()
            ended = child.returncode
            why = f"signal {-ended}, {signal.strsignal(-ended)}" if ended < 0 else f"status {ended}"
        except OSError as error:
            why = str(error.strerror)
        # Whoever stops a service stops all of its processes, and this one may hear of it last.
        if not stopping.wait(_LOOK_EVERY * 5):
            _log.error(
                "The process that prepares studies has ended (%s), as a damaged file of data can make it. "
                "It is started again in a minute.",
                why,
            )
            stopping.wait(_PREPARE_AGAIN)


def _reload(core: VaultCore, kit: Path) -> None:
    """Take a newer policy from the kit; a bad one changes nothing."""
    try:
        newer = load_kit(kit, now=utc_now())
        core.use_kit(newer)
    except FhevalError as error:
        _log.error("The kit was not taken over. %s", reason_of(error))
    else:
        _log.info("The kit was read again, policy version %d.", newer.policy.version)


@contextmanager
def _listener(path: Path) -> Iterator[tuple[socket.socket, str]]:
    passed = passed_socket(os.environ)
    if passed is None:
        with listening(path) as made:
            yield made, str(path)
    else:
        with passed:
            yield passed, "the socket that it was given"


_PR_SET_DUMPABLE = 4


def keep_memory_private() -> None:
    """No core dumps; on Linux also no debugger and no look into memory for other processes of the same user."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
