"""Small groups are never released, also not as the difference between the total and the groups that are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from hypothesis import find, given, settings
from hypothesis import strategies as st

from fheval.metrics.groups import (
    Decision,
    Rule,
    candidates,
    decide,
    has_others,
    large_groups,
)

Sizes = dict[str, Counter[str]]

groups = st.sampled_from(["", "a", "b", "c", "d"])
party_sizes = st.dictionaries(groups, st.integers(0, 8), max_size=5).map(Counter)
consortia = st.lists(party_sizes, min_size=1, max_size=6).map(
    lambda sizes: {f"party-{number}": each for number, each in enumerate(sizes)}
)
rules = st.builds(Rule, minimum_size=st.integers(1, 5), minimum_parties=st.integers(1, 3))


def declared(sizes: Sizes, rule: Rule) -> dict[str, frozenset[str]]:
    return {party: large_groups(own, rule) for party, own in sizes.items()}


def others(sizes: Sizes, rule: Rule) -> dict[str, bool]:
    proposed = candidates(declared(sizes, rule), rule)
    return {party: has_others(own, proposed) for party, own in sizes.items()}


def decision(sizes: Sizes, rule: Rule) -> Decision:
    return decide(declared(sizes, rule), others(sizes, rule), rule)


def without_complement(sizes: Sizes, rule: Rule) -> Decision:
    """What one would publish who forgets about differences."""
    return Decision(candidates(declared(sizes, rule), rule), {})


def is_large(people: Mapping[str, int], rule: Rule) -> bool:
    """Whether enough parties each hold enough of these people, or nobody is among them."""
    enough = sum(size >= rule.minimum_size for size in people.values())
    return enough >= rule.minimum_parties or not any(people.values())


def reconstructible(sizes: Sizes, published: tuple[str, ...]) -> list[dict[str, int]]:
    """Everyone whom the released numbers single out: each published group, and the total less all of them.

    Other sums and differences are unions of these.
    """
    single = [{party: own[group] for party, own in sizes.items()} for group in published]
    rest = {party: sum(own.values()) - sum(own[group] for group in published) for party, own in sizes.items()}
    return [*single, rest] if published else single


def leaks(sizes: Sizes, rule: Rule, choose: Callable[[Sizes, Rule], Decision]) -> bool:
    return not all(is_large(people, rule) for people in reconstructible(sizes, choose(sizes, rule).published))


@settings(max_examples=500)
@given(consortia, rules)
def test_no_small_group_is_released_or_left_over(sizes: Sizes, rule: Rule) -> None:
    assert not leaks(sizes, rule, decision)


def test_without_complementary_suppression_a_small_group_would_be_left_over() -> None:
    rule = Rule(minimum_size=3, minimum_parties=2)
    found = find(consortia, lambda sizes: leaks(sizes, rule, without_complement))
    assert not leaks(found, rule, decision)


@settings(max_examples=200)
@given(consortia, rules)
def test_no_more_is_suppressed_than_one_group_beside_the_small_ones(sizes: Sizes, rule: Rule) -> None:
    found = decision(sizes, rule)
    large = candidates(declared(sizes, rule), rule)
    assert set(found.published) <= set(large)
    assert len(large) - len(found.published) <= 1
    if not any(others(sizes, rule).values()):
        assert found.published == large


@settings(max_examples=200)
@given(consortia, rules)
def test_every_named_group_is_published_or_said_to_be_suppressed(sizes: Sizes, rule: Rule) -> None:
    found = decision(sizes, rule)
    named = {group for names in declared(sizes, rule).values() for group in names}
    assert set(found.published) | set(found.suppressed) == named
    assert "" not in named
    assert not set(found.published) & set(found.suppressed)
