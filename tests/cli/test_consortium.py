"""Transcripts of `fheval consortium`: commands, output, exit status."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime, timezone
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from fheval.cli import main
from fheval.consortium import load_aggregator_kit, load_kit

MEMBERS = ("alder", "birch", "cedar")


class Transcript(NamedTuple):
    """What a command left behind."""

    status: int
    stdout: str
    stderr: str


def run(*arguments: str | Path) -> Transcript:
    with redirect_stdout(StringIO()) as stdout, redirect_stderr(StringIO()) as stderr:
        status = main(["consortium", *map(str, arguments)])
    return Transcript(status, stdout.getvalue(), stderr.getvalue())


def done(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result == Transcript(0, result.stdout, "")
    return result.stdout


def refused(status: int, reason: str, *arguments: str | Path) -> None:
    result = run(*arguments)
    assert result == Transcript(status, "", result.stderr)
    assert re.search(reason, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def now() -> datetime:
    return datetime.now(timezone.utc)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    directory = tmp_path / "authority"
    done("init", directory, "--name", "Trial study")
    return directory


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("prepared") / "authority"
    done("init", directory, "--name", "Trial study")
    for member in MEMBERS:
        done("enroll", directory, member)
    done("enroll", directory, "hub", "--aggregator", "127.0.0.1", "--aggregator", "localhost")
    done("policy", directory)
    return directory


@pytest.fixture
def ready(prepared: Path, tmp_path: Path) -> Path:
    """Each test gets its own copy of one consortium."""
    return Path(shutil.copytree(prepared, tmp_path / "ready"))


def test_from_nothing_to_kits_that_load(ready: Path) -> None:
    for member in MEMBERS:
        assert load_kit(ready / "kits" / member, now=now()).identity.name == member
    assert load_aggregator_kit(ready / "kits" / "hub", now=now()).policy.version == 1


def test_init_says_what_comes_next(tmp_path: Path) -> None:
    told = done("init", tmp_path / "a", "--name", "Trial study")
    assert "authority of Trial study" in told
    assert re.search(r"fingerprint.*: ([0-9a-f]{4}-){7}[0-9a-f]{4}\n", told)
    assert f"fheval consortium publish {tmp_path / 'a'} REQUEST" in told


def test_init_refuses_bad_usage(tmp_path: Path, authority: Path) -> None:
    refused(2, "already exists", "init", authority, "--name", "Trial")
    refused(2, "Missing option '--name'", "init", tmp_path / "b")
    refused(2, "--ca-key needs --ca-cert", "init", tmp_path / "b", "--name", "T", "--ca-key", "k")
    refused(2, "There is no file", "init", tmp_path / "b", "--name", "T", "--ca-cert", tmp_path / "none")
    refused(2, "cannot name a consortium", "init", tmp_path / "b", "--name", "")
    assert not (tmp_path / "b").exists()


def test_init_brings_an_authority_along(tmp_path: Path, authority: Path) -> None:
    pair = ("--ca-cert", authority / "ca.pem", "--ca-key", authority / "ca.key")
    done("init", tmp_path / "b", "--name", "Second", *pair)
    assert (tmp_path / "b" / "ca.key").read_bytes() == (authority / "ca.key").read_bytes()
    done("enroll", tmp_path / "b", "alder")
    done("init", tmp_path / "c", "--name", "Third", "--ca-cert", authority / "ca.pem")
    assert not (tmp_path / "c" / "ca.key").exists()
    refused(2, "issued elsewhere", "enroll", tmp_path / "c", "alder")


def test_enroll_writes_the_kit_where_it_is_told(tmp_path: Path, authority: Path) -> None:
    told = done("enroll", authority, "alder", "--out", tmp_path / "elsewhere", "--valid-days", "7")
    assert f"The kit of alder is in {tmp_path / 'elsewhere'}" in told
    assert (tmp_path / "elsewhere" / "signing.key").is_file()
    assert not (authority / "kits" / "alder").exists()


def test_enroll_refuses_bad_usage(tmp_path: Path, authority: Path) -> None:
    done("enroll", authority, "alder")
    refused(2, "'alder' is enrolled already", "enroll", authority, "alder", "--out", tmp_path / "k")
    refused(2, "cannot be used as a name", "enroll", authority, "../alder")
    refused(2, "name of a role", "enroll", authority, "leader")
    refused(2, "no directory", "enroll", tmp_path / "none", "birch")
    refused(2, "already exists", "enroll", authority, "birch", "--out", authority)
    refused(2, "neither an IP address nor", "enroll", authority, "hub", "--aggregator", "a b")
    refused(2, "'alder' is a member", "enroll", authority, "alder", "--aggregator", "localhost")
    refused(2, "goes with neither", "enroll", authority, "hub", "--aggregator", "localhost", "--renew")
    refused(2, "needs the member's --request", "enroll", authority, "b", "--certificate", authority / "ca.pem")
    unknown = ("--request", authority / "ca.pem", "--fingerprint", "1")
    refused(2, "--request needs --out", "enroll", authority, "b", *unknown)
    refused(2, "Invalid value for '--valid-days'", "enroll", authority, "b", "--valid-days", "0")
    assert not (tmp_path / "k").exists()


@pytest.mark.parametrize("name", ["ca.key", "policy.key"])
@pytest.mark.parametrize("command", [("enroll", "dogwood"), ("policy",), ("list",)])
def test_an_authority_with_an_open_key_does_not_start(authority: Path, name: str, command: tuple[str, ...]) -> None:
    (authority / name).chmod(0o644)
    refused(2, f"{name} holds a secret.*chmod 600", command[0], authority, *command[1:])


def test_a_member_brings_its_own_keys(tmp_path: Path, ready: Path) -> None:
    kit, reply = tmp_path / "kit", tmp_path / "reply.fhev"
    told = done("request", kit, "dogwood")
    request_print = re.findall(r"(?:[0-9a-f]{4}-){7}[0-9a-f]{4}", told)[0]
    assert done("show", kit / "request.fhev") == f"A request of dogwood. Its fingerprint: {request_print}\n"
    asked = ("enroll", ready, "dogwood", "--request", kit / "request.fhev", "--out", reply)
    refused(2, "--request needs --fingerprint.*fheval consortium show", *asked)
    refused(
        2, "Do not enrol it", *asked, "--fingerprint", f"{'1' if request_print[0] == '0' else '0'}{request_print[1:]}"
    )
    assert not reply.exists()
    told = done(*asked, "--fingerprint", request_print.upper())
    (anchor_print,) = re.findall(r"(?:[0-9a-f]{4}-){7}[0-9a-f]{4}", told)
    refused(2, "Missing option '--authority'", "accept", kit, reply)
    refused(2, "Do not use it", "accept", kit, reply, "--authority", request_print)
    done("accept", kit, reply, "--authority", anchor_print)
    done("policy", ready)
    assert "policy version 2" in done("update", kit, ready / "policy.fhev")
    assert load_kit(kit, now=now()).policy.member("dogwood")
    again = ("enroll", ready, "elm", "--request", kit / "request.fhev", "--fingerprint", request_print)
    refused(2, "already exists", *again, "--out", reply)
    refused(2, "Give both", "enroll", ready, "elm", "--fingerprint", request_print)


def test_update_refuses_what_the_authority_did_not_sign(tmp_path: Path, ready: Path) -> None:
    kit = ready / "kits" / "alder"
    old = (ready / "policy.fhev").read_bytes()
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "bad").write_bytes(old[:-1] + bytes([old[-1] ^ 1]))
    done("policy", ready)
    refused(1, "version 1 does not replace version 2", "update", kit, tmp_path / "old")
    refused(1, "not signed by this consortium's authority", "update", kit, tmp_path / "bad")
    refused(1, "not a message", "update", kit, ready / "README.txt")
    refused(2, "There is no file", "update", kit, tmp_path / "none")


def test_policy_keeps_rules_that_are_not_given(ready: Path) -> None:
    told = done("policy", ready, "--releases-per-lineage", "7")
    assert "Signed policy version 2 of Trial study for alder, birch, cedar." in told
    assert "fheval consortium update KIT policy.fhev" in told
    done("policy", ready, "--minimum-cohort", "2")
    rules = json.loads(done("list", ready, "--json", "-"))["policy"]
    assert (rules["version"], rules["minimum_cohort"], rules["releases_per_lineage"]) == (3, 2, 7)
    for member in MEMBERS:
        assert load_kit(ready / "kits" / member, now=now()).policy.version == 3


def test_policy_removes_a_member(ready: Path) -> None:
    done("enroll", ready, "dogwood")
    done("policy", ready, "--remove", "birch")
    listing = json.loads(done("list", ready, "--json", "-"))
    assert listing["policy"]["members"] == ["alder", "cedar", "dogwood"]
    done("policy", ready)
    assert json.loads(done("list", ready, "--json", "-"))["policy"]["members"] == ["alder", "cedar", "dogwood"]


def test_policy_refuses_bad_usage(ready: Path, tmp_path: Path) -> None:
    refused(2, "at least 2 parties", "policy", ready, "--minimum-cohort", "1")
    refused(2, "no round could run", "policy", ready, "--minimum-cohort", "4")
    refused(2, "'dogwood' is not enrolled", "policy", ready, "--remove", "dogwood")
    refused(2, "Invalid value for '--valid-days'", "policy", ready, "--valid-days", "never")
    assert json.loads(done("list", ready, "--json", "-"))["policy"]["version"] == 1


def test_a_policy_needs_enough_members(authority: Path) -> None:
    done("enroll", authority, "alder")
    refused(2, "lists 1 members and asks for a cohort of 3", "policy", authority)


def test_list_shows_people_a_table(ready: Path) -> None:
    done("enroll", ready, "dogwood")
    shown = done("list", ready)
    assert "Trial study" in shown
    assert re.search(r"alder +member +valid +\S+ +yes", shown)
    assert re.search(r"dogwood +member +valid +\S+ +no", shown)
    assert re.search(r"hub +aggregator +valid", shown)
    assert re.search(r"minimum cohort +3", shown)


def test_list_before_the_first_policy(authority: Path) -> None:
    assert "No policy has been signed yet." in done("list", authority)
    assert json.loads(done("list", authority, "--json", "-"))["policy"] is None


def test_list_gives_machines_one_object(ready: Path, tmp_path: Path) -> None:
    listing = json.loads(done("list", ready, "--json", "-"))
    assert set(listing) == {"consortium", "authority", "issues", "policy", "entries"}
    assert [entry["name"] for entry in listing["entries"]] == [*MEMBERS, "hub"]
    assert listing["entries"][0] | {"not_after": "", "fingerprint": ""} == {
        "name": "alder",
        "role": "member",
        "state": "valid",
        "not_after": "",
        "fingerprint": "",
        "in_policy": True,
    }
    assert done("list", ready, "--json", tmp_path / "out.json") == ""
    assert json.loads((tmp_path / "out.json").read_text()) == listing


def test_no_command_prints_a_key(ready: Path, tmp_path: Path) -> None:
    told = done("list", ready) + done("list", ready, "--json", "-") + done("request", tmp_path / "kit", "elm")
    assert "PRIVATE" not in told
    for path in (*ready.rglob("*.key"), *(tmp_path / "kit").rglob("*.key")):
        for line in path.read_text().splitlines()[1:-1]:
            assert line not in told


def test_a_path_through_a_file_is_named(authority: Path) -> None:
    refused(2, "Check the path", "init", authority / "ca.pem" / "a", "--name", "Trial")


@pytest.mark.parametrize("command", ["init", "enroll", "request", "show", "accept", "update", "policy", "list"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    shown = done(command, "--help")
    assert re.search(rf"^Examples?:\n  fheval consortium {command}", shown, re.MULTILINE)
