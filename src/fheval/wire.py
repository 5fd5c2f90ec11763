"""Messages as bytes: a versioned, typed, size-limited encoding.

Every message between roles is a frozen `Message`; on the wire it is a MessagePack array of the magic word, the version,
and the array of its type's name and fields. A receiver says which type it expects and how large it may be, so that a
hostile peer chooses neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from fheval.errors import ConfigError, RemoteProtocolError

MAGIC = "FHEV"
VERSION = 1

# An array of three, of which the first two are always the same bytes.
HEADER = b"\x93" + msgspec.msgpack.encode(MAGIC) + msgspec.msgpack.encode(VERSION)

# Large fields are views into the message that they came in, so that reading a megabyte does not copy it. For a type
# checker they are the bytes that the sender put in.
if TYPE_CHECKING:
    Blob = bytes
else:
    Blob = memoryview

# The largest honest message is an upload of `paper-malicious`: eight ciphertexts of 1.3 MB.
DEFAULT_LIMIT = 64 << 20


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, tag=True):
    """Base of all messages; prints the sizes of its bytes and never their content."""

    def __repr__(self) -> str:
        shown = (f"{name}={_shown(getattr(self, name))}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(shown)})"


def _shown(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    if isinstance(value, (tuple, list, set, frozenset)):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_shown(key)}: {_shown(item)}' for key, item in value.items())}}}"
    return repr(value)


M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """Turn a message into bytes; equal messages give equal bytes."""
    return HEADER + msgspec.msgpack.encode(message)


# Making a decoder costs more than using it.
_DECODERS: dict[type[Message], msgspec.msgpack.Decoder[Any]] = {}


def decode(data: bytes, expected: type[M], *, sender: str, limit: int = DEFAULT_LIMIT) -> M:
    """Read a message of the expected type, or blame `sender` in a `RemoteProtocolError`."""
    if len(data) > limit:
        raise RemoteProtocolError(
            f"A message of {len(data)} bytes from {sender} exceeds the limit of {limit} bytes. The round was aborted.",
            step=expected.__name__,
            culprit=sender,
        )
    decoder = _DECODERS.get(expected)
    if decoder is None:
        framed: Any = tuple[Literal[MAGIC], Literal[VERSION], expected]  # type: ignore[valid-type]
        decoder = _DECODERS[expected] = msgspec.msgpack.Decoder(framed)
    try:
        message: M = decoder.decode(data)[2]
        return message
    # Text that is not UTF-8 comes as an error of Python's own, and fields that a type refuses as the type's.
    except (msgspec.DecodeError, UnicodeDecodeError, ConfigError) as error:
        if data[: len(HEADER)] != HEADER:
            raise RemoteProtocolError(
                f"Bytes from {sender} are not a message of protocol version {VERSION}. "
                "Check that all members run compatible versions of fheval.",
                step=expected.__name__,
                culprit=sender,
            ) from error
        raise RemoteProtocolError(
            f"A malformed {expected.__name__} arrived from {sender} ({error}). The round was aborted.",
            step=expected.__name__,
            culprit=sender,
        ) from error


def holds(data: bytes, kind: type[Message]) -> bool:
    """Whether bytes say that they are a message of this type; `decode` then finds out whether they are."""
    return data[len(HEADER) + 1 :].startswith(msgspec.msgpack.encode(kind.__name__))
