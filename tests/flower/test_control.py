"""The `flwr` command is believed by what it answers, never by its exit status."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fheval.errors import ConfigError, TransportError
from fheval.transports.flower import control as control_module
from fheval.transports.flower.control import Control, RunStatus
from fheval.transports.flower.environment import flower_environment, flower_program
from fheval.transports.flower.state import State


class Flwr:
    """Stands where the `flwr` program stands: notes its arguments and prints what it is told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "flwr"
        self.path.write_text(
            f"#!{sys.executable}\nimport pathlib, sys\nhere = pathlib.Path({str(directory)!r})\n"
            "(here / 'arguments').write_text('\\n'.join(sys.argv[1:]))\n"
            "sys.stdout.write((here / 'answer').read_text())\nprint('a word on the side', file=sys.stderr)\n"
        )
        self.path.chmod(0o755)

    def answers(self, text: str) -> None:
        (self.directory / "answer").write_text(text)

    def arguments(self) -> list[str]:
        return (self.directory / "arguments").read_text().split("\n")


@pytest.fixture
def flwr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flwr:
    made = Flwr(tmp_path)
    monkeypatch.setattr(control_module, "flower_program", lambda name: str(tmp_path / name))
    return made


@pytest.fixture
def control(flwr: Flwr, tmp_path: Path) -> Control:
    return Control(State.at(tmp_path / "state"), 4321)


def test_the_connection_is_on_loopback_and_trusts_the_inside_alone(control: Control, tmp_path: Path) -> None:
    text = (tmp_path / "state" / "flwr" / "config.toml").read_text()
    assert 'address = "127.0.0.1:4321"' in text
    assert f'root-certificates = "{tmp_path}/state/inside/authority.pem"' in text
    assert "insecure" not in text


def test_a_registration_gives_the_number(flwr: Flwr, control: Control, tmp_path: Path) -> None:
    flwr.answers('{"success": true, "node-id": 17}')
    assert control.register(tmp_path / "birch.pub") == 17
    assert flwr.arguments() == ["supernode", "register", f"{tmp_path}/birch.pub", "fheval", "--format", "json"]


def test_a_run_is_started_with_its_settings(flwr: Flwr, control: Control) -> None:
    flwr.answers('{"success": true, "run-id": "18446744073709551615"}')
    assert control.start(Path("/app"), {"order": "ab12"}) == 2**64 - 1
    assert flwr.arguments()[:5] == ["run", "/app", "fheval", "--run-config", 'order="ab12"']


@pytest.mark.parametrize(
    ("text", "ended", "well"),
    [
        ("pending", False, False),
        ("running", False, False),
        ("finished:completed", True, True),
        ("finished:failed", True, False),
        ("finished:stopped", True, False),
    ],
)
def test_a_run_is_well_only_when_it_has_completed(
    flwr: Flwr, control: Control, text: str, ended: bool, well: bool
) -> None:
    flwr.answers(json.dumps({"success": True, "runs": [{"run-id": "5", "status": text}]}))
    found = control.status(5)
    assert found == RunStatus(text)
    assert (found.ended, found.well) == (ended, well)


def test_a_failure_with_exit_status_0_is_a_failure(flwr: Flwr, control: Control) -> None:
    flwr.answers('{"success": false, "error-message": "Using SuperLink: fheval\\n\\n[code: 16] Run ID not found."}')
    with pytest.raises(TransportError, match=r"flwr list failed: \[code: 16\] Run ID not found\."):
        control.status(5)


def test_a_key_whose_number_was_lost_says_what_to_do(flwr: Flwr, control: Control, tmp_path: Path) -> None:
    flwr.answers('{"success": false, "error-message": "[code: 23] Public key already in use."}')
    with pytest.raises(ConfigError, match="delete its --state directory"):
        control.register(tmp_path / "birch.pub")


def test_no_answer_at_all_is_a_failure_that_shows_the_last_word(flwr: Flwr, control: Control) -> None:
    flwr.answers("")
    with pytest.raises(TransportError, match="flwr stop failed: a word on the side"):
        control.stop(5)


def test_flowers_processes_get_none_of_the_operators_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do not pass on")
    environment = flower_environment(tmp_path)
    assert "do not pass on" not in environment.values()
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environment["RAY_USAGE_STATS_ENABLED"] == "0"
    assert environment["FLWR_HOME"] == str(tmp_path)
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))


def test_a_program_that_is_not_installed_says_how_to() -> None:
    with pytest.raises(ConfigError, match=r"Install fheval\[flower\]"):
        flower_program("flower-nothing")
