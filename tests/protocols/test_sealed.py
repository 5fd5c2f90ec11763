"""The sealed box: it opens for its own secret, usage and labels, as it was closed, and for nothing else."""

from __future__ import annotations

import pytest

from fheval.errors import CapacityError
from fheval.secrets import SealBroken, Secret, Stream, SystemRandomness, seal, unseal

RNG = SystemRandomness()
SECRET = Secret(bytes(range(32)))
PLAIN = b"what the aggregator must not read"
LABELS = ("a round", b"digest", 3)
# A nonce, a length and an authentication tag.
OVERHEAD = 12 + 4 + 16


def closed(plain: bytes = PLAIN, room: int = 0) -> bytes:
    return seal(SECRET, "usage", *LABELS, plain=plain, rng=RNG, room=room)


@pytest.mark.parametrize("plain", [b"", b"\0", PLAIN, PLAIN + bytes(9), bytes(200)], ids=len)
@pytest.mark.parametrize("room", [0, 200])
def test_it_gives_back_what_was_put_in(plain: bytes, room: int) -> None:
    assert unseal(SECRET, "usage", *LABELS, box=closed(plain, room)) == plain


@pytest.mark.parametrize(
    ("usage", "labels"),
    [
        ("another", LABELS),
        ("", LABELS),
        ("usage", ()),
        ("usage", LABELS[:2]),
        ("usage", (*LABELS, "more")),
        ("usage", ("a round", b"digest", 4)),
        ("usage", ("a round", b"digesu", 3)),
        ("usage", ("a roun", b"ddigest", 3)),
        ("usage", (b"digest", "a round", 3)),
        ("usage", ("a round", "digest", 3)),
        ("usage", ("a round", b"digest", "3")),
    ],
    ids=str,
)
def test_another_usage_or_another_label_does_not_open_it(usage: str, labels: tuple[str | bytes | int, ...]) -> None:
    with pytest.raises(SealBroken):
        unseal(SECRET, usage, *labels, box=closed())


@pytest.mark.parametrize("secret", [bytes(32), bytes(range(31, -1, -1)), bytes(range(1, 33))], ids=["0", "1", "2"])
def test_another_secret_does_not_open_it(secret: bytes) -> None:
    with pytest.raises(SealBroken):
        unseal(Secret(secret), "usage", *LABELS, box=closed())


def test_a_box_that_was_cut_is_refused_wherever_it_was_cut() -> None:
    box = closed(room=40)
    for length in range(len(box)):
        with pytest.raises(SealBroken):
            unseal(SECRET, "usage", *LABELS, box=box[:length])
        with pytest.raises(SealBroken):
            unseal(SECRET, "usage", *LABELS, box=box[len(box) - length :])


def test_a_box_that_was_altered_is_refused_wherever_it_was_altered() -> None:
    box = closed(room=40)
    for place in range(len(box)):
        for change in (1, 0x80):
            altered = box[:place] + bytes([box[place] ^ change]) + box[place + 1 :]
            with pytest.raises(SealBroken):
                unseal(SECRET, "usage", *LABELS, box=altered)
    for longer in (box + b"\0", b"\0" + box, box + box):
        with pytest.raises(SealBroken):
            unseal(SECRET, "usage", *LABELS, box=longer)


def test_a_broken_seal_says_nothing_about_why() -> None:
    """What cannot be told apart cannot be asked about."""
    box = closed()
    said = set()
    for secret, usage, bad in (
        (SECRET, "another", box),
        (SECRET, "usage", box[:-1]),
        (Secret(bytes(32)), "usage", box),
        (SECRET, "usage", b""),
    ):
        with pytest.raises(SealBroken) as caught:
            unseal(secret, usage, *LABELS, box=bad)
        said.add((str(caught.value), caught.value.__cause__, caught.value.__suppress_context__))
    assert said == {("", None, True)}


@pytest.mark.parametrize("plain", [b"", b"1", PLAIN, bytes(100)], ids=len)
def test_with_room_every_box_has_one_length(plain: bytes) -> None:
    assert len(closed(plain, room=100)) == 100 + OVERHEAD


def test_without_room_the_length_is_that_of_the_content() -> None:
    assert [len(closed(bytes(size))) - OVERHEAD for size in (0, 1, 57)] == [0, 1, 57]


def test_more_than_the_room_is_refused() -> None:
    assert len(closed(bytes(100), room=100)) == 100 + OVERHEAD
    with pytest.raises(CapacityError, match="101 bytes do not fit a box of 100"):
        closed(bytes(101), room=100)


def test_no_two_boxes_are_alike_and_none_shows_its_content() -> None:
    boxes = [closed(room=64) for _ in range(100)]
    assert len({box[:12] for box in boxes}) == 100
    assert len({box[12:] for box in boxes}) == 100
    assert not any(PLAIN[:6] in box or bytes(8) in box for box in boxes)


def test_the_nonce_is_drawn_from_the_randomness_that_is_given() -> None:
    first, second = (
        seal(SECRET, "usage", *LABELS, plain=PLAIN, rng=Stream(Secret(bytes([number] * 32)))) for number in (1, 2)
    )
    again = seal(SECRET, "usage", *LABELS, plain=PLAIN, rng=Stream(Secret(bytes([1] * 32))))
    assert first == again
    assert first[:12] != second[:12]
