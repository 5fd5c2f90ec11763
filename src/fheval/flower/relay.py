"""A ClientApp that hands bytes to a vault and its answer back, and tells nothing else to the aggregator."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fheval.flower.records import ACTION, pack, unpack

_LOG = logging.getLogger("fheval.relay")

# Takes a request to a party's vault and gives its reply.
Door = Callable[[Context, bytes], bytes]
Handler = Callable[[Message, Context], Message]


class _FailureKeptHere:
    """Logs what goes wrong and raises nothing: Flower would send an exception's text to the aggregator."""

    failed = False

    def __enter__(self) -> _FailureKeptHere:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        _LOG.error("The vault gave no answer: %s", error)
        self.failed = True
        return True


def redact(message: Message, context: Context, relay: Handler) -> Message:
    """Mod: answer a failure with an empty record, the same whatever the reason."""
    with _FailureKeptHere() as kept:
        reply = relay(message, context)
    return Message(RecordDict({"failed": ConfigRecord()}), reply_to=message) if kept.failed else reply


def make_app(door: Door) -> ClientApp:
    """A ClientApp that relays through `door`. A message may come twice: a vault answers each stage once."""
    app = ClientApp()

    @app.query(ACTION, mods=[redact])
    def relay(message: Message, context: Context) -> Message:
        return Message(pack(door(context, unpack(message.content, sender="aggregator"))), reply_to=message)

    return app
