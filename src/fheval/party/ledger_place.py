"""One ledger for each member: the kit remembers which one is its vault's, and a vault opens no other.

A vault that began anew with an empty ledger would forget what it has released and which rounds it has answered. So a
ledger has a random id, which is written into the kit together with the ledger's directory. A ledger moves, or is given
up as lost, by a command that is written into the ledger. What this cannot see is a kit that was copied before its vault
was started for the first time, or a whole machine that was copied.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from fheval.consortium import LedgerPlace, ledger_place, place_ledger
from fheval.consortium.files import DIRECTORY_MODE, check_private_directory
from fheval.errors import ConfigError
from fheval.party.ledger import Ledger

_FILE = "ledger.sqlite"
_ID_BYTES = 16


def ledger_file(kit: Path, state: Path | None = None) -> Path:
    """The ledger in this directory; otherwise where the kit says, and beside its keys before there is one."""
    if state is None:
        place = ledger_place(kit)
        known = None if place is None else place.directory
        state = kit / "vault" if known is None else Path(known)
    return state / _FILE


def open_ledger(kit: Path, member: str, path: Path, *, now: datetime) -> Ledger:
    """Open the ledger of a kit's vault for writing, or make it; any other than the kit's own is refused."""
    place, directory = ledger_place(kit), str(path.parent.resolve())
    if place is not None:
        _require_known(place, member, path, directory)
    _make_private(path.parent)
    ledger = Ledger.open(path)
    try:
        if ledger.place() is None:
            # A kit that was never used, and a ledger that was just made.
            ledger.settle(secrets.token_hex(_ID_BYTES), member, directory, "began", at=now)
        _require_own(ledger, place, member, directory)
        _remember(kit, ledger, directory)
    except BaseException:
        ledger.close()
        raise
    return ledger


def move_ledger(kit: Path, member: str, path: Path, reason: str, *, now: datetime) -> None:
    """Note, in the ledger and in the kit, that the ledger is in another directory now, or was taken from a backup."""
    if not path.exists():
        raise ConfigError(f"There is no ledger {path}. Move the whole directory there first.")
    place = ledger_place(kit)
    with Ledger.open(path, older=True) as ledger:
        found = ledger.place()
        if found is None or found.member != member or (place is not None and place.id not in (None, found.id)):
            raise ConfigError(f"{path} is not the ledger of this kit. Look for the right one.")
        ledger.settle(found.id, member, str(path.parent.resolve()), f"moved: {reason}", at=now)
        _remember(kit, ledger, str(path.parent.resolve()))


def replace_ledger(kit: Path, member: str, path: Path, reason: str, *, now: datetime) -> None:
    """Begin a new ledger in place of one that is lost; that it was so, and why, is the first thing that it says."""
    if path.exists():
        raise ConfigError(f"{path} exists. Begin a new ledger in a directory where there is none.")
    _make_private(path.parent)
    with Ledger.open(path) as ledger:
        ledger.settle(
            secrets.token_hex(_ID_BYTES), member, str(path.parent.resolve()), f"began after a loss: {reason}", at=now
        )
        _remember(kit, ledger, str(path.parent.resolve()))


def _require_known(place: LedgerPlace, member: str, path: Path, directory: str) -> None:
    """Refuse, before a file is made, a directory that cannot hold the ledger that the kit speaks of."""
    if place.directory is None and not path.exists():
        raise ConfigError(
            f"This kit renews the keys of {member}, whose vault has a ledger already. Name its directory with --state."
        )
    if place.directory is not None and place.directory != directory:
        raise ConfigError(
            f"The ledger of this kit is in {place.directory}. A second one would forget what was released. "
            f"Leave --state out; if you have moved it: fheval vault moved --state {path.parent} --reason TEXT"
        )
    if not path.exists():
        raise ConfigError(
            f"The ledger of this kit is gone from {directory}. Restore it from your backup. "
            "If you have moved it, or it is lost for good, say so: fheval vault moved"
        )


def _require_own(ledger: Ledger, place: LedgerPlace | None, member: str, directory: str) -> None:
    found = ledger.place()
    if found is None or found.member != member or (place is not None and place.id not in (None, found.id)):
        raise ConfigError(
            f"The ledger in {directory} is another vault's, not that of this kit. Look for the right one."
        )
    if found.directory != directory:
        raise ConfigError(
            f"The ledger in {directory} is a copy, or was moved there from {found.directory}. Use the one there; "
            "if you have moved it: fheval vault moved"
        )


def _remember(kit: Path, ledger: Ledger, directory: str) -> None:
    found = ledger.place()
    here = LedgerPlace(id=None if found is None else found.id, directory=directory)
    if ledger_place(kit) == here:
        return
    try:
        place_ledger(kit, here)
    except OSError as error:
        raise ConfigError(
            f"The kit {kit} cannot be written ({error.strerror}), and it must remember its ledger. "
            "Run the first command of the vault by hand, as the user who owns the kit: fheval vault accept"
        ) from error


def _make_private(directory: Path) -> None:
    if not directory.parent.is_dir():
        raise ConfigError(f"There is no directory {directory.parent} to keep {directory.name} in. Make it first.")
    directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    check_private_directory(directory)
