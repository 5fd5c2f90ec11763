"""What passes on a member's stream: its arrival, then requests and answers by number, and sentences for its operator.

Nothing here is believed: who is at the other end, TLS says; who has answered, the signature inside of a reply.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from fheval.errors import RemoteProtocolError
from fheval.wire import DEFAULT_LIMIT, Blob, Message, decode

METHOD = "Connect"
SERVICE = "fheval.Direct"

# A request or a reply has its own limit; the rest is the frame around it.
FRAME_LIMIT = DEFAULT_LIMIT + (1 << 16)

# A stream carries its own options on both sides. A peer that is gone without a word is noticed within half a minute.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", FRAME_LIMIT),
    ("grpc.max_send_message_length", FRAME_LIMIT),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)

F = TypeVar("F", bound=Message)


class Arrival(Message, frozen=True, kw_only=True):
    """Relay to hub, first: which fheval this is, and what its clock says, in seconds since 1970."""

    fheval: str
    clock: float


class Request(Message, frozen=True, kw_only=True):
    """Hub to relay: bytes for the vault. An answer of the same number is expected."""

    number: int
    body: Blob


class Answer(Message, frozen=True, kw_only=True):
    """Relay to hub: what the vault answered; None where it gave no answer."""

    number: int
    body: Blob | None


class Notice(Message, frozen=True, kw_only=True):
    """Hub to relay: a sentence for the member's operator, and what to do then.

    The stream ends after all but "stay"; a relay that is told to "leave" does not come again by itself.
    """

    words: str
    then: Literal["stay", "come again", "leave"] = "stay"


class ToRelay(Message, frozen=True, kw_only=True):
    """One frame from the hub: a request or a notice."""

    content: Request | Notice


class ToHub(Message, frozen=True, kw_only=True):
    """One frame from a relay: its arrival or an answer."""

    content: Arrival | Answer


def read_frame(data: object, expected: type[F], sender: str) -> F:
    """Read a frame, or blame whoever sent it."""
    if not isinstance(data, bytes):
        raise RemoteProtocolError(f"{sender} ended its stream.", step="stream", culprit=sender)
    return decode(data, expected, sender=sender, limit=FRAME_LIMIT)
