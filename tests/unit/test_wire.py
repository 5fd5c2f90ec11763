"""Messages as bytes: what is sent arrives, and anything else is blamed on its sender in one error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fheval import wire
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.wire import _ITEMS, HEADER, MOST_ITEMS, VERSION, Blob, Message, Stencil, decode, encode


class Share(Message, frozen=True):
    round: bytes
    sender: str
    ciphertexts: tuple[bytes, ...] = ()


class Report(Message, frozen=True):
    round: bytes
    count: int


class Later(Message, frozen=True):
    """`Report` as a later version might have it."""

    round: bytes
    count: int
    more: str = ""


class Grade(Message, frozen=True):
    """A message whose type refuses some of its values."""

    mark: int

    def __post_init__(self) -> None:
        if not 1 <= self.mark <= 6:
            raise ConfigError("There is no such mark. Give one from 1 to 6.")


class Graded(Message, frozen=True):
    grade: Grade


class Envelope(Message, frozen=True):
    inner: Share
    index: dict[str, bytes]


SHARE = Share(round=b"r" * 16, sender="north", ciphertexts=(b"one", b"two"))

shares = st.builds(
    Share, round=st.binary(max_size=20), sender=st.text(max_size=9), ciphertexts=st.lists(st.binary()).map(tuple)
)


def refused(data: bytes, expected: type[Message] = Share, **options: Any) -> RemoteProtocolError:
    """The error for these bytes, which must blame their sender and name the step."""
    with pytest.raises(RemoteProtocolError) as caught:
        decode(data, expected, sender="north", **options)
    assert caught.value.culprit == "north"
    assert caught.value.step == expected.__name__
    assert "north" in str(caught.value)
    return caught.value


@given(shares)
def test_round_trip(message: Share) -> None:
    data = encode(message)
    assert decode(data, Share, sender="north") == message
    assert encode(decode(data, Share, sender="north")) == data


@given(shares, shares)
def test_equal_messages_give_equal_bytes_and_others_do_not(first: Share, second: Share) -> None:
    assert (encode(first) == encode(second)) == (first == second)


def test_nested_messages() -> None:
    message = Envelope(inner=SHARE, index={"a": b"1"})
    assert decode(encode(message), Envelope, sender="north") == message


class Sleeve(Message, frozen=True):
    content: Blob


def test_a_message_inside_another_is_read_where_it_lies() -> None:
    sleeve = decode(encode(Sleeve(content=encode(SHARE))), Sleeve, sender="north")
    assert decode(sleeve.content, Share, sender="north") == SHARE
    refused(decode(encode(Sleeve(content=b"fhev")), Sleeve, sender="north").content)


def test_the_encoding_is_pinned() -> None:
    """Other versions of the package must read it: a change here needs a new version number."""
    assert encode(Report(round=b"\x01\x02", count=300)).hex() == "93a44648455601" + "93a65265706f7274c4020102cd012c"


def test_messages_do_not_change() -> None:
    with pytest.raises(AttributeError):
        setattr(SHARE, "sender", "south")  # noqa: B010 (a type checker would refuse the assignment)


# What a receiver refuses


def test_a_message_of_another_type() -> None:
    refused(encode(Report(round=b"r", count=1)))
    refused(encode(SHARE), Report)
    refused(encode(Report(round=b"r", count=1)), Later)


@pytest.mark.parametrize("version", [0, VERSION + 1, 255])
def test_another_version(version: int) -> None:
    data = bytearray(encode(SHARE))
    data[len(HEADER) - 1] = version
    assert "version 1" in str(refused(bytes(data)))


@pytest.mark.parametrize(
    "head", [b"", b"F", b"\x93\xa4FHEC\x01", b"\x93\xa4fhev\x01", b"\x92\xa4FHEV\x01", HEADER[:-1], b"\x00" * 7]
)
def test_another_head(head: bytes) -> None:
    refused(head + encode(SHARE)[len(HEADER) :] if len(head) == len(HEADER) else head)


def test_every_truncation() -> None:
    data = encode(SHARE)
    for length in range(len(data)):
        refused(data[:length])


@pytest.mark.parametrize("more", [b"\x00", b"\xc0", encode(SHARE)])
def test_trailing_bytes(more: bytes) -> None:
    refused(encode(SHARE) + more)


def test_a_limit_is_the_largest_size_that_passes() -> None:
    data = encode(SHARE)
    assert decode(data, Share, sender="north", limit=len(data)) == SHARE
    assert f"limit of {len(data) - 1} bytes" in str(refused(data, limit=len(data) - 1))


def test_the_limit_comes_before_anything_is_read() -> None:
    assert "exceeds the limit" in str(refused(bytes(100), limit=99))


def test_the_default_limit() -> None:
    refused(HEADER + bytes(wire.DEFAULT_LIMIT - len(HEADER) + 1))


def packed(*fields: object) -> bytes:
    return HEADER + msgspec.msgpack.encode(list(fields))


@pytest.mark.parametrize(
    "fields",
    [
        (),
        ("Report",),
        ("Report", b"r"),
        ("Report", b"r", 1, "a field that nobody knows"),
        ("Report", b"r", "1"),
        ("Report", "r", 1),
        ("Report", b"r", 1.5),
        ("Report", b"r", None),
        ("Report", b"r", True),
        ("Report", b"r", 2**64 - 1, 0),
        (b"Report", b"r", 1),
        ("report", b"r", 1),
        ("Message", b"r", 1),
        (1, b"r", 1),
    ],
)
def test_wrong_fields(fields: tuple[object, ...]) -> None:
    assert decode(packed("Report", b"r", 1), Report, sender="north") == Report(round=b"r", count=1)
    refused(packed(*fields), Report)


def test_fields_by_name_are_not_the_encoding() -> None:
    refused(HEADER + msgspec.msgpack.encode({"type": "Report", "round": b"r", "count": 1}), Report)


def test_unknown_fields_of_a_later_version() -> None:
    refused(encode(Later(round=b"r", count=1, more="x")), Report)
    refused(packed("Report", b"r", 1, "x"), Report)


@pytest.mark.parametrize("depth", [1000, 100_000])
def test_deep_nesting_does_not_overflow(depth: int) -> None:
    refused(HEADER + b"\x91" * depth + b"\xc0")
    refused(HEADER + b"\x94\xa5Share\xc4\x01r\xa1n" + b"\x91" * depth + b"\xc0")


def test_lengths_that_lie_do_not_take_memory() -> None:
    for length in (b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"):
        refused(HEADER + length)
        refused(HEADER + b"\x94\xa5Share\xc4\x01r\xa1n" + length)


@given(st.binary(max_size=60))
def test_noise(noise: bytes) -> None:
    refused(noise)
    refused(HEADER + noise)


@given(st.data())
def test_flipped_bits_give_another_message_or_an_error(data: st.DataObject) -> None:
    honest = bytearray(encode(SHARE))
    honest[data.draw(st.integers(0, len(honest) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = decode(bytes(honest), Share, sender="north")
    except RemoteProtocolError:
        return
    assert found != SHARE


def test_text_that_is_not_utf_8() -> None:
    refused(HEADER + b"\x94\xa5Share\xc4\x01r\xa2\xff\xfe\x90")
    refused(HEADER + b"\x94\xa5\xd3hare\xc4\x01r\xa1n\x90")


def test_fields_that_the_type_itself_refuses() -> None:
    assert decode(packed("Grade", 6), Grade, sender="north") == Grade(mark=6)
    assert "no such mark" in str(refused(packed("Grade", 7), Grade))
    assert "no such mark" in str(refused(packed("Graded", ["Grade", 7]), Graded))


# Items


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_items_are_counted_as_they_are_packed(content: Any) -> None:
    def items(value: Any) -> int:
        if isinstance(value, list):
            return 1 + sum(map(items, value))
        return 1 + sum(1 + items(each) for each in value.values()) if isinstance(value, dict) else 1

    data = msgspec.msgpack.encode(content)
    place = found = 0
    while place < len(data):
        fixed, length = _ITEMS[data[place]]
        place += fixed + int.from_bytes(data[place + 1 : place + 1 + length], "big") * bool(length)
        found += 1
    assert (place, found) == (len(data), items(content))


def test_a_message_of_too_many_items_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of 57 MiB would otherwise become 1.5 GB."""
    many = packed("Share", b"r", "north", [b""] * (MOST_ITEMS + 1))
    assert "items" in str(refused(many))
    few = Share(round=b"r", sender="north", ciphertexts=(bytes(MOST_ITEMS), bytes(70_000), bytes(300)))
    assert decode(encode(few), Share, sender="north") == few
    monkeypatch.setattr(wire, "_require_modest", lambda *_: None)
    assert len(decode(many, Share, sender="north").ciphertexts) == MOST_ITEMS + 1


