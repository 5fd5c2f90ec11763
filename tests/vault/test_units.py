"""The systemd units say what the vault understands, and keep others out."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fheval.direct.front import MOST_CONNECTIONS

DEPLOY = Path(__file__).parents[2] / "deploy"


def unit(name: str) -> ConfigParser:
    # A unit may give a key several times; the last one is enough here.
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / name)
    return parser


UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))


def options_of(command: str, words: list[str]) -> tuple[set[str], set[str]]:
    """The options that a command line uses, and those that the command has."""
    app: Any = get_command(import_module(f"fheval.cli.{command}").app)
    known = {option for parameter in app.commands[words[0]].params for option in parameter.opts}
    return {word for word in words if word.startswith("--")}, known


@pytest.mark.parametrize("name", UNITS)
def test_a_service_starts_a_command_that_exists(name: str) -> None:
    line = unit(name)["Service"]["ExecStart"]
    words = re.sub("[\"']", "", line.partition('"$FHEVAL"')[2]).split()
    used, known = options_of(words[0], words[1:])
    assert used
    assert used <= known
    assert ("--transport" in used) == name.endswith("-flower.service")


def test_the_containers_start_commands_that_exist_and_the_vault_has_no_network() -> None:
    services = pytest.importorskip("yaml").safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for service in services.values():
        used, known = options_of(service["command"][0], service["command"][1:])
        assert used <= known
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
    assert services["vault"]["network_mode"] == "none"
    assert not any("ports" in services[name] for name in ("vault", "relay"))
    kit = [each for each in services["relay"]["volumes"] if "kit" in each]
    assert kit == ["./kit/transport:/etc/fheval/transport:ro"]


def test_the_vault_waits_for_its_socket() -> None:
    assert "fheval-vault.socket" in unit("fheval-vault.service")["Unit"]["Requires"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here to read units")
@pytest.mark.parametrize("name", [*UNITS, "fheval-vault.socket"])
def test_systemd_understands_every_line(name: str, tmp_path: Path) -> None:
    for path in DEPLOY.glob("fheval-*"):
        shutil.copy(path, tmp_path)
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    assert not re.search(r"Unknown|Failed to parse|Invalid", told.stderr), told.stderr


@pytest.mark.parametrize(
    ("name", "section", "key", "value"),
    [
        ("socket", "Socket", "SocketMode", "0600"),
        ("service", "Service", "StateDirectoryMode", "0700"),
        ("service", "Service", "LimitCORE", "0"),
        ("service", "Service", "PrivateNetwork", "yes"),
        ("service", "Service", "NoNewPrivileges", "yes"),
        ("service", "Service", "ProtectSystem", "strict"),
    ],
)
def test_the_units_close_doors(name: str, section: str, key: str, value: str) -> None:
    assert unit(f"fheval-vault.{name}")[section][key] == value


def test_the_vault_and_whoever_connects_it_are_two_users() -> None:
    connects = unit("fheval-vault.socket")["Socket"]["SocketUser"]
    assert unit("fheval-vault.service")["Service"]["User"] != connects
    for name in ("fheval-party.service", "fheval-party-flower.service"):
        assert unit(name)["Service"]["User"] == connects


@pytest.mark.parametrize("name", ["aggregator", "party", "vault"])
def test_the_units_grant_files_enough_for_a_crowd(name: str) -> None:
    files = int(unit(f"fheval-{name}.service")["Service"]["LimitNOFILE"])
    assert files >= (3 * MOST_CONNECTIONS + 512 if name == "aggregator" else 4096)
