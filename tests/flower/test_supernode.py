"""A SuperNode is started again when it ends by itself, for a while; a signal ends it for good."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from fheval.errors import ConfigError, TransportError
from fheval.flower import supernode as module
from fheval.flower.supernode import SuperNode, run_supernode


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SuperNode:
    """Ends with the status in the file `status`, or runs on where it says `on`; notes its start in `starts`."""
    program = tmp_path / "flower-supernode"
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, sys, time\nhere = pathlib.Path({str(tmp_path)!r})\n"
        "print(*sys.argv[1:], sep='\\t', file=(here / 'starts').open('a'))\n"
        "text = (here / 'status').read_text()\ntime.sleep(60) if text == 'on' else sys.exit(int(text))\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(module, "flower_program", lambda name: str(tmp_path / name))
    monkeypatch.setattr(module, "_TRY_EVERY", 0.05)
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.02)
    return SuperNode(
        key=tmp_path / "node.key",
        authority=tmp_path / "authority.pem",
        vault=tmp_path / "v.sock",
        superlink="127.0.0.1:9092",
        home=tmp_path,
    )


def starts(tmp_path: Path) -> list[list[str]]:
    try:
        return [line.split("\t") for line in (tmp_path / "starts").read_text().splitlines()]
    except FileNotFoundError:
        return []


def test_one_that_keeps_ending_is_given_up(node: SuperNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRY_AGAIN_FOR", 0.5)
    (tmp_path / "status").write_text("1")
    said: list[str] = []
    with pytest.raises(TransportError, match="again and again, with status 1"):
        run_supernode(node, said.append)
    assert len(starts(tmp_path)) >= 2
    assert [line for line in said if "started again" in line]


def test_one_that_failed_at_first_may_still_succeed(node: SuperNode, tmp_path: Path) -> None:
    (tmp_path / "status").write_text("1")

    def operate() -> None:
        deadline = time.monotonic() + 20
        while len(starts(tmp_path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        (tmp_path / "status").write_text("on")
        before = len(starts(tmp_path))
        while len(starts(tmp_path)) <= before and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)

    operator = threading.Thread(target=operate)
    operator.start()
    run_supernode(node, lambda _: None)
    operator.join()


def test_it_is_told_its_key_whom_to_trust_and_its_vault(node: SuperNode, tmp_path: Path) -> None:
    command = node.command()
    for option, value in (
        ("--superlink", "127.0.0.1:9092"),
        ("--root-certificates", f"{tmp_path}/authority.pem"),
        ("--auth-supernode-private-key", f"{tmp_path}/node.key"),
        ("--node-config", f'vault="{tmp_path}/v.sock"'),
        ("--host", "127.0.0.1"),
    ):
        assert command[command.index(option) + 1] == value
    assert not {"--insecure", "--allow-runtime-dependency-installation"} & set(command)


@pytest.mark.parametrize("address", ["nonsense", "hub:", ":9092", "https://hub:9092", "hub:9092/x", "h u b:1", "a:b:1"])
def test_an_address_that_is_none_is_refused_at_once(node: SuperNode, tmp_path: Path, address: str) -> None:
    odd = SuperNode(key=node.key, authority=node.authority, vault=node.vault, superlink=address, home=node.home)
    with pytest.raises(ConfigError, match="is no address"):
        run_supernode(odd, lambda _: None)
    assert starts(tmp_path) == []


@pytest.mark.parametrize("address", ["hub.example.org:9092", "192.0.2.7:443", "[2001:db8::7]:9092"])
def test_an_address(address: str) -> None:
    module._check_address(address)
