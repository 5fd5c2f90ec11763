"""A consortium of real processes on loopback: authority, vaults, SuperNodes, an aggregator. All of them are ended."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fheval.cli import main
from fheval.counting import Counts, Grid
from fheval.flower.processes import Process, descendants, free_port

FHEVAL = str(Path(sys.executable).with_name("fheval"))
# The machine may be busy with other tests; all of these end long before on an idle one.
START_SECONDS = 90
ROUND_SECONDS = 150
STOP_SECONDS = 20


def run(*arguments: str) -> None:
    """Run a command of fheval here; it must succeed."""
    assert main(arguments) == 0, arguments


class Program:
    """A command of fheval that runs until it is stopped, with its output in a file."""

    def __init__(self, log: Path, *arguments: str, command: Sequence[str] = (FHEVAL,)) -> None:
        self.log = log
        self.command = command
        # A module of the tests, too, can be the command.
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
        self.arguments = arguments
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.command, *self.arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str, times: int = 1) -> None:
        """Wait until the output has these words, so many times."""
        deadline = time.monotonic() + START_SECONDS
        while self.text().count(words) < times:
            assert self.process.poll() is None, f"{self.arguments} ended: {self.text()[-2000:]}"
            assert time.monotonic() < deadline, f"{self.arguments} did not say {words!r}: {self.text()[-2000:]}"
            time.sleep(0.1)

    def family(self) -> list[Process]:
        """Everything that it has started."""
        return list(descendants(self.process.pid))

    def tell(self) -> None:
        """Ask it to end, as an operator does."""
        self.last_family = self.family()
        if self.process.poll() is None:
            self.process.terminate()

    def stop(self) -> int:
        """Wait until it has ended, and give its exit status; nothing that it started may be left."""
        self.tell()
        try:
            status = self.process.wait(STOP_SECONDS)
            left = [one for one in self.last_family if one.lives()]
        finally:
            self.kill()
        assert left == [], f"{self.arguments} left {left}"
        return status

    def kill(self) -> None:
        """End it and everything that it started at once, as a power cut does."""
        family = self.family()
        if self.process.poll() is None:
            self.process.kill()
        for one in family:
            one.send(signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        """Let it answer nothing for a while."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)


