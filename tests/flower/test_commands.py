"""`fheval aggregator` and `fheval party`: what they refuse before they start anything, and what they start."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.session import Session
from fheval.aggregator.orders import Order, Summary
from fheval.cli import aggregator as aggregator_command
from fheval.consortium import install_study
from fheval.consortium.authority import load_authority
from fheval.errors import ConfigError
from fheval.flower.state import Running, State
from fheval.flower.supernode import node_config
from fheval.study import Study
from flower.parties import Parties, make_parties
from flower.samples import SUMMARY


@pytest.fixture
def fheval(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("COLUMNS", "100")
    return Session(capsys)


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    return make_parties(tmp_path_factory.mktemp("p"), 3)


@dataclass
class Carried:
    """Stands where rounds are run: notes the orders."""

    orders: list[Order] = field(default_factory=list)

    def __call__(self, _: State, order: Order) -> Summary:
        self.orders.append(order)
        return SUMMARY


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> Carried:
    made = Carried()
    monkeypatch.setattr(aggregator_command, "carry_out", made)
    return made


def evaluate(fheval: Session, parties: Parties, tmp_path: Path, *options: str, study: str = "padded") -> Any:
    place = ["--kit", str(parties.root / "hub"), "--state", str(tmp_path / "state")]
    return fheval("aggregator", "evaluate", *place, "--study", study, *options)


def test_a_round_as_it_is_asked_for_by_default(
    fheval: Session, parties: Parties, carried: Carried, tmp_path: Path
) -> None:
    done = evaluate(fheval, parties, tmp_path)
    assert (done.status, done.err) == (0, "")
    (order,) = carried.orders
    assert (order.study, order.members) == ("padded", parties.members)


def test_what_it_says_about_a_round(fheval: Session, parties: Parties, carried: Carried, tmp_path: Path) -> None:
    lines = evaluate(fheval, parties, tmp_path).out.splitlines()
    assert lines == [
        f"Round {'ab' * 16} took 31.4 s in 7 exchanges.",
        "Roster: member-000, member-001. Leader: member-001.",
        "Dropped out: member-002.",
        "An attempt led by member-002 failed: the leader member-002 failed. It has cost no release.",
        "Members see the result with: fheval vault rounds",
    ]


def test_it_names_who_has_not_confirmed(
    fheval: Session, parties: Parties, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = msgspec.structs.replace(SUMMARY, unconfirmed=("member-000",))
    monkeypatch.setattr(aggregator_command, "carry_out", lambda *_: summary)
    lines = evaluate(fheval, parties, tmp_path).out.splitlines()
    assert "Not confirmed by member-000, who get the outcome when they are back." in lines


def test_json_has_everything_but_a_result(fheval: Session, parties: Parties, carried: Carried, tmp_path: Path) -> None:
    done = evaluate(fheval, parties, tmp_path, "--json", "-")
    expected = msgspec.json.decode(msgspec.json.encode(SUMMARY))
    del expected["told"]  # what the aggregator was told is there only where the study lets it be told
    assert done.json() == expected
    assert "auc" not in done.json()


def test_options_reach_the_order(fheval: Session, parties: Parties, carried: Carried, tmp_path: Path) -> None:
    options = ["--member", "member-002", "--member", "member-000", "--timeout", "7", "--member", "member-001"]
    assert evaluate(fheval, parties, tmp_path, *options, study="padded-verified").status == 0
    (order,) = carried.orders
    assert (order.members, order.timeout) == (("member-002", "member-000", "member-001"), 7.0)
    assert order.study == "padded-verified"


def test_what_the_policy_does_not_allow_is_refused_before_anybody_is_asked(
    fheval: Session, parties: Parties, carried: Carried, tmp_path: Path
) -> None:
    few = evaluate(fheval, parties, tmp_path, "--member", "member-000", "--member", "member-001")
    assert (few.status, few.out) == (1, "")
    assert "the policy asks for at least 3" in few.err
    assert carried.orders == []


@pytest.mark.parametrize("study", ["autumn", "", "../policy", "/etc/passwd"])
def test_a_study_that_the_kit_does_not_have(
    fheval: Session, parties: Parties, carried: Carried, tmp_path: Path, study: str
) -> None:
    done = evaluate(fheval, parties, tmp_path, study=study)
    assert (done.status, done.out) == (2, "")
    assert "it has: padded, padded-verified" in " ".join(done.err.split())
    assert carried.orders == []


def test_a_study_that_has_ended(fheval: Session, carried: Carried, tmp_path: Path) -> None:
    parties = make_parties(tmp_path, 3)
    ended = Study.of(name="spring", until=date(2020, 1, 1))
    install_study(tmp_path / "hub", load_authority(tmp_path / "authority").sign_study(ended)[1])
    done = evaluate(fheval, parties, tmp_path, study="spring")
    assert (done.status, done.out) == (2, "")
    assert "The study ended on 2020-01-01" in done.err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--member", "nobody"], "--member nobody is not in the policy"),
        (["--json", "/nowhere/x.json"], "there is no directory /nowhere"),
        (["--protocol", "padded"], "No such option"),
        (["--precision", "exact"], "No such option"),
        (["--max-samples", "64"], "No such option"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    fheval: Session, parties: Parties, carried: Carried, tmp_path: Path, options: list[str], complaint: str
) -> None:
    done = evaluate(fheval, parties, tmp_path, *options)
    assert (done.status, done.out) == (2, "")
    assert complaint in done.err
    assert carried.orders == []


def test_no_aggregator_is_up(fheval: Session, parties: Parties, tmp_path: Path) -> None:
    done = evaluate(fheval, parties, tmp_path)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("No aggregator is up in ")


def test_status_is_not_known_over_flower(fheval: Session, tmp_path: Path) -> None:
    state = tmp_path / "state"
    done = fheval("aggregator", "status", "--state", state)
    assert (done.status, state.exists()) == (2, False)
    assert done.err.startswith("No aggregator is up in ")
    State.at(state).write_running(Running(pid=1, port=9092, kit="hub"))
    done = fheval("aggregator", "status", "--state", state)
    assert done.status == 2
    assert "runs over Flower" in done.err


def test_a_member_is_no_aggregator(fheval: Session, parties: Parties, tmp_path: Path) -> None:
    done = fheval("aggregator", "up", "--kit", parties.root / "member-000" / "kit", "--state", tmp_path / "state")
    assert (done.status, done.out) == (2, "")
    assert not (tmp_path / "state").exists()


def test_a_kit_that_others_can_read_starts_nothing(fheval: Session, tmp_path: Path) -> None:
    parties = make_parties(tmp_path, 3)
    (tmp_path / "hub" / "server.key").chmod(0o644)
    done = fheval("aggregator", "up", "--kit", parties.root / "hub", "--state", tmp_path / "state")
    assert (done.status, done.out) == (2, "")
    assert "has mode 0644 instead of 0600" in done.err
    (tmp_path / "member-000" / "kit" / "transport" / "transport.key").chmod(0o640)
    done = party(fheval, tmp_path / "member-000" / "kit", tmp_path)
    assert done.status == 2
    assert "has mode 0640 instead of 0600" in done.err


def party(fheval: Session, kit: Path, tmp_path: Path) -> Any:
    options = ["--vault", str(tmp_path / "v.sock"), "--superlink", "127.0.0.1:1", "--state", str(tmp_path / "s")]
    return fheval("party", "up", "--kit", kit, *options)


def test_a_kit_without_a_supernode_key(fheval: Session, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir(mode=0o700)
    done = party(fheval, tmp_path / "kit", tmp_path)
    assert done.status == 2
    assert "transport.key" in done.err


@pytest.mark.parametrize("path", ['/run/a"b.sock', "/run/a'b.sock", "/run/a\\b.sock", "/run/a\nb.sock"])
def test_a_socket_that_flower_could_not_carry_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="Move the socket"):
        node_config(Path(path))


def test_a_port_that_is_taken(fheval: Session, parties: Parties, tmp_path: Path) -> None:
    """Said at once, before SuperLink is started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        state = tmp_path / "state"
        done = fheval("aggregator", "up", "--kit", parties.root / "hub", "--state", state, "--port", str(port))
    assert (done.status, done.out) == (2, "")
    assert f"127.0.0.1:{port} cannot be listened on" in done.err
    assert not (state / "inside").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_ends_it_cleanly(parties: Parties, tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "fheval", "aggregator", "up", "--kit", str(parties.root / "hub")]
    started = subprocess.Popen(
        [*command, "--state", str(tmp_path / "state"), "--port", "1", "--transport", "flower"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "state" / "inside" / "authority.pem").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)
    started.send_signal(number)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out) == (0, b""), err
