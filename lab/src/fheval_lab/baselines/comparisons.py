"""What the MPC baseline compares, and in which order: public, and so that comparing shows nothing of the scores.

Scores are integers in the same order, with the same ties, in as few bits as their format allows, since a comparison on
secret-shared integers costs in proportion to their bits. IEEE 754 numbers that are not negative are ordered like their
bit patterns. The narrowest format that keeps every score apart is taken, and is public; each party can test its own
scores for it without showing them.

Sorted lists are merged by a network of comparators, Batcher's odd-even merge, for any lengths. Which positions are
compared depends on the lengths alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ScoreFormat:
    """A way to write scores as integers; `fits` says whether a party's scores are all of this format."""

    name: str
    value_bits: int
    unit_bits: int
    fits: Callable[[Scores], bool]
    encode: Callable[[Scores], Codes]

    def difference_bits(self, *, unit: bool) -> int:
        """The bits, sign included, of the difference of two codes; `unit` when all scores lie in [0, 1]."""
        return self.unit_bits + 1 if unit else self.value_bits + 1


def _single(scores: Scores) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is then found not to fit
        return scores.astype(np.float32)


def _codes_of_single(scores: Scores) -> Codes:
    magnitude = np.abs(_single(scores)).view(np.int32).astype(np.int64)
    return np.where(scores < 0, -magnitude, magnitude)


def _codes_of_double(scores: Scores) -> Codes:
    magnitude = np.abs(scores).view(np.int64)
    return np.where(scores < 0, -magnitude, magnitude)


def _is_single(scores: Scores) -> bool:
    return bool(np.all(_single(scores) == scores))


def _is_printed_single(scores: Scores) -> bool:
    """Whether every score is the double nearest to the shortest decimal of a single: text written by float32 code.

    Two different such doubles come from two different singles, so rounding to single loses neither order nor ties.
    """
    single = _single(scores)
    return bool(np.all(np.isfinite(single))) and bool(np.all(single.astype(str).astype(np.float64) == scores))


# 0x3F800000 is the single 1.0 (30 bits), 0x3FF0000000000000 the double 1.0 (62 bits).
FORMATS = (
    ScoreFormat("float32", 32, 30, _is_single, _codes_of_single),
    ScoreFormat("float32 as decimal text", 32, 30, _is_printed_single, _codes_of_single),
    ScoreFormat("float64", 64, 62, lambda _: True, _codes_of_double),
)


def common_format(parties: Sequence[Scores]) -> ScoreFormat:
    """The first format that fits the scores of every party.

    >>> common_format([np.array([0.5]), np.array([1 / 3])]).name
    'float64'
    >>> common_format([np.array([0.3]), np.array([0.1])]).name
    'float32 as decimal text'
    """
    return next(form for form in FORMATS if all(form.fits(scores) for scores in parties))


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
