"""Files of secrets: mode 0600 from the first byte, and refused when anybody else could read them."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fheval.errors import ConfigError
from fheval.secrets import Secret

SECRET_MODE = 0o600
PUBLIC_MODE = 0o644
DIRECTORY_MODE = 0o700

# Keys, certificates and policies are small: the policy of 10,000 members has 20 MB.
_READ_LIMIT = 64 << 20


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Build a directory of mode 0700 aside, and move it to `path` only when everything in it is written."""
    path = path.absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{path} already exists. Name another directory, or move this one away first.")
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkdtemp makes the directory with mode 0700, whatever the umask is.
    building = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield building
        sync_directory(building)
        building.rename(path)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    sync_directory(path.parent)


def private_subdirectory(path: Path) -> Path:
    """Make a directory of mode 0700 if it is not there yet."""
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    return path


def write_secret(path: Path, content: Secret[bytes]) -> None:
    """Write a new file of mode 0600; an existing one is never overwritten."""
    _write_new(path, content.reveal(), SECRET_MODE)


def write_public(path: Path, content: bytes) -> None:
    """Write a new file that others may read; an existing one is never overwritten."""
    _write_new(path, content, PUBLIC_MODE)


def replace_public(path: Path, content: bytes) -> None:
    """Write a file that others may read; a reader sees the older one or this one, never a part."""
    _replace(path, content, PUBLIC_MODE)


def replace_private(path: Path, content: bytes) -> None:
    """Write a file of mode 0600; a reader sees the older one or this one, never a part, after a power cut as well."""
    _replace(path, content, SECRET_MODE)


def _replace(path: Path, content: bytes, mode: int) -> None:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write_new(aside, content, mode)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    sync_directory(path.parent)


def read_secret(path: Path) -> Secret[bytes]:
    """Read a file of secrets, or refuse it when its mode is not 0600 or it belongs to another user."""
    return Secret(_read(path, secret=True))


def read_public(path: Path) -> bytes:
    """Read a certificate, a policy or a public key."""
    return _read(path, secret=False)


def check_private_directory(path: Path) -> None:
    """Refuse a directory in which another user could exchange the trust anchors or look for secrets."""
    if not path.is_dir():
        raise ConfigError(f"There is no directory {path}. Check the path.")
    mode = _mode_of_own(path, path.stat(), "chown -R")
    if mode & 0o077:
        raise ConfigError(f"{path} is open to other users (mode {mode:04o}). Close it: chmod 700 {path}")


def _mode_of_own(path: Path, facts: os.stat_result, chown: str) -> int:
    if facts.st_uid != os.geteuid():
        raise ConfigError(
            f"{path} belongs to user id {facts.st_uid}, not to the user who runs this command. "
            f"Run it as that user, or make it your own: {chown} {os.geteuid()} {path}"
        )
    return stat.S_IMODE(facts.st_mode)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, SECRET_MODE)
    except FileExistsError:
        raise ConfigError(f"{path} already exists and is not overwritten. Move it away first.") from None
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _read(path: Path, *, secret: bool) -> bytes:
    irregular = ConfigError(f"{path} is not a regular file. Check the path.")
    try:
        # A pipe or a device in place of the file must not make the command wait.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            # The checks look at the open file, so that nobody can exchange it between the look and the reading.
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise irregular
            if secret and (mode := _mode_of_own(path, facts, "chown")) != SECRET_MODE:
                raise ConfigError(
                    f"{path} holds a secret and has mode {mode:04o} instead of 0600. "
                    f"Find out who may have read it, then: chmod 600 {path}"
                )
            content = file.read(_READ_LIMIT + 1)
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}. Check the path.") from None
    except PermissionError:
        raise ConfigError(f"{path} cannot be read by this user. Check who owns it.") from None
    except IsADirectoryError:
        raise irregular from None
    if len(content) > _READ_LIMIT:
        raise ConfigError(f"{path} is larger than {_READ_LIMIT} bytes. Check that it is the right file.")
    return content


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
