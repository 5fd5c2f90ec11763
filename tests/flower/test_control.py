"""The `flwr` command is believed by what it answers, never by its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fheval.errors import ConfigError, TransportError
from fheval.flower import control as control_module
from fheval.flower.console import END
from fheval.flower.control import Control, RunStatus
from fheval.flower.environment import flower_environment, flower_program
from fheval.flower.state import State


class Flwr:
    """Stands where the `flwr` commands are run: notes their arguments and prints what it is told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = (
            f"import pathlib, sys\nhere = pathlib.Path({str(directory)!r})\n"
            f"answers = (here / 'answers').read_text().split({END!r})\n"
            "for answer, line in zip(answers, sys.stdin):\n"
            "    with (here / 'commands').open('a') as file: file.write(line)\n"
            "    if answer is answers[-1]: break\n"
            f"    print(answer, end={END!r}, flush=True)\n"
            "print('a word on the side', file=sys.stderr)\n"
        )

    def answers(self, *texts: str) -> None:
        (self.directory / "answers").write_text("".join(text + END for text in texts))

    def commands(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.directory / "commands").read_text().splitlines()]


@pytest.fixture
def flwr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flwr:
    made = Flwr(tmp_path)
    monkeypatch.setattr(control_module, "_CONSOLE", (sys.executable, "-c", made.program))
    return made


@pytest.fixture
def control(flwr: Flwr, tmp_path: Path) -> Iterator[Control]:
    with closing(Control(State.at(tmp_path / "state"), 4321)) as made:
        yield made


def test_the_connection_is_on_loopback_and_trusts_the_inside_alone(control: Control, tmp_path: Path) -> None:
    text = (tmp_path / "state" / "flwr" / "config.toml").read_text()
    assert 'address = "127.0.0.1:4321"' in text
    assert f'root-certificates = "{tmp_path}/state/inside/authority.pem"' in text
    assert "insecure" not in text


def test_registrations_give_the_numbers(flwr: Flwr, control: Control, tmp_path: Path) -> None:
    flwr.answers('{"success": true, "node-id": 17}', '{"success": true, "node-id": 18}')
    assert list(control.register([tmp_path / "birch.pub", tmp_path / "cedar.pub"])) == [17, 18]
    assert flwr.commands() == [
        ["supernode", "register", f"{tmp_path}/{name}.pub", "fheval", "--format", "json"] for name in ("birch", "cedar")
    ]


def test_numbers_that_came_before_a_failure_are_not_lost(flwr: Flwr, control: Control) -> None:
    flwr.answers('{"success": true, "node-id": 17}', '{"success": false, "error-message": "no space left"}')
    numbers = control.register([Path("birch.pub"), Path("cedar.pub")])
    assert next(numbers) == 17
    with pytest.raises(TransportError, match="no space left"):
        next(numbers)


def test_a_run_is_started_with_its_settings(flwr: Flwr, control: Control) -> None:
    flwr.answers('{"success": true, "run-id": "18446744073709551615"}')
    assert control.start(Path("/app"), {"order": "ab12"}) == 2**64 - 1
    assert flwr.commands()[0][:5] == ["run", "/app", "fheval", "--run-config", 'order="ab12"']


@pytest.mark.parametrize(
    ("text", "ended", "completed"),
    [
        ("pending", False, False),
        ("running", False, False),
        ("finished:completed", True, True),
        ("finished:failed", True, False),
        ("finished:stopped", True, False),
    ],
)
def test_a_run_has_ended_and_completed_only_when_flower_says_so(
    flwr: Flwr, control: Control, text: str, ended: bool, completed: bool
) -> None:
    flwr.answers(json.dumps({"success": True, "runs": [{"run-id": "5", "status": text}]}))
    found = control.status(5)
    assert found == RunStatus(text)
    assert (found.ended, found.completed) == (ended, completed)


def test_one_process_runs_all_commands(flwr: Flwr, control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    running = json.dumps({"success": True, "runs": [{"run-id": "5", "status": "running"}]})
    flwr.answers('{"success": true, "run-id": "5"}', running, running)
    assert control.start(Path("/app"), {}) == 5
    monkeypatch.setattr(control_module, "_CONSOLE", ("no such program",))
    assert [control.status(5).text for _ in range(2)] == ["running"] * 2
    assert [command[0] for command in flwr.commands()] == ["run", "list", "list"]


def test_a_folder_called_like_the_connection_is_not_taken_for_an_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout of this very repository beside the operator's files is such a folder."""
    (tmp_path / "fheval").mkdir()
    (tmp_path / "fheval" / "pyproject.toml").write_text("[project]\nname = 'something'\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "birch.pub").write_text("no key")
    with closing(Control(State.at(tmp_path / "state"), 1)) as control, pytest.raises(TransportError) as refused:
        list(control.register([Path("birch.pub")]))
    assert "pyproject" not in str(refused.value)
    assert "app" not in str(refused.value).lower()


def test_a_failure_with_exit_status_0_is_a_failure(flwr: Flwr, control: Control) -> None:
    flwr.answers('{"success": false, "error-message": "Using SuperLink: fheval\\n\\n[code: 16] Run ID not found."}')
    with pytest.raises(TransportError, match=r"flwr list failed: \[code: 16\] Run ID not found\."):
        control.status(5)


def test_a_key_whose_number_was_lost_says_what_to_do(flwr: Flwr, control: Control, tmp_path: Path) -> None:
    flwr.answers('{"success": false, "error-message": "[code: 23] Public key already in use."}')
    with pytest.raises(ConfigError, match="delete its --state directory"):
        list(control.register([tmp_path / "birch.pub"]))


def test_no_answer_at_all_is_a_failure_that_shows_the_last_word(flwr: Flwr, control: Control) -> None:
    flwr.answers()
    with pytest.raises(TransportError, match="flwr stop failed: a word on the side"):
        control.stop(5)


def test_an_answer_that_is_not_json_is_a_failure(flwr: Flwr, control: Control) -> None:
    flwr.answers("Usage: flwr stop")
    with pytest.raises(TransportError, match="flwr stop failed: Usage: flwr stop"):
        control.stop(5)


def test_the_console_runs_flowers_own_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [*control_module._CONSOLE],
        input=b'["--version"]\n["list", "nowhere", "--format", "json"]\n',
        env=flower_environment(tmp_path),
        capture_output=True,
        timeout=120,
        check=True,
    )
    version, answer, nothing = done.stdout.decode().split(END)
    assert version.startswith("Flower version: 1.")
    assert json.loads(answer)["success"] is False
    assert nothing == ""


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
