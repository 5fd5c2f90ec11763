"""Flower's grid with every SuperNode in this process: a message is handed to the ClientApp when it is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from flwr.app import Context, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp


class AppGrid:
    """`node_configs` has each node's configuration. `lost` says which messages never arrive."""

    def __init__(
        self,
        app: ClientApp,
        node_configs: Mapping[int, UserConfig],
        lost: Callable[[int, str], bool],
    ) -> None:
        self._app = app
        self._contexts = {
            node: Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})
            for node, config in node_configs.items()
        }
        self._lost = lost
        self._replies: dict[str, Message] = {}
        self.groups: list[str] = []
        self.bytes_seen: list[bytes] = []

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            node, group = message.metadata.dst_node_id, message.metadata.group_id
            id_ = f"{len(self.groups)}"
            self.groups.append(f"{node} {group}")
            ids.append(id_)
            message.metadata.__dict__["_message_id"] = id_
            if not self._lost(node, group):
                reply = self._app(message, self._contexts[node])
                self._note(message)
                self._note(reply)
                self._replies[id_] = reply
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(id_) for id_ in list(message_ids) if id_ in self._replies]

    def _note(self, message: Message) -> None:
        for record in message.content.array_records.values():
            self.bytes_seen += [bytes(array.data) for array in record.values()]