@dataclass
class Loopback:
    """The consortium, and what it runs."""

    root: Path
    members: tuple[str, ...]
    transport: str = "flower"
    port: int = field(default_factory=free_port)
    studies: Mapping[str, str] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)

    def kit(self, name: str) -> Path:
        return self.root / "authority" / "kits" / name

    def pooled(self, names: Sequence[str] | None = None, *, decision_points: int) -> float:
        """The AUC that these members would get by pooling their data."""
        counts = [self.counts(name, decision_points) for name in names or self.members]
        total = counts[0]
        for each in counts[1:]:
            total = total + each
        return float(total.auc())

    def counts(self, name: str, decision_points: int) -> Counts:
        labels, scores = np.loadtxt(self.root / f"{name}.csv", delimiter=",", skiprows=1, unpack=True)
        return Counts.from_scores(labels.astype(int), scores, Grid.even(decision_points))

    # What operators do

    def found(self, rows: Mapping[str, tuple[Any, Any]] | None = None, policy: Sequence[str] = ()) -> None:
        """Make authority, kits, policy and data; sign the studies, and accept them as every member.

        Members have made-up labels and scores, but for those whose `rows` are given; the policy has these options.
        """
        authority = str(self.root / "authority")
        run("consortium", "init", authority, "--name", "Loopback")
        for name in self.members:
            run("consortium", "enroll", authority, name)
        run("consortium", "enroll", authority, "hub", "--aggregator", "127.0.0.1")
        run("consortium", "policy", authority, *policy)
        generator = np.random.default_rng(2031)
        for number, name in enumerate(self.members):
            count = 120 + 30 * number
            labels = generator.integers(0, 2, count)
            scores = np.clip(0.3 * labels + 0.7 * generator.random(count), 0, 1)
            labels, scores = (rows or {}).get(name, (labels, scores))
            lines = [f"{label:.0f},{score:.6f}\n" for label, score in zip(labels, scores, strict=True)]
            path = self.root / f"{name}.csv"
            path.write_text("label,score\n" + "".join(lines))
            path.chmod(0o600)
        for study, asked in self.studies.items():
            self.sign(study, asked)
            for name in self.members:
                self.accept(name, study)

    def sign(self, name: str, asked: str) -> None:
        """Sign a study, and give it to the aggregator."""
        authority, file = str(self.root / "authority"), self.root / f"{name}.toml"
        file.write_text(f'name = "{name}"\nreveals = "counts"\n{asked}')
        run("consortium", "study", authority, str(file), "--out", str(self.signed(name)))
        run("consortium", "update", str(self.kit("hub")), str(self.signed(name)))

    def signed(self, study: str) -> Path:
        return self.root / f"{study}.fhev"

    def accept(self, name: str, study: str, *options: str, data: Path | None = None) -> None:
        """As a member: accept a study, with its file or with other data."""
        path = str(data or self.root / f"{name}.csv")
        place = ("--kit", str(self.kit(name)), str(self.signed(study)), "--data", path, "--lineage", study)
        run("vault", "accept", *place, "--yes", *options)

    def program(self, name: str, *arguments: str) -> Program:
        started = Program(self.root / f"{name}.log", *arguments)
        self.programs[name] = started
        return started

    def start_aggregator(self) -> Program:
        state, kit = str(self.root / "state"), str(self.kit("hub"))
        place = ("--kit", kit, "--state", state, "--port", str(self.port), "--transport", self.transport)
        return self.program("hub", "aggregator", "up", *place)

    def start_vault(self, name: str) -> Program:
        return self.program(f"vault-{name}", "vault", "--kit", str(self.kit(name)))

    def start_party(self, name: str) -> Program:
        return self.program(
            f"party-{name}",
            *("party", "up", "--kit", str(self.kit(name)), "--hub", f"127.0.0.1:{self.port}"),
            *("--vault", str(self.kit(name) / "vault" / "vault.sock"), "--state", str(self.root / f"flower-{name}")),
            *("--transport", self.transport),
        )

    def start(self) -> None:
        """Start everything, and wait until all members are connected."""
        self.start_aggregator()
        for name in self.members:
            self.start_vault(name)
        for name in self.members:
            self.programs[f"vault-{name}"].wait_for("listens on")
        self.programs["hub"].wait_for("Ready for")
        for name in self.members:
            self.start_party(name)
        for name in self.members:
            self.programs[f"party-{name}"].wait_for("Connected to")

    def ask(self, *options: str) -> subprocess.Popen[str]:
        """Start a round."""
        state, kit = str(self.root / "state"), str(self.kit("hub"))
        return subprocess.Popen(
            [FHEVAL, "aggregator", "evaluate", "--kit", kit, "--state", state, "--json", "-", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def evaluate(self, *options: str) -> dict[str, Any]:
        """Run one round, which must succeed."""
        return summary_of(self.ask(*options))

    def rounds(self, name: str) -> list[dict[str, Any]]:
        """What `fheval vault rounds` says about a member's rounds, also while its vault runs."""
        with redirect_stdout(io.StringIO()) as output:
            run("vault", "rounds", "--kit", str(self.kit(name)), "--json", "-")
        found: list[dict[str, Any]] = json.loads(output.getvalue())["rounds"]
        return found

    def log(self, name: str) -> str:
        """What a program has printed."""
        return self.programs[name].text()

    def stop(self) -> None:
        """End everything; all of it must end well, and nothing may be left behind."""
        try:
            for program in self.programs.values():
                program.tell()
            statuses = {name: program.stop() for name, program in self.programs.items()}
            assert not any(statuses.values()), f"exit statuses {statuses}"
        finally:
            for program in self.programs.values():
                program.kill()


def ended(asked: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a round: its exit status, output and complaint."""
    try:
        output, complaint = asked.communicate(timeout=ROUND_SECONDS)
    finally:
        asked.kill()
    return asked.returncode, output, complaint


def summary_of(asked: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a round that must succeed."""
    status, output, complaint = ended(asked)
    assert status == 0, complaint
    summary: dict[str, Any] = json.loads(output)
    return summary


@contextmanager
def consortium(
    root: Path,
    members: Sequence[str],
    studies: Mapping[str, str],
    *,
    transport: str = "flower",
    policy: Sequence[str] = (),
) -> Iterator[Loopback]:
    """A consortium that runs, with these studies in TOML by name; with it ends everything that it has started."""
    made = Loopback(root, tuple(members), transport, studies=studies)
    made.found(policy=policy)
    try:
        made.start()
        yield made
    finally:
        made.stop()
