"""Hosts of a consortium in network namespaces: each with an address, a name, a folder, and processes of its own.

A host is held by one process that has a network and a mount namespace; nothing is left when it ends. All traffic goes
through a switch in this process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hosts.switch import Switch, open_tap

FHEVAL_BIN = Path(sys.executable).parent
START_SECONDS = 90
STEP_SECONDS = 150

_HOLDER = "mount --bind {hosts} /etc/hosts && ip link set lo up && echo ready && exec sleep infinity"


def why_no_namespaces() -> str | None:
    """Why hosts cannot be made here; None where they can."""
    for program in ("ip", "unshare", "nsenter", "mount"):
        if shutil.which(program) is None:
            return f"there is no program {program}"
    if os.geteuid() != 0:
        return "network namespaces with devices need root"
    tried = subprocess.run(["unshare", "--net", "--mount", "ip", "link"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"the kernel refuses network namespaces ({tried.stderr.strip()})"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun for TAP devices"
    return None


class Running:
    """A command that goes on at a host, with its output in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, command: str) -> None:
        self.process = process
        self.log = log
        self.command = command

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str, times: int = 1) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.text().count(words) < times:
            assert self.process.poll() is None, f"{self.command} ended: {self.text()[-2000:]}"
            assert time.monotonic() < deadline, f"{self.command} did not say {words!r}: {self.text()[-2000:]}"
            time.sleep(0.1)

    def stop(self) -> None:
        """As an operator does; what does not end by itself is killed."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """As a power cut does: it and everything that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Host:
    """One machine: `enter` are the words before a command that run it there."""

    name: str
    address: str
    folder: Path
    enter: Sequence[str]
    running: list[Running] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(FHEVAL_BIN), "/usr/sbin", "/usr/bin", "/sbin", "/bin"])
        own = {"PATH": path, "HOME": str(self.folder), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        return own | self.environment

    def _there(self, command: str) -> str:
        # A directory that was entered before the mount namespace is another one to the kernel.
        return f"cd '{self.folder}' && {command}"

    def run(self, command: str, typed: str = "") -> str:
        """Run a command to its end, which must be a good one; gives its output."""
        done = self.attempt(command, typed)
        assert done.returncode == 0, f"{self.name}: {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def attempt(self, command: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.enter, "sh", "-c", self._there(command)],
            env=self._environment(),
            input=typed,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )

    def begin(self, command: str) -> subprocess.Popen[str]:
        """Start a command whose output is read as it comes, and which ends by itself."""
        return subprocess.Popen(
            [*self.enter, "sh", "-c", self._there(f"exec {command}")],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, command: str, typed: str = "") -> Running:
        """Start a command that goes on; `typed` is what its operator types."""
        log = self.folder / f"log-{len(self.running)}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self.enter, "sh", "-c", self._there(f"exec {command}")],
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        assert process.stdin is not None
        process.stdin.write(typed.encode())
        process.stdin.close()
        started = Running(process, log, command)
        self.running.append(started)
        return started


@dataclass
class Site:
    """All hosts by name, and the switch between them; `switch` is None where they share this machine's loopback."""

    hosts: dict[str, Host]
    switch: Switch | None

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def send(self, file: str, source: str, target: str) -> None:
        """Bring a file from one operator to another, as by mail."""
        shutil.copy(self[source].folder / file, self[target].folder / Path(file).name)


@contextmanager
def in_namespaces(root: Path, names: dict[str, str]) -> Iterator[Site]:
    """Hosts by name, each under its host name; with them ends everything that runs there."""
    addresses = {name: f"10.16.0.{number}" for number, name in enumerate(names, start=10)}
    hosts_file = root / "etc-hosts"
    lines = [f"{addresses[name]} {host}\n" for name, host in names.items()]
    hosts_file.write_text("127.0.0.1 localhost\n" + "".join(lines))
    with ExitStack() as stack:
        holders = {name: stack.enter_context(_holder(hosts_file)) for name in names}
        ports = {name: _port(holders[name], addresses[name]) for name in names}
        switch = stack.enter_context(Switch(ports))
        hosts: dict[str, Host] = {}
        for name in names:
            folder = root / name
            folder.mkdir(mode=0o700)
            enter = ("nsenter", f"--target={holders[name]}", "--net", "--mount")
            hosts[name] = Host(name, addresses[name], folder, enter)
        stack.callback(_end_all, hosts)
        yield Site(hosts, switch)


@contextmanager
def on_loopback(root: Path, names: dict[str, str]) -> Iterator[Site]:
    """Folders instead of hosts, where namespaces cannot be made."""
    hosts = {}
    for name in names:
        (root / name).mkdir(mode=0o700)
        hosts[name] = Host(name, "127.0.0.1", root / name, ())
    try:
        yield Site(hosts, None)
    finally:
        _end_all(hosts)


def _end_all(hosts: dict[str, Host]) -> None:
    for host in hosts.values():
        for each in reversed(host.running):
            each.stop()
            each.kill()


@contextmanager
def _holder(hosts_file: Path) -> Iterator[int]:
    command = ["unshare", "--net", "--mount", "sh", "-c", _HOLDER.format(hosts=hosts_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def _port(holder: int, address: str) -> int:
    """A TAP device in a host's namespace, configured; gives the switch's end of it."""
    made: list[int] = []

    def make() -> None:
        # A thread alone moves to the other namespace, and ends there.
        with open(f"/proc/{holder}/ns/net") as namespace:
            _setns(namespace.fileno())
        made.append(open_tap("tap0"))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    for words in (f"addr add {address}/24 dev tap0", "link set tap0 up"):
        subprocess.run(["nsenter", f"--target={holder}", "--net", "ip", *words.split()], check=True)
    return made[0]


def _setns(descriptor: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x4000_0000) != 0:
        raise OSError(ctypes.get_errno(), "setns")
