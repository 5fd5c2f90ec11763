"""The systemd units say what the vault understands, and keep others out."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest
from typer.main import get_command

from fheval.cli.vault import app
from fheval.direct.front import MOST_CONNECTIONS

DEPLOY = Path(__file__).parents[2] / "deploy"


def unit(name: str) -> ConfigParser:
    # A unit may give a key several times; the last one is enough here.
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / name)
    return parser


def test_the_service_starts_a_vault_with_options_that_exist() -> None:
    line = unit("fheval-vault.service")["Service"]["ExecStart"]
    known = {option for parameter in get_command(app).params for option in parameter.opts}
    used = set(re.findall(r"--[a-z-]+", line))
    assert "fheval-vault.socket" in unit("fheval-vault.service")["Unit"]["Requires"]
    assert {"--kit", "--state"} <= used <= known


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


def test_the_vault_and_the_supernode_are_two_users() -> None:
    assert unit("fheval-vault.service")["Service"]["User"] != unit("fheval-vault.socket")["Socket"]["SocketUser"]


@pytest.mark.parametrize("name", ["aggregator", "party", "vault"])
def test_the_units_grant_files_enough_for_a_crowd(name: str) -> None:
    files = int(unit(f"fheval-{name}.service")["Service"]["LimitNOFILE"])
    assert files >= (3 * MOST_CONNECTIONS + 512 if name == "aggregator" else 4096)