# Printing


def test_repr_shows_sizes_and_no_content() -> None:
    shown = repr(SHARE)
    assert shown == "Share(round=<16 bytes>, sender='north', ciphertexts=(<3 bytes>, <3 bytes>))"
    assert str(SHARE) == shown


def test_repr_shows_sizes_however_deep() -> None:
    message = Envelope(inner=SHARE, index={"key": b"hunter2", "more": b""})
    shown = repr(message)
    assert "hunter2" not in shown
    assert "one" not in shown
    assert "rrr" not in shown
    assert "index={'key': <7 bytes>, 'more': <0 bytes>}" in shown


def test_errors_do_not_repeat_the_bytes() -> None:
    data = packed("Share", b"hunter2", b"hunter2", [])
    assert "hunter2" not in str(refused(data))


# Many that are alike


class Upload(Message, frozen=True, kw_only=True):
    round: str
    sender: str
    nonce: bytes
    values: Blob
    declared: bytes = b""


SIZE = 300
STENCIL = Stencil(
    *(Upload(round="r" * 32, sender="", nonce=each * 16, values=each * SIZE) for each in (b"\x00", b"\xff"))
)


def upload(sender: str, nonce: bytes = b"n" * 16, values: bytes = b"v" * SIZE, **others: Any) -> bytes:
    return encode(Upload(**({"round": "r" * 32, "sender": sender, "nonce": nonce, "values": values} | others)))


