"""What `up`, `evaluate` and the ServerApp leave for each other in the state directory."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from fheval.aggregator.orders import Failure, OrderEnd, keep_keys, kept_keys
from fheval.aggregator.round_in_play import EpochKeys
from fheval.engines.parameters import bfv_linear, plain_moduli
from fheval.errors import CohortTooSmall, ConfigError, LocalProtocolError, TransportError
from fheval.flower.orders import clear_order, place_order, read_end, read_order, write_end
from fheval.flower.state import Registered, Registry, Running, State
from fheval.party.messages import Epoch
from fheval.protocols.round import PublicSetup
from flower.samples import ORDER


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State.at(tmp_path / "deep" / "state")


def test_an_order_arrives(state: State) -> None:
    place_order(state, "ab12", ORDER)
    assert read_order(state, "ab12") == ORDER
    clear_order(state, "ab12")
    with pytest.raises(LocalProtocolError, match="There is no order 'ab12'"):
        read_order(state, "ab12")


@pytest.mark.parametrize("name", ["", "../registry", "/etc/passwd", "a/b", "a.b"])
def test_an_orders_name_does_not_lead_out_of_the_directory(state: State, name: str) -> None:
    (state.directory / "registry.request").write_text("{}")
    with pytest.raises(LocalProtocolError):
        read_order(state, name)


def test_an_outcome_is_there_or_not(state: State) -> None:
    assert read_end(state, "ab12") is None
    outcome = OrderEnd(failure=Failure.of(CohortTooSmall("Only 2 members answered.")))
    write_end(state, "ab12", outcome)
    assert read_end(state, "ab12") == outcome


def test_a_failure_keeps_its_kind_and_with_it_its_exit_status() -> None:
    with pytest.raises(CohortTooSmall, match="Only 2"):
        OrderEnd(failure=Failure.of(CohortTooSmall("Only 2 members answered."))).result()
    with pytest.raises(TransportError, match="without an outcome"):
        OrderEnd().result()


def test_keys_are_kept_for_the_next_round(state: State) -> None:
    assert kept_keys(state.keys, policy=b"one") is None
    keys = EpochKeys(
        epoch=Epoch(id="ab" * 16, leader="birch"),
        parties=("alder", "birch", "cedar"),
        engine="seal",
        openers=("birch",),
        parameters=tuple(map(bfv_linear, plain_moduli(4))),
        public=PublicSetup(round="ab" * 16, sender="birch", keys=(b"one", b"two")),
        box=b"box",
        bundles={"alder": b"a", "birch": b"b", "cedar": b"c"},
    )
    keep_keys(state.keys, keys, policy=b"one")
    assert kept_keys(state.keys, policy=b"one") == keys
    assert kept_keys(state.keys, policy=b"two") is None
    state.keys.write_bytes(state.keys.read_bytes()[:-1])
    assert kept_keys(state.keys, policy=b"one") is None


def test_the_directory_is_private_and_others_are_refused(tmp_path: Path) -> None:
    state = State.at(tmp_path / "state")
    assert state.directory.stat().st_mode & 0o777 == 0o700
    state.directory.chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        State.at(tmp_path / "state")


def test_two_aggregators_do_not_share_a_directory(state: State) -> None:
    with state.held(), pytest.raises(ConfigError, match="already up"), state.held():
        raise AssertionError
    with state.held():
        pass


def test_a_running_aggregator_is_found(state: State) -> None:
    with pytest.raises(ConfigError, match="No aggregator is up"):
        state.read_running()
    running = Running(pid=os.getpid(), port=4321, kit="/kits/hub")
    state.write_running(running)
    assert state.read_running() == running
    state.forget_running()
    with pytest.raises(ConfigError, match="No aggregator is up"):
        state.read_running()


def test_a_damaged_file_is_named(state: State) -> None:
    state.write_registry(Registry(members={"alder": Registered(key="ecdsa", node=2**64 - 1)}))
    assert state.read_registry().members["alder"].node == 2**64 - 1
    (state.directory / "registry.json").write_text("{")
    with pytest.raises(ConfigError, match=r"registry\.json is damaged"):
        state.read_registry()


def test_the_certificate_inside_is_new_each_time_and_its_key_private(state: State) -> None:
    state.renew_inside(now=datetime.now(timezone.utc))
    first = state.inside_certificate.read_bytes()
    state.renew_inside(now=datetime.now(timezone.utc))
    assert state.inside_certificate.read_bytes() != first
    assert state.inside_key.stat().st_mode & 0o777 == 0o600
