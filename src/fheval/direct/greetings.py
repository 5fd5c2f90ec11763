"""What the hub asks a member's vault when its relay has come, so that what is wrong is said at once."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from fheval.direct.frames import Notice
from fheval.direct.hub import Stream
from fheval.errors import RemoteProtocolError, TransportError
from fheval.party.messages import CHALLENGE_BYTES, Greeting, Hello, Reply, request
from fheval.protocols.base import Stage
from fheval.secrets import SystemRandomness
from fheval.wire import decode

_log = logging.getLogger("fheval.hub")


async def greeting_of(name: str, stream: Stream, seconds: float) -> Greeting | None:
    """What a vault says of itself, unproven; None where none answers in time."""
    challenge = SystemRandomness().draw(CHALLENGE_BYTES.start)
    try:
        answer = await asyncio.wait_for(stream.ask(request(Stage.HELLO, Hello(challenge=challenge))), seconds)
        if answer is None:
            return None
        return decode(decode(answer, Reply, sender=name).body, Greeting, sender=name)
    except (asyncio.TimeoutError, RemoteProtocolError):
        return None


async def greet(name: str, stream: Stream, policy: int, seconds: float) -> None:
    """Ask a member's vault who it is, and tell both operators what will not work."""
    found = await greeting_of(name, stream, seconds)
    if found is None:
        words = "The vault behind this connection does not answer. Start it, or look into its log."
    elif found.policy_version < policy:
        words = (
            f"This vault has policy version {found.policy_version}, and the hub has {policy}. "
            "Take the authority's newest bulletin: fheval consortium update KIT consortium.fhev"
        )
    elif found.policy_version > policy:
        words = f"This vault has policy version {found.policy_version}, and the hub has only {policy}."
    else:
        return
    _log.warning("%s: %s", name, words)
    with suppress(TransportError):
        await stream.send(Notice(words=words))
