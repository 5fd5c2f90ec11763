"""Finding vectors of residues in a writing, with words around them that only look like one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fheval.engines.openfhe.residues import Frame, Shape, Span, bare, find_spans, repeated_primes
from fheval.errors import EngineError
from fheval.field import ntt_primes

RING = 16
PRIMES = ntt_primes(bits=60, order=2 * RING, count=2)
TAG = "a68106645e52a13908375e4f461c9d17"
GENERATOR = np.random.default_rng(29)


def word(value: int) -> bytes:
    return value.to_bytes(8, "little")


def vector(prime: int) -> bytes:
    """A length, residues, the prime: as OpenFHE writes a polynomial modulo one prime."""
    residues = GENERATOR.integers(0, prime, RING, dtype=np.uint64)
    return word(RING) + residues.tobytes() + word(prime)


def writing(head: bytes = b"head", polynomials: int = 2, tag: str = TAG) -> bytes:
    return head + tag.encode() + b"".join(b"poly" + b"".join(map(vector, PRIMES)) for _ in range(polynomials)) + b"end"


def decoy() -> bytes:
    """The ring dimension somewhere in the head, and by chance a word that suits the ring where a prime would be."""
    head = b"ring" + word(RING)
    data = writing(head)
    place = len(b"ring") + 8 + 8 * RING
    lookalike = (1 << 50) + 2 * RING * 12345 + 1
    return data[:place] + word(lookalike) + data[place + 8 :]


def test_all_vectors_are_found() -> None:
    data = writing()
    assert repeated_primes(data, RING) == frozenset(PRIMES)
    spans = find_spans(data, RING, frozenset(PRIMES))
    assert [span.prime for span in spans] == [*PRIMES, *PRIMES]
    for span in spans:
        assert data[span.start - 8 : span.start] == word(RING)
        assert data[span.start + 8 * RING : span.start + 8 * RING + 8] == word(span.prime)


def test_a_word_that_looks_like_a_prime_is_none() -> None:
    """One writing in some thousands has such a word, because residues are random; it must not be cut there."""
    data = decoy()
    assert repeated_primes(data, RING) == frozenset(PRIMES)
    spans = find_spans(data, RING, repeated_primes(data, RING))
    assert [span.prime for span in spans] == [*PRIMES, *PRIMES]
    assert spans[0].start > data.index(TAG.encode())


def test_the_decoy_deceives_who_does_not_know_the_primes() -> None:
    """The test above can fail: whoever takes every word that suits the ring is led astray."""
    data = decoy()
    candidates = frozenset(int.from_bytes(data[i : i + 8], "little") for i in range(len(data) - 8))
    assert find_spans(data, RING, candidates)[0].start <= data.index(TAG.encode())


def test_a_frame_takes_residues_below_their_primes_only() -> None:
    data, other = writing(), writing()
    spans = find_spans(data, RING, frozenset(PRIMES))
    frame = Frame(data, spans, RING)
    payload = bare(other, spans, RING)
    assert Path(frame.filled(frame.checked(memoryview(payload)))).read_bytes() == other
    assert frame.content == other
    for place, prime in ((0, PRIMES[0]), (1, PRIMES[1]), (3, 2**64 - 1)):
        start = place * 8 * RING
        forged = payload[:start] + word(prime) + payload[start + 8 :]
        with pytest.raises(EngineError, match="impossible residues"):
            frame.checked(memoryview(forged))
    for length in (0, len(payload) - 8, len(payload) - 1):
        with pytest.raises(EngineError, match="wrong size"):
            frame.checked(memoryview(payload[:length]))


def test_as_many_residues_as_a_frame_has_room_for_add_up_below_two_to_the_64() -> None:
    data = writing()
    room = Frame(data, find_spans(data, RING, frozenset(PRIMES)), RING).room
    assert room * (max(PRIMES) - 1) < 2**64 <= (room + 1) * (max(PRIMES) - 1)


def shape() -> Shape:
    return Shape.of(writing(), RING, frozenset(PRIMES), TAG)


def test_a_key_of_the_same_shape_passes() -> None:
    shape().check(writing())
    shape().check(writing(tag="0123456789abcdef0123456789abcdef"))


def test_every_byte_around_the_residues_counts() -> None:
    expected, data = shape(), writing()
    inside = {place for span in expected.spans for place in range(span.start, span.start + 8 * RING)}
    tag = range(data.index(TAG.encode()), data.index(TAG.encode()) + len(TAG))
    for place in range(len(data)):
        if place in inside or place in tag:
            continue
        with pytest.raises(EngineError, match="not of the form"):
            expected.check(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


@pytest.mark.parametrize("tag", [b"\x00" * 32, b" " * 32, b"\xff" * 32, "é".encode() * 16])
def test_a_tag_that_is_no_name_is_refused(tag: bytes) -> None:
    with pytest.raises(EngineError, match="not of the form"):
        shape().check(writing().replace(TAG.encode(), tag))


def test_another_length_is_refused() -> None:
    data = writing()
    for changed in (data[:-1], data + b"\0", b"", data[8:], data * 2):
        with pytest.raises(EngineError, match="not of the form"):
            shape().check(changed)


def test_a_key_with_impossible_residues_is_refused() -> None:
    expected, data = shape(), writing()
    start = expected.spans[1].start
    with pytest.raises(EngineError, match="impossible residues"):
        expected.check(data[:start] + word(PRIMES[1]) + data[start + 8 :])


def test_shapes_do_not_print_what_they_are_made_of() -> None:
    assert repr(shape()) == "Shape(ring=16)"
    assert repr(Span(3, 7)) == "Span(start=3, prime=7)"
