"""How large a party's groups are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from fheval.counting import Table
from fheval.errors import ConfigError

DEFAULT_MINIMUM_SIZE = 20


class GroupSizes:
    """How many of a party's samples, or clusters of samples, each group has; "" stands for no group at all."""

    def __init__(self, *, by_cluster: bool) -> None:
        self.sizes: Counter[str] = Counter()
        self._by_cluster = by_cluster
        self._seen: set[tuple[str, str]] = set()

    def add(self, table: Table) -> None:
        if table.groups is None:
            raise ConfigError("A party has no group column. Name one that every party has.")
        groups = table.groups.values.tolist()
        if self._by_cluster and table.clusters is not None:
            fresh = set(zip(groups, table.clusters.values.tolist(), strict=True)) - self._seen
            self._seen |= fresh
            self.sizes.update(group for group, _ in fresh)
        else:
            self.sizes.update(groups)


def group_sizes(tables: Iterable[Table], *, by_cluster: bool = False) -> Counter[str]:
    """The same of all tables of a party."""
    found = GroupSizes(by_cluster=by_cluster)
    for table in tables:
        found.add(table)
    return found.sizes


def named_groups(sizes: Collection[Mapping[str, int]], minimum_size: int) -> tuple[str, ...]:
    """The groups of which some party holds enough: one that is small everywhere is not even named."""
    return tuple(sorted({group for own in sizes for group, size in own.items() if group and size >= minimum_size}))
