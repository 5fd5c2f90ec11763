"""Which groups may be released: none that is small, and none that makes a small one computable by difference.

How large a group is over all parties nobody knows, and nobody may learn it. So the rule rests on what each party can
say of itself without telling a number:

1. a party declares the groups of which it holds `minimum_size` people or more (a group that is small everywhere is not
   even named). A group is a candidate when `minimum_parties` parties declare it: then it has at least
   minimum_size·minimum_parties people, and no fewer than minimum_parties − 1 other parties hide each of them;
2. a party says whether it holds anyone outside of the candidates. If anyone does, then the total less the published
   groups is a result about those people. It may be computed only if they are as many, by the same rule; otherwise the
   candidate that the fewest parties declared is not published either, and the difference is about both.

Each party's answers go to the leader, under a key that the aggregator lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fheval.counting import Table
from fheval.errors import ConfigError

DEFAULT_MINIMUM_SIZE = 20

TOO_SMALL = "suppressed: too few parties hold enough samples of it"
BY_DIFFERENCE = "suppressed: with it, a smaller group could be computed as what is left of the total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What makes a group large enough: so many people each at so many parties."""

    minimum_size: int
    minimum_parties: int

    def __post_init__(self) -> None:
        if self.minimum_size < 1 or self.minimum_parties < 1:
            raise ConfigError("The smallest group that is released must be at least 1, and so must its parties.")


@dataclass(frozen=True, slots=True)
class Decision:
    """The groups that are published, and why others are not."""

    published: tuple[str, ...]
    suppressed: Mapping[str, str]


def group_sizes(tables: Iterable[Table], *, by_cluster: bool = False) -> Counter[str]:
    """Party: how many of its samples, or clusters of samples, each group has; "" stands for no group at all."""
    seen: set[tuple[str, str]] = set()
    sizes: Counter[str] = Counter()
    for table in tables:
        if table.groups is None:
            raise ConfigError("A party has no group column. Name one that every party has.")
        groups = table.groups.values.tolist()
        if by_cluster and table.clusters is not None:
            fresh = set(zip(groups, table.clusters.values.tolist(), strict=True)) - seen
            seen |= fresh
            sizes.update(group for group, _ in fresh)
        else:
            sizes.update(groups)
    return sizes


def large_groups(sizes: Mapping[str, int], rule: Rule) -> frozenset[str]:
    """Party, first answer: the groups of which it holds enough."""
    return frozenset(group for group, size in sizes.items() if group and size >= rule.minimum_size)


def candidates(declared: Mapping[str, Collection[str]], rule: Rule) -> tuple[str, ...]:
    """Leader: the groups that enough parties declare."""
    times = Counter(group for groups in declared.values() for group in groups)
    return tuple(sorted(group for group, parties in times.items() if parties >= rule.minimum_parties))


def has_others(sizes: Mapping[str, int], groups: Collection[str]) -> bool:
    """Party, second answer: whether it holds anyone outside of these groups."""
    return any(size and group not in groups for group, size in sizes.items())


def decide(declared: Mapping[str, Collection[str]], others: Mapping[str, bool], rule: Rule) -> Decision:
    """Leader: what is published, from the parties' two answers.

    >>> rule = Rule(minimum_size=20, minimum_parties=2)
    >>> decide({"a": ["F", "M"], "b": ["F", "M"], "c": ["F"]}, {"a": False, "b": True, "c": True}, rule).published
    ('F',)
    """
    large = published = candidates(declared, rule)
    times = Counter(group for groups in declared.values() for group in groups)
    if not is_safe(large, declared, others, rule):
        hidden = min(large, key=lambda group: (times[group], group))
        published = tuple(group for group in large if group != hidden)
    named = sorted(set(times) - set(published))
    return Decision(published, {group: BY_DIFFERENCE if group in large else TOO_SMALL for group in named})


def is_safe(
    published: Collection[str], declared: Mapping[str, Collection[str]], others: Mapping[str, bool], rule: Rule
) -> bool:
    """Whether neither a published group nor what is left of the total is small among these parties.

    What is left is nothing, or large by the rule: enough parties declare a group that is not published.
    """
    if not published:
        return True
    if not set(published) <= set(candidates(declared, rule)):
        return False
    outside = sum(any(group not in published for group in groups) for groups in declared.values())
    return outside >= rule.minimum_parties or not (outside or any(others.values()))
