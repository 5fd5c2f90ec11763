"""The `flwr` command, asked for JSON: registers SuperNodes, starts runs and tells how they ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from fheval.errors import ConfigError, TransportError
from fheval.flower import console
from fheval.flower.environment import flower_environment
from fheval.flower.state import LOOPBACK, State

_CONSOLE = (sys.executable, "-m", console.__name__)
_CONNECTION = "fheval"
# A command loads much of Flower before it does anything: three seconds on a fast machine, many on a busy one.
_COMMAND_SECONDS = 120.0
# Beyond the first, a command of a batch takes a fraction of a second.
_COMMANDS_IN_A_BATCH = 100

# What SuperLink says to a public key that it knows already.
_KEY_IN_USE = "Public key already in use"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How a run stands: `pending`, `starting`, `running`, or `finished:` and how."""

    text: str

    @property
    def ended(self) -> bool:
        return self.text.startswith("finished")

    @property
    def completed(self) -> bool:
        return self.text == "finished:completed"


class Control:
    """Speaks to the SuperLink of a state directory, on loopback."""

    def __init__(self, state: State, port: int) -> None:
        self._home = state.flower_home
        self._console: _Console | None = None
        config = (
            f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\naddress = "{LOOPBACK}:{port}"\n'
            f"root-certificates = {json.dumps(str(state.inside_authority))}\n"
        )
        (state.flower_home / "config.toml").write_text(config, encoding="utf-8")

    def register(self, keys: Sequence[Path]) -> Iterator[int]:
        """Register SuperNodes' public keys; yields the number of each, up to the first that is refused."""
        answers = self._ask_all([["supernode", "register", str(key.absolute()), _CONNECTION] for key in keys])
        try:
            for answer in answers:
                yield int(answer["node-id"])
        except TransportError as error:
            if _KEY_IN_USE not in str(error):
                raise
            raise ConfigError(
                "SuperLink knows a member's key already, and its number is lost. "
                "Stop the aggregator, delete its --state directory and start it again."
            ) from error

    def unregister(self, node: int) -> None:
        self._ask("supernode", "unregister", str(node), _CONNECTION)

    def start(self, app: Path, settings: Mapping[str, str]) -> int:
        """Start an app, and return the number of its run."""
        pairs = " ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
        return int(self._ask("run", str(app), _CONNECTION, "--run-config", pairs)["run-id"])

    def status(self, run: int) -> RunStatus:
        # `flwr run --stream` would exit with 0 even after the app failed.
        (found,) = self._ask("list", _CONNECTION, "--run-id", str(run))["runs"]
        return RunStatus(found["status"])

    def stop(self, run: int) -> None:
        self._ask("stop", str(run), _CONNECTION)

    def _ask(self, *arguments: str) -> dict[str, Any]:
        (answer,) = self._ask_all([arguments])
        return answer

    def _ask_all(self, commands: Sequence[Sequence[str]]) -> Iterator[dict[str, Any]]:
        if self._console is None:
            self._console = _Console(self._home)
        try:
            printed = self._console.run(commands)
        except TransportError:
            self.close()
            raise
        return map(_answer, (command[0] for command in commands), printed)

    def close(self) -> None:
        """End the process that runs the commands, if there is one; the next command starts another."""
        if self._console is not None:
            self._console.close()
            self._console = None


class _Console:
    """One process for all commands: each by itself would load much of Flower before it does anything, for seconds.

    It works in Flower's own directory: a folder in the operator's that is called like the connection, and has a
    pyproject.toml, would be taken for an app.
    """

    def __init__(self, home: Path) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        self._process = subprocess.Popen(  # noqa: S603 (this very Python, with a module of ours)
            _CONSOLE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=flower_environment(home),
            cwd=home,
        )
        self._input, self._output = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)

    def run(self, commands: Sequence[Sequence[str]]) -> list[str]:
        """What each command prints."""
        lines = "".join(json.dumps([*command, "--format", "json"]) + "\n" for command in commands)
        deadline = time.monotonic() + _COMMAND_SECONDS * (1 + len(commands) / _COMMANDS_IN_A_BATCH)
        with suppress(BrokenPipeError):  # it has ended, and its last word says why
            self._input.write(lines.encode())
            self._input.flush()
        printed = b""
        while printed.count(console.END.encode()) < len(commands):
            part = self._read(deadline)
            if part is None:
                raise TransportError(f"flwr {commands[0][0]} gave no answer in time. Try again.")
            if not part:
                raise TransportError(f"flwr {commands[0][0]} failed: {self._last_word()}. Try again.")
            printed += part
        return printed.decode(errors="replace").split(console.END)[:-1]

    def _read(self, deadline: float) -> bytes | None:
        """What it has printed; nothing where it has ended, None where it says nothing in time."""
        ready, _, _ = select.select([self._output], [], [], max(deadline - time.monotonic(), 0))
        return os.read(self._output.fileno(), 1 << 16) if ready else None

    def _last_word(self) -> str:
        self._process.wait()
        self._words.seek(0)
        return " ".join(self._words.read().decode(errors="replace").strip().splitlines()[-1:]) or "no output"

    def close(self) -> None:
        for pipe in (self._input, self._output):
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.kill()
        self._process.wait()
        self._words.close()


def _answer(command: str, printed: str) -> dict[str, Any]:
    # The exit status is 0 even where the command failed; only the answer tells.
    try:
        answer: dict[str, Any] = json.loads(printed)
    except ValueError:
        raise TransportError(f"flwr {command} failed: {printed.strip() or 'no output'}. Try again.") from None
    if not answer.get("success"):
        reason = str(answer.get("error-message", "no reason given")).strip().splitlines()[-1]
        raise TransportError(f"flwr {command} failed: {reason} Check that the aggregator is up, then try again.")
    return answer