@given(
    st.lists(st.tuples(st.text(max_size=300), st.binary(min_size=16, max_size=16)), min_size=1, max_size=5),
    st.booleans(),
)
def test_a_stencil_reads_what_decoding_reads(senders: list[tuple[str, bytes]], same: bool) -> None:
    """Names of any length, and of one length, which are read another way."""
    named = [("x" * 7 if same else name, nonce) for name, nonce in senders]
    messages = [upload(name, nonce, nonce * 18 + b"behind what.") for name, nonce in named]
    read = STENCIL.read([name for name, _ in named], messages)
    assert read is not None
    nonces, values = (read[:, field] for field in STENCIL.fields)
    decoded = [decode(data, Upload, sender="a party") for data in messages]
    assert [row.tobytes() for row in nonces] == [each.nonce for each in decoded]
    assert [row.tobytes() for row in values] == [bytes(each.values) for each in decoded]


NOT_ALIKE = {
    "another round": upload("west", round="s" * 32),
    "another sender": upload("east"),
    "a sender of another length": upload("wests"),
    "a short nonce": upload("west", nonce=b"n" * 15),
    "a nonce and values of other lengths": upload("west", nonce=b"n" * 17, values=b"v" * (SIZE - 1)),
    "something declared": upload("west", declared=b"d"),
    "a byte more": upload("west") + b"\x00",
    "a byte less": upload("west")[:-1],
    "nothing": b"",
    "a name in a longer form": upload("west").replace(b"\xa4west", b"\xd9\x04west"),
}


@pytest.mark.parametrize("message", NOT_ALIKE.values(), ids=list(NOT_ALIKE))
@pytest.mark.parametrize("place", range(3))
def test_a_stencil_reads_nothing_where_one_is_not_alike(message: bytes, place: int) -> None:
    messages = [upload("west")] * 3
    assert STENCIL.read(["west"] * 3, messages) is not None
    messages[place] = message
    assert STENCIL.read(["west"] * 3, messages) is None
    assert STENCIL.read(["west"], [message]) is None


@given(st.integers(0, len(upload("west")) - 1), st.integers(1, 255))
def test_a_changed_byte_is_one_of_nonce_or_values_or_refused(place: int, change: int) -> None:
    """What the stencil takes, decoding takes as well, and finds the same."""
    changed = bytearray(upload("west"))
    changed[place] ^= change
    read = STENCIL.read(["west"], [bytes(changed)])
    if read is not None:
        decoded = decode(bytes(changed), Upload, sender="a party")
        assert (decoded.round, decoded.sender, decoded.declared) == ("r" * 32, "west", b"")
        assert [read[0, field].tobytes() for field in STENCIL.fields] == [decoded.nonce, bytes(decoded.values)]
