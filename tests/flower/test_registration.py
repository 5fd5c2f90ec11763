"""SuperLink knows the SuperNodes of the policy's members: new ones are added, those that are gone are forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from fheval.consortium import AggregatorKit
from fheval.errors import TransportError
from fheval.flower.control import Control
from fheval.flower.state import State
from fheval.flower.superlink import register_members


@dataclass
class FakeKit:
    directory: Path

    def supernode_keys(self) -> dict[str, Path]:
        return {path.stem: path for path in sorted(self.directory.glob("*.pub"))}

    def member(self, name: str, key: str) -> None:
        (self.directory / f"{name}.pub").write_text(f"{key}\n")


@dataclass
class FakeControl:
    """Numbers SuperNodes from 1; fails at the key that says so."""

    registered: list[str] = field(default_factory=list)
    unregistered: list[int] = field(default_factory=list)

    def register(self, keys: Sequence[Path]) -> Iterator[int]:
        for key in keys:
            if "bad" in key.read_text():
                raise TransportError("flwr supernode failed.")
            self.registered.append(key.stem)
            yield len(self.registered)

    def unregister(self, node: int) -> None:
        self.unregistered.append(node)


@pytest.fixture
def kit(tmp_path: Path) -> FakeKit:
    directory = tmp_path / "supernodes"
    directory.mkdir()
    made = FakeKit(directory)
    for name in ("alder", "birch", "cedar"):
        made.member(name, f"key of {name}")
    return made


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State.at(tmp_path / "state")


def register(kit: FakeKit, state: State, control: FakeControl, told: Event | None = None) -> dict[str, int]:
    register_members(cast(AggregatorKit, kit), state, cast(Control, control), told or Event())
    return {name: entry.node for name, entry in state.read_registry().members.items()}


def test_members_are_registered_once(kit: FakeKit, state: State) -> None:
    control = FakeControl()
    assert register(kit, state, control) == {"alder": 1, "birch": 2, "cedar": 3}
    assert register(kit, state, control) == {"alder": 1, "birch": 2, "cedar": 3}
    assert control.registered == ["alder", "birch", "cedar"]


def test_a_member_that_was_removed_is_forgotten(kit: FakeKit, state: State) -> None:
    control = FakeControl()
    register(kit, state, control)
    (kit.directory / "birch.pub").unlink()
    assert register(kit, state, control) == {"alder": 1, "cedar": 3}
    assert control.unregistered == [2]


def test_a_renewed_key_replaces_the_old_one(kit: FakeKit, state: State) -> None:
    control = FakeControl()
    register(kit, state, control)
    kit.member("birch", "another key")
    assert register(kit, state, control) == {"alder": 1, "birch": 4, "cedar": 3}
    assert control.unregistered == [2]


def test_what_was_registered_before_a_failure_is_kept(kit: FakeKit, state: State) -> None:
    control = FakeControl()
    kit.member("birch", "bad")
    with pytest.raises(TransportError):
        register(kit, state, control)
    kit.member("birch", "good")
    assert register(kit, state, control) == {"alder": 1, "birch": 2, "cedar": 3}
    assert control.registered == ["alder", "birch", "cedar"]


def test_nothing_is_registered_once_we_are_told_to_stop(kit: FakeKit, state: State) -> None:
    told = Event()
    told.set()
    assert register(kit, state, FakeControl(), told) == {}
