"""The leader's share of the sum: the sum under the aggregator's cover, which tells it nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fheval import Counts, field
from fheval.field import Residues
from fheval.protocols.padded import SlotLayout
from fheval.secrets import Randomness
from protocols.rounds import PADDED, Cast, a_round, contributions_of, curve, layout_of
from protocols.statistics import evenly_filled

POINTS = 33
LARGE = [curve(400_000, 300_000, POINTS, bend=0.1)] * 3
SMALL = [curve(2, 30, POINTS, bend=3.0)] * 3


def shares(cast: Cast, counts: Sequence[Counts]) -> list[Residues]:
    """What the leader is left with when it has taken off the parties' pads, for each prime."""
    notice = cast.served(contributions_of(cast.round, counts)).close()
    return layout_of(cast.round).uncover(cast.round, cast.secrets, notice)


def sums(cast: Cast, counts: Sequence[Counts]) -> list[int]:
    """What all parties' tables add up to."""
    tables = [own.table.reshape(-1) for own in contributions_of(cast.round, counts).values()]
    return [int(each) for each in np.sum(tables, axis=0)]


def same_cover(monkeypatch: pytest.MonkeyPatch, byte: bytes) -> None:
    """Every aggregator covers its sum with these bytes."""

    def draw_cover(layout: SlotLayout, _: Randomness) -> bytes:
        return byte * layout.upload_sum().size

    monkeypatch.setattr(SlotLayout, "draw_cover", draw_cover)


@pytest.mark.parametrize("counts", [LARGE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("protocol", PADDED)
def test_the_leaders_share_is_uniform_whatever_the_counts(protocol: str, counts: list[Counts]) -> None:
    cast = Cast(a_round(protocol, 3, decision_points=POINTS))
    found = [shares(cast.next(), counts) for _ in range(4)]
    for prime, *numbers in zip(layout_of(cast.round).primes, *found, strict=True):
        assert evenly_filled(np.concatenate(numbers), 16, prime)
        assert not {*numbers[0].tolist()} & {*numbers[1].tolist()}


def test_without_a_cover_it_would_be_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    same_cover(monkeypatch, b"\0")
    cast = Cast(a_round("padded", 3, decision_points=POINTS))
    for found in shares(cast, SMALL):
        assert found.tolist() == sums(cast, SMALL)


def test_one_cover_for_two_rounds_would_show_how_the_sums_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as by the counts of the one party that came to the first round alone."""
    same_cover(monkeypatch, b"\x5a")
    cast = Cast(a_round("padded", 4, decision_points=POINTS))
    all_four = shares(cast, [*SMALL, curve(5, 7, POINTS)])
    three = Cast(a_round("padded", 3, decision_points=POINTS))
    expected = sums(cast, [Counts.zero(POINTS)] * 3 + [curve(5, 7, POINTS)])
    for prime, more, fewer in zip(layout_of(cast.round).primes, all_four, shares(three, SMALL), strict=True):
        assert field.subtract(more, fewer, prime).tolist() == expected


def test_covers_that_are_drawn_anew_do_not_show_it() -> None:
    cast = Cast(a_round("padded", 3, decision_points=POINTS))
    first, second = (shares(cast.next(), SMALL) for _ in range(2))
    for prime, one, other in zip(layout_of(cast.round).primes, first, second, strict=True):
        assert np.all(field.subtract(one, other, prime) > np.uint64(1 << 30))


@pytest.mark.parametrize("protocol", PADDED)
def test_an_aggregator_covers_its_sum_once(protocol: str) -> None:
    """Asked to close the roster again, it gives the same bytes: the leader sees one sum under one cover."""
    cast = Cast(a_round(protocol, 3, decision_points=POINTS))
    aggregator = cast.served(contributions_of(cast.round, SMALL))
    assert aggregator.close() == aggregator.close()
    assert aggregator.cover not in bytes(aggregator.close().covered)
