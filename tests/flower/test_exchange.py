"""An exchange gives the good replies that came in time: dropouts are whoever is missing, for whatever reason."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from fheval.aggregator.orders import Post
from fheval.aggregator.round_in_play import Exchange
from fheval.flower import exchange as exchange_module
from fheval.flower.exchange import FlowerExchange, online
from fheval.flower.records import MESSAGE_TYPE, pack, unpack
from fheval.protocols.base import Stage

UNSENT = object()
NODES = {"alder": 11, "birch": 22, "cedar": 33}


class Grid:
    """Stands where Flower's grid stands: `answers` gives a node's reply, None for none."""

    def __init__(self, answers: dict[int, object]) -> None:
        self.answers = answers
        self.pushed: list[list[Message]] = []
        self.pulls = 0

    def push_messages(self, messages: Iterable[Message]) -> list[str | None]:
        batch = list(messages)
        self.pushed.append(batch)
        return [None if self._answer(message) is UNSENT else self._id(message) for message in batch]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        self.pulls += 1
        wanted = set(message_ids)
        asked = [message for batch in self.pushed for message in batch if self._id(message) in wanted]
        return [reply for message in asked if (reply := self._reply(message)) is not None]

    def get_node_ids(self) -> list[int]:
        return sorted(self.answers)

    def _id(self, message: Message) -> str:
        return f"to-{message.metadata.dst_node_id}"

    def _answer(self, message: Message) -> object:
        return self.answers.get(message.metadata.dst_node_id)

    def _reply(self, message: Message) -> Message | None:
        answer = self._answer(message)
        if answer is None:
            return None
        message.metadata.__dict__["_message_id"] = self._id(message)
        if isinstance(answer, Error):
            return Message(answer, reply_to=message)
        content = answer if isinstance(answer, RecordDict) else pack(b"from " + unpack(message.content, sender=""))
        return Message(content, reply_to=message)


def asked(names: Iterable[str] = NODES) -> Exchange:
    return Exchange(stage=Stage.SUBMIT, round="0123456789abcdef", requests={name: name.encode() for name in names})


def post(grid: Grid, timeout: float = 0.1) -> FlowerExchange:
    return FlowerExchange(grid, NODES, timeout)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _quick(_as_an_app: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "_LOOK_EVERY", 0.01)


def test_replies_come_back_under_the_members_names() -> None:
    grid = Grid(dict.fromkeys(NODES.values(), "good"))
    carried = Post(post(grid, 30.0))
    assert carried(asked()) == {name: b"from " + name.encode() for name in NODES}
    assert grid.pulls == 1
    assert (carried.exchanges, carried.sent, carried.received) == (1, 15, 30)
    assert set(carried.seconds) == {"submit"}


def test_messages_name_the_vault_and_outlive_the_wait() -> None:
    grid = Grid(dict.fromkeys(NODES.values(), "good"))
    post(grid, 30.0)(asked())
    for message in grid.pushed[0]:
        assert message.metadata.message_type == MESSAGE_TYPE
        assert message.metadata.ttl > 300
        assert message.metadata.group_id == "01234567-submit"


@pytest.mark.parametrize(
    "bad",
    [
        None,
        UNSENT,
        Error(code=2, reason="<class 'OSError'>:<'connection refused'>"),
        RecordDict(),
        RecordDict({"failed": ConfigRecord()}),
    ],
    ids=["silence", "not sent", "an error", "nothing in it", "the shim's failure"],
)
def test_whoever_sends_no_good_reply_is_missing(bad: object) -> None:
    grid = Grid({11: "good", 22: bad, 33: "good"})
    assert sorted(post(grid)(asked())) == ["alder", "cedar"]


def test_an_error_under_a_foreign_source_spoils_no_other_reply() -> None:
    grid = Grid(dict.fromkeys(NODES.values(), "good"))
    real = grid._reply

    def odd(message: Message) -> Message | None:
        reply = real(message)
        if reply is not None and message.metadata.dst_node_id == 22:
            reply.metadata.__dict__["_reply_to_message_id"] = "to-nobody"
        return reply

    grid._reply = odd  # type: ignore[method-assign]
    assert sorted(post(grid)(asked())) == ["alder", "cedar"]


def test_a_member_without_a_node_is_missing_at_once() -> None:
    grid = Grid({11: "good"})
    assert sorted(post(grid, 30.0)(asked(["alder", "dogwood"]))) == ["alder"]


def test_many_requests_go_out_in_small_batches() -> None:
    nodes = {f"member-{number}": number for number in range(2, 32)}
    grid = Grid(dict.fromkeys(nodes.values(), "good"))
    carried = FlowerExchange(grid, nodes, 30.0)  # type: ignore[arg-type]
    assert len(carried(asked(nodes))) == 30
    assert max(map(len, grid.pushed)) <= 8


def test_online_waits_for_no_longer_than_told() -> None:
    grid = Grid({11: "good", 33: "good", 44: "a stranger"})
    assert online(grid, [11, 22], 0.05) == {11}  # type: ignore[arg-type]
    assert online(grid, [11, 33], 60.0) == {11, 33}  # type: ignore[arg-type]
