"""The ServerApp and the relay play whole rounds: dropouts, a lost leader, keys used again, and nothing learnt."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import cast

import msgspec
import pytest
from flwr.app import Context, RecordDict, UserConfig
from flwr.serverapp import Grid

from fheval.aggregator.orders import Order, Summary
from fheval.errors import CohortTooSmall, ConfigError
from fheval.flower import exchange as exchange_module
from fheval.flower.aggregator import main, play
from fheval.flower.orders import place_order, read_end
from fheval.flower.relay import make_app
from fheval.flower.state import STATE_VARIABLE, Registered, Registry, State
from flower.app_grid import AppGrid
from flower.parties import Parties, make_parties
from flower.simulated.fheval_simulated.party import to_core

MEMBERS = 4
# Seconds after which a member counts as silent. On a machine that others use too, making keys takes more than one.
SILENCE = 3.0


@pytest.fixture(autouse=True)
def _quick(_as_an_app: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "_LOOK_EVERY", 0.01)


@pytest.fixture
def parties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parties:
    monkeypatch.setenv("FHEVAL_SIMULATED", str(tmp_path))
    return make_parties(tmp_path, MEMBERS)


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State.at(tmp_path / "state")


class Lossy:
    """Loses the messages that a test wants lost: `(member's number, stage)`, once or always."""

    def __init__(self) -> None:
        self.always: set[tuple[int | None, str]] = set()
        self.next_leader = ""

    def __call__(self, node: int, group: str) -> bool:
        stage = group.rpartition("-")[2]
        if stage == self.next_leader:
            self.next_leader = ""
            return True
        return (node - 100, stage) in self.always or (node - 100, "") in self.always


@pytest.fixture
def lossy() -> Lossy:
    return Lossy()


@pytest.fixture
def grid(parties: Parties, lossy: Lossy) -> AppGrid:
    configs: dict[int, UserConfig] = {100 + index: {"partition-id": index} for index in range(MEMBERS)}
    return AppGrid(make_app(to_core), configs, lossy)


def carry(grid: AppGrid, state: State, order: Order) -> Summary:
    return play(cast(Grid, grid), state, order)


def auc(parties: Parties, name: str) -> float:
    verdict = parties.verdicts(name)[-1]
    assert verdict is not None
    ratio = verdict.ratios[0]
    assert ratio is not None
    return float(ratio)


@pytest.mark.parametrize(
    ("protocol", "precision", "within"), [("padded", 1e-4, 1e-4), ("padded-verified", None, 1e-12)]
)
def test_every_party_has_the_pooled_auc(
    parties: Parties, grid: AppGrid, state: State, protocol: str, precision: float | None, within: float
) -> None:
    summary = carry(grid, state, parties.order(protocol))
    assert set(summary.roster) == set(summary.confirmed) == set(parties.members)
    assert (summary.dropouts, summary.unconfirmed, summary.exchanges) == ((), (), 6)
    for name in parties.members:
        assert auc(parties, name) == pytest.approx(parties.pooled(), abs=within)


def test_neither_bytes_nor_summary_hold_the_result(parties: Parties, grid: AppGrid, state: State) -> None:
    summary = carry(grid, state, parties.order("padded-verified"))
    verdict = parties.verdicts(parties.members[0])[-1]
    assert verdict is not None
    ratio = verdict.ratios[0]
    assert isinstance(ratio, Fraction)
    shown = [str(float(ratio))[:7].encode(), str(ratio.numerator).encode() + b"/", b"label,score"]
    seen = [*grid.bytes_seen, msgspec.json.encode(summary)]
    assert len(seen) > 20
    assert not [value for value in shown if any(value in data for data in seen)]


def test_a_second_round_needs_no_new_keys(parties: Parties, grid: AppGrid, state: State) -> None:
    order = parties.order("padded")
    assert carry(grid, state, order).exchanges == 6
    second = carry(grid, state, order)
    assert second.exchanges == 5
    assert "setup" not in second.seconds
    assert auc(parties, parties.members[0]) == pytest.approx(parties.pooled(), abs=1e-4)


def test_a_member_that_is_silent_at_submit_drops_out(
    parties: Parties, grid: AppGrid, state: State, lossy: Lossy
) -> None:
    order = parties.order("padded", timeout=SILENCE)
    # The leader is drawn, and a silent one is replaced: whichever it is, the rest have a result.
    lossy.always = {(2, "submit")}
    summary = carry(grid, state, order)
    assert summary.dropouts == ("member-002",)
    rest = [name for name in parties.members if name != "member-002"]
    assert sorted(summary.roster) == rest
    assert auc(parties, "member-000") == pytest.approx(parties.pooled(rest), abs=1e-4)


@pytest.mark.parametrize("stage", ["setup", "pads"])
def test_a_leader_that_is_lost_is_replaced(
    parties: Parties, grid: AppGrid, state: State, lossy: Lossy, stage: str
) -> None:
    lossy.next_leader = stage
    summary = carry(grid, state, parties.order("padded", timeout=SILENCE))
    assert len(summary.attempts) == 2
    failed = summary.attempts[0]
    assert failed.failure is not None
    assert summary.dropouts == (failed.leader,)
    assert summary.leader != failed.leader
    assert summary.round != failed.round
    rest = [name for name in parties.members if name != failed.leader]
    assert auc(parties, rest[0]) == pytest.approx(parties.pooled(rest), abs=1e-4)


def test_a_lost_answer_to_the_result_is_asked_for_again(
    parties: Parties, grid: AppGrid, state: State, lossy: Lossy
) -> None:
    lossy.next_leader = "result"
    summary = carry(grid, state, parties.order("padded", timeout=SILENCE))
    assert summary.dropouts == ()
    assert summary.exchanges == 7


def test_registered_nodes_are_not_asked_for_their_names(parties: Parties, grid: AppGrid, state: State) -> None:
    numbers = {name: Registered(key="", node=100 + index) for index, name in enumerate(parties.members)}
    state.write_registry(Registry(members=numbers))
    carry(grid, state, parties.order("padded"))
    assert not [group for group in grid.groups if "names" in group]


def test_swapped_registrations_make_dropouts_and_no_impostors(parties: Parties, grid: AppGrid, state: State) -> None:
    """A reply counts for the member that signed it, wherever it came from."""
    nodes = [101, 100, 102, 103]
    numbers = {name: Registered(key="", node=node) for name, node in zip(parties.members, nodes, strict=True)}
    state.write_registry(Registry(members=numbers))
    with pytest.raises(CohortTooSmall):
        carry(grid, state, parties.order("padded", timeout=SILENCE))


def test_those_who_are_not_connected_are_dropouts(parties: Parties, grid: AppGrid, state: State) -> None:
    numbers = {name: Registered(key="", node=100 + index) for index, name in enumerate(parties.members)}
    numbers["member-003"] = Registered(key="", node=999)
    state.write_registry(Registry(members=numbers))
    order = msgspec.structs.replace(parties.order("padded"), patience=0.05)
    assert carry(grid, state, order).dropouts == ("member-003",)


def run_context(order: str) -> Context:
    return Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={"order": order})


def test_the_app_leaves_its_outcome_for_the_command(
    parties: Parties, grid: AppGrid, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, os.fspath(state.directory))
    place_order(state, "ab12", parties.order("padded"))
    main(cast(Grid, grid), run_context("ab12"))
    outcome = read_end(state, "ab12")
    assert outcome is not None
    assert outcome.summary is not None
    assert outcome.failure is None


def test_the_app_leaves_its_failure_too_and_fails(
    parties: Parties, grid: AppGrid, state: State, lossy: Lossy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, os.fspath(state.directory))
    lossy.always = {(0, ""), (1, "")}
    place_order(state, "ab12", parties.order("padded", timeout=0.5))
    with pytest.raises(CohortTooSmall):
        main(cast(Grid, grid), run_context("ab12"))
    outcome = read_end(state, "ab12")
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.kind == "CohortTooSmall"


def test_a_superlink_that_fheval_did_not_start_is_refused(grid: AppGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STATE_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="fheval aggregator up"):
        main(cast(Grid, grid), run_context("ab12"))
