"""Messages as bytes: a versioned, typed, size-limited encoding.

Every message between roles is a frozen `Message`; on the wire it is a MessagePack array of the magic word, the version,
and the array of its type's name and fields. A receiver says which type it expects and how large it may be, so that a
hostile peer chooses neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

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

# A message becomes one object for each item in it, however small: a byte may become sixty. The most items of an honest
# message are the proofs for 100,000 parties, six each.
MOST_ITEMS = 1 << 20


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
    # All at once: to put the header before a message that is there already would copy it.
    return msgspec.msgpack.encode((MAGIC, VERSION, message))


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
    _require_modest(data, expected, sender)
    try:
        message: M = _decoder(expected).decode(data)[2]
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


def _decoder(expected: type[Message]) -> msgspec.msgpack.Decoder[Any]:
    decoder = _DECODERS.get(expected)
    if decoder is None:
        framed: Any = tuple[Literal[MAGIC], Literal[VERSION], expected]  # type: ignore[valid-type]
        decoder = _DECODERS[expected] = msgspec.msgpack.Decoder(framed)
    return decoder


class Stencil:
    """Reads messages that are alike, many at once: all is the same in them but a name and numbers behind it.

    It is made from two such messages whose name is empty, and whose other bytes differ wherever they may.
    """

    def __init__(self, one: Message, other: Message) -> None:
        low, high = (np.frombuffer(encode(each), dtype=np.uint8) for each in (one, other))
        varying = np.flatnonzero(low != high)
        stops = [*np.flatnonzero(np.diff(varying) > 1), len(varying) - 1]
        starts = [0, *(stop + 1 for stop in stops[:-1])]
        # Before the first field that varies there are two bytes of its length, and before them the empty name.
        name = int(varying[0]) - 3
        self._head = low[:name].tobytes()
        self._tail = low[name + 1 :]
        # Where in what is read the fields that vary are, ...
        self.fields = [
            slice(int(varying[start]) - name - 1, int(varying[stop]) - name)
            for start, stop in zip(starts, stops, strict=True)
        ]
        # ... and what is around them.
        ends = [0, *(each.stop for each in self.fields)]
        self._fixed = [slice(*each) for each in zip(ends, [*(each.start for each in self.fields), None], strict=True)]

    def read(self, names: Sequence[str], messages: Sequence[bytes]) -> npt.NDArray[np.uint8] | None:
        """What is behind the names, a row for each message; None where one is not exactly alike."""
        size, text = len(self._tail), "".join(names)
        if len({*map(len, messages)}) == len({*map(len, names)}) == 1 and text.isascii():
            # Of one length, messages are not cut, and names compared all at once: each takes longer than adding it.
            head = self._head + msgspec.msgpack.encode(names[0])
            if len(messages[0]) != len(head) + size:
                return None
            rows = self._joined(messages, len(head))
            name = slice(len(head) - len(names[0]), len(head))
            if not _all_alike(rows[:, : name.start], head[: name.start]) or rows[:, name].tobytes() != text.encode():
                return None
            rows = rows[:, len(head) :]
        else:
            if [data[:-size] for data in messages] != [self._head + msgspec.msgpack.encode(name) for name in names]:
                return None
            rows = self._joined([data[-size:] for data in messages], 0)
        return rows if all(_all_alike(rows[:, each], self._tail[each].tobytes()) for each in self._fixed) else None

    def _joined(self, parts: Sequence[bytes], skipped: int) -> npt.NDArray[np.uint8]:
        """A row for each part, so far apart that in all of them the last field begins where a word of memory does."""
        length = len(parts[0])
        gap = bytes(-length % 8)
        before = bytes(-(len(gap) + skipped + self.fields[-1].start) % 8)
        joined = gap.join([before, *parts, b""])
        return np.frombuffer(joined, dtype=np.uint8, offset=len(before + gap)).reshape(len(parts), -1)[:, :length]


def _all_alike(rows: npt.NDArray[np.uint8], wanted: bytes) -> bool:
    """Whether all rows are these bytes; for so few, NumPy's own comparison takes longer."""
    return rows.tobytes() == wanted * len(rows)


def holds(data: bytes, kind: type[Message]) -> bool:
    """Whether bytes say that they are a message of this type; `decode` then finds out whether they are."""
    return data[len(HEADER) + 1 :].startswith(msgspec.msgpack.encode(kind.__name__))


def _require_modest(data: bytes, expected: type[Message], sender: str) -> None:
    """Refuse a message that would become too many objects, before any of them is made."""
    if len(data) <= MOST_ITEMS:
        return
    place = items = 0
    while place < len(data):
        fixed, length_bytes = _ITEMS[data[place]]
        if length_bytes:
            place += int.from_bytes(data[place + 1 : place + 1 + length_bytes], "big")
        place += fixed
        items += 1
        if items > MOST_ITEMS:
            raise RemoteProtocolError(
                f"A {expected.__name__} of more than {MOST_ITEMS} items came from {sender}. The round was aborted.",
                step=expected.__name__,
                culprit=sender,
            )


# By its first byte, an item of MessagePack has so many bytes, ...
_BYTES = {
    **dict.fromkeys(range(256), 1),
    **{first: 1 + (first & 0x1F) for first in range(0xA0, 0xC0)},
    **dict(zip(range(0xC4, 0xCA), (2, 3, 5, 3, 4, 6), strict=True)),
    **dict(zip(range(0xCA, 0xD4), (5, 9, 2, 3, 5, 9, 2, 3, 5, 9), strict=True)),
    **dict(zip(range(0xD4, 0xD9), (3, 4, 6, 10, 18), strict=True)),
    **dict(zip(range(0xD9, 0xDC), (2, 3, 5), strict=True)),
    **dict(zip(range(0xDC, 0xE0), (3, 5, 3, 5), strict=True)),
}
# ... and so many behind the first say how many follow. What is in an array or a map are items of their own.
_LENGTHS = dict(zip((0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xD9, 0xDA, 0xDB), (1, 2, 4) * 3, strict=True))
_ITEMS = [(_BYTES[first], _LENGTHS.get(first, 0)) for first in range(256)]
