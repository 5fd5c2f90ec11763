"""A public network of comparators that merges sorted lists: Batcher's odd-even merge, for any lengths.

Which positions are compared depends on the lengths alone, so that a computation on secret-shared values that
follows the network shows nothing of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Layer:
    """Comparators that touch disjoint positions: the larger value goes to `first`, the other to `second`."""

    first: Positions
    second: Positions


@dataclass(frozen=True, slots=True)
class MergeNetwork:
    """Layers to apply one after another; then position `order[k]` holds the k-th largest value."""

    layers: tuple[Layer, ...]
    order: Positions

    @property
    def comparisons(self) -> int:
        return sum(len(layer.first) for layer in self.layers)


def merge_network(lengths: Sequence[int]) -> MergeNetwork:
    """The network that merges lists of these lengths, each sorted from the largest down and laid end to end.

    Lists are merged in pairs, then the results in pairs: n·log²-ish comparators for n values, in a depth that
    grows with the logarithms of the number of lists and of their lengths.

    >>> network = merge_network([2, 1])
    >>> [(layer.first.tolist(), layer.second.tolist()) for layer in network.layers]
    [([0], [2]), ([1], [2])]
    >>> network.order.tolist()
    [0, 1, 2]
    """
    starts = np.cumsum([0, *lengths])
    lists = [list(range(start, start + length)) for start, length in zip(starts, lengths, strict=False)]
    comparators: list[tuple[int, int]] = []
    while len(lists) > 1:
        pairs = zip(lists[::2], lists[1::2], strict=False)
        unpaired = lists[-1:] if len(lists) % 2 else []
        lists = [_merge(left, right, comparators) for left, right in pairs] + unpaired
    order = lists[0] if lists else []
    return MergeNetwork(_layers(comparators, int(starts[-1])), np.array(order, dtype=np.intp))


def _merge(left: list[int], right: list[int], comparators: list[tuple[int, int]]) -> list[int]:
    """Append the comparators that merge two sorted lists of positions; give the positions in sorted order."""
    if not left or not right:
        return left or right
    if len(left) == len(right) == 1:
        comparators.append((left[0], right[0]))
        return [left[0], right[0]]
    odd = _merge(left[::2], right[::2], comparators)
    even = _merge(left[1::2], right[1::2], comparators)
    # The largest is odd[0]; from there on, even[i] and odd[i + 1] are the only two candidates for a pair of places.
    merged = odd[:1]
    for position, other in zip(even, odd[1:], strict=False):
        comparators.append((position, other))
        merged += [position, other]
    paired = min(len(even), len(odd) - 1)
    return merged + even[paired:] + odd[paired + 1 :]


def _layers(comparators: Sequence[tuple[int, int]], positions: int) -> tuple[Layer, ...]:
    """Put each comparator into the first layer after all earlier ones that touch its positions."""
    depth = [0] * positions
    layers: list[list[tuple[int, int]]] = []
    for first, second in comparators:
        at = max(depth[first], depth[second])
        depth[first] = depth[second] = at + 1
        if at == len(layers):
            layers.append([])
        layers[at].append((first, second))
    return tuple(Layer(*(np.array(side, dtype=np.intp) for side in zip(*layer, strict=True))) for layer in layers)
