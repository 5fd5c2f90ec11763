"""The `flwr` command, asked for JSON: registers SuperNodes, starts runs and tells how they ended."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fheval.errors import ConfigError, TransportError
from fheval.transports.flower.environment import flower_environment, flower_program
from fheval.transports.flower.state import LOOPBACK, State

_CONNECTION = "fheval"
# A command loads much of Flower before it does anything: three seconds on a fast machine, many on a busy one.
_COMMAND_SECONDS = 120.0

# What SuperLink says to a public key that it knows already.
_KEY_IN_USE = "Public key already in use"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How a run stands: `pending`, `starting`, `running`, or `finished:` and how."""

    text: str

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.text.startswith("finished")

    @property
    def well(self) -> bool:
        """Whether it ended as it should."""
        return self.text == "finished:completed"


class Control:
    """Speaks to the SuperLink of a state directory, on loopback."""

    def __init__(self, state: State, port: int) -> None:
        self._environment = flower_environment(state.flower_home)
        self._program = flower_program("flwr")
        config = (
            f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\naddress = "{LOOPBACK}:{port}"\n'
            f"root-certificates = {json.dumps(str(state.inside_authority))}\n"
        )
        (state.flower_home / "config.toml").write_text(config, encoding="utf-8")

    def register(self, key: Path) -> int:
        """Register a SuperNode's public key and give its number."""
        try:
            return int(self._ask("supernode", "register", str(key), _CONNECTION)["node-id"])
        except TransportError as error:
            if _KEY_IN_USE in str(error):
                raise ConfigError(
                    f"SuperLink knows the key {key} already, and its number is lost. "
                    "Stop the aggregator, delete its --state directory and start it again."
                ) from error
            raise

    def unregister(self, node: int) -> None:
        """Forget a SuperNode."""
        self._ask("supernode", "unregister", str(node), _CONNECTION)

    def start(self, app: Path, settings: Mapping[str, str]) -> int:
        """Start an app and give the number of its run."""
        pairs = " ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
        return int(self._ask("run", str(app), _CONNECTION, "--run-config", pairs)["run-id"])

    def status(self, run: int) -> RunStatus:
        """Say how a run stands. `flwr run --stream` would exit with 0 even after the app failed."""
        (found,) = self._ask("list", _CONNECTION, "--run-id", str(run))["runs"]
        return RunStatus(found["status"])

    def stop(self, run: int) -> None:
        """Stop a run."""
        self._ask("stop", str(run), _CONNECTION)

    def _ask(self, *arguments: str) -> dict[str, Any]:
        try:
            done = subprocess.run(  # noqa: S603 (Flower's own program, found by its full path)
                [self._program, *arguments, "--format", "json"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TransportError(
                f"flwr {arguments[0]} gave no answer in {_COMMAND_SECONDS:.0f} s. Try again."
            ) from None
        return _answer(arguments[0], done)


def _answer(command: str, done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    # The exit status is 0 even where the command failed; only the answer tells.
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:]
        raise TransportError(f"flwr {command} failed: {' '.join(last) or 'no output'}. Try again.") from None
    if not answer.get("success"):
        reason = str(answer.get("error-message", "no reason given")).strip().splitlines()[-1]
        raise TransportError(f"flwr {command} failed: {reason} Check that the aggregator is up, then try again.")
    return answer
