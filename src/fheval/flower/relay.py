"""A ClientApp that hands bytes to a vault and its answer back, and tells nothing else to the aggregator."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fheval.flower.records import ACTION, pack, unpack

_LOG = logging.getLogger("fheval.relay")

# Takes a request to a party's vault and gives its reply.
Door = Callable[[Context, bytes], bytes]
Handler = Callable[[Message, Context], Message]


def redact(message: Message, context: Context, relay: Handler) -> Message:
    """Mod: log a failure, and answer it with an empty record, the same whatever the reason."""
    try:
        return relay(message, context)
    # Flower would send the text of whatever is raised to the aggregator.
    except Exception as error:
        _LOG.error("The vault gave no answer: %s", error)
        return Message(RecordDict({"failed": ConfigRecord()}), reply_to=message)


def add_relay(app: ClientApp, door: Door) -> ClientApp:
    """Let an app relay through `door` as well. A message may come twice: a vault answers each stage once."""

    @app.query(ACTION, mods=[redact])
    def relay(message: Message, context: Context) -> Message:
        return Message(pack(door(context, unpack(message.content, sender="aggregator"))), reply_to=message)

    return app


def make_app(door: Door) -> ClientApp:
    """A ClientApp that relays and does nothing else."""
    return add_relay(ClientApp(), door)
