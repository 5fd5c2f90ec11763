"""Which groups are published, over parties of any kind and over several rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fheval.protocols import groups
from fheval.protocols.groups import Declared, choose, declaration

NAMES = ("a", "b", "c", "d")
MINIMUM, LEAST = 20, 3

# A party holds none, one, few, enough or many people of each group, "e" being one that the study does not name.
parties = st.lists(
    st.fixed_dictionaries(dict.fromkeys([*NAMES, "e"], st.sampled_from([0, 0, 1, 19, 20, 500]))), min_size=3, max_size=7
)


def declared(held: Sequence[Mapping[str, int]]) -> Declared:
    total = np.sum([declaration(NAMES, sizes, MINIMUM) for sizes in held], axis=0)
    return Declared.read(NAMES, total.tolist())


def is_small(held: Sequence[Mapping[str, int]], among: Collection[str]) -> bool:
    """Whether people are in one of these groups, and no group of them is large at enough parties."""
    sizes = [{group: sizes[group] for group in among} for sizes in held]
    someone = any(size for own in sizes for size in own.values())
    large = Counter(group for own in sizes for group, size in own.items() if size >= MINIMUM)
    return someone and not any(times >= LEAST for times in large.values())


def shows_something_small(held: Sequence[Mapping[str, int]], published: Collection[str]) -> bool:
    left = {*NAMES, "e"}.difference(published)
    return any(is_small(held, [group]) for group in published) or (bool(published) and is_small(held, left))


@given(parties)
def test_nothing_small_is_published_or_left(held: list[dict[str, int]]) -> None:
    assert not shows_something_small(held, choose(declared(held), LEAST))


@given(parties)
def test_all_that_is_large_is_published_but_for_one(held: list[dict[str, int]]) -> None:
    large = groups.candidates(declared(held), LEAST)
    published = choose(declared(held), LEAST)
    assert set(published) <= set(large)
    assert len(large) - len(published) <= 1


@given(st.lists(parties, min_size=2, max_size=4), st.data())
def test_rounds_together_show_no_more(rounds: list[list[dict[str, int]]], data: st.DataObject) -> None:
    """Data change from round to round, in part: whatever was published, all of it together leaves nobody small."""
    before: set[str] = set()
    held = rounds[0]
    for other in rounds:
        for number in range(min(len(held), len(other))):
            if data.draw(st.booleans()):
                held[number] = other[number]
        published = choose(declared(held), LEAST, before)
        assert not shows_something_small(held, published)
        if not before.issuperset(published):
            before.update(published)
            assert not shows_something_small(held, before)


def test_the_tests_notice_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [{"a": 30, "b": 30, "c": 0, "d": 0, "e": 1}] * 3
    assert choose(declared(few), LEAST) == ("b",)
    monkeypatch.setattr(groups, "is_safe", lambda *_: True)
    assert choose(declared(few), LEAST) == ("a", "b")
    assert shows_something_small(few, ("a", "b"))


def test_people_outside_of_the_named_groups_may_be_many() -> None:
    many = [{"a": 30, "b": 30, "c": 0, "d": 0, "e": 30}] * 3
    assert choose(declared(many), LEAST) == ("a", "b")
