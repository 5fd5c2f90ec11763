"""A PostgreSQL of a test's own: on a socket of its own, as a user that is not root, gone when the test is."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "correct horse/battery:staple%"
OWNER = "owner"
READER = "reader"

_START_SECONDS = 120.0


def programs() -> Path | None:
    """Where initdb and postgres are: on the path, or where Debian puts its newest version."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


@dataclass(frozen=True)
class Server:
    """A running server: its socket's folder, and its process."""

    socket: Path
    process: subprocess.Popen[bytes]

    def address(self, user: str = READER) -> str:
        return f"postgresql://{user}@/postgres?host={self.socket}"

    def run(self, sql: str) -> None:
        """Run statements as the owner."""
        command = [shutil.which("psql") or str(_programs() / "psql"), "-qv", "ON_ERROR_STOP=1", "-h", str(self.socket)]
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        subprocess.run(
            [*command, "-U", OWNER, "postgres"], input=sql.encode(), env=environment, check=True, timeout=300
        )


def _programs() -> Path:
    found = programs()
    assert found is not None
    return found


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """Start a server in a folder whose path is short enough for a socket."""
    data, socket, secret = folder / "data", folder / "socket", folder / "password"
    secret.write_text(PASSWORD)
    socket.mkdir()
    as_user: dict[str, str | int] = {}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        user = next((name for name in ("postgres", "nobody") if _exists(name)), "nobody")
        as_user = {"user": user}
        for path in (folder, socket, secret):
            shutil.chown(path, user)
    options = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **as_user}
    initdb = [
        str(_programs() / "initdb"),
        "-D",
        str(data),
        "-A",
        "scram-sha-256",
        "-U",
        OWNER,
        "-N",
        f"--pwfile={secret}",
    ]
    subprocess.run([*initdb, "--locale=C", "--encoding=UTF8"], check=True, timeout=_START_SECONDS, **options)  # type: ignore[call-overload]
    settings = ("listen_addresses=", "fsync=off", "shared_buffers=64MB", "max_wal_size=4GB", "max_connections=20")
    command = [str(_programs() / "postgres"), "-D", str(data), "-k", str(socket)]
    process = subprocess.Popen([*command, *(word for each in settings for word in ("-c", each))], **options)  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not (socket / ".s.PGSQL.5432").exists() or not _ready(socket):
            assert process.poll() is None, "PostgreSQL did not start"
            assert time.monotonic() < deadline, "PostgreSQL was not ready in time"
            time.sleep(0.1)
        running = Server(socket, process)
        running.run(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'; GRANT pg_read_all_data TO {READER};")
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


def _ready(socket: Path) -> bool:
    found = subprocess.run([_programs() / "pg_isready", "-qh", socket], timeout=30, check=False)
    return found.returncode == 0


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
