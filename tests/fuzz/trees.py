"""Changes to MessagePack that keep it MessagePack: what a hostile peer sends who knows the format."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from fheval.wire import HEADER
from fuzz.damage import damaged

_NUMBERS = (0, 1, -1, 2, 255, 256, 2**31, 2**32, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, float("nan"), float("inf"))
_WORDS = ("", "alder", "birch", "oak", "submit", "clear", "seal", "../..", "\0", "ß" * 70, "a" * 5000)
_NEST = 60


def altered(data: bytes, draw: Random) -> bytes:
    """A message with one to three of its items changed, or its bytes damaged."""
    if not data.startswith(HEADER) or draw.random() < 0.15:
        return damaged(data, draw)
    try:
        tree = msgspec.msgpack.decode(data[len(HEADER) :])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return damaged(data, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        tree = _changed(tree, draw)
    try:
        return HEADER + msgspec.msgpack.encode(tree)
    except (OverflowError, RecursionError):
        return damaged(data, draw)


def _changed(node: Any, draw: Random) -> Any:
    """One item of the tree is another; large leaves are often messages themselves, and changed inside."""
    if isinstance(node, list) and node and draw.random() < 0.85:
        place, kind = draw.randrange(len(node)), draw.random()
        if kind < 0.07:
            return node[:place] + node[place + 1 :]
        if kind < 0.14:
            return [*node, node[place]]
        if kind < 0.18:
            return draw.sample(node, len(node))
        return [*node[:place], _changed(node[place], draw), *node[place + 1 :]]
    if isinstance(node, dict) and node and draw.random() < 0.85:
        key = draw.choice(sorted(node, key=repr))
        if draw.random() < 0.2:
            return {other: value for other, value in node.items() if other != key}
        return {**node, key: _changed(node[key], draw)}
    if isinstance(node, bytes) and draw.random() < 0.8:
        return altered(node, draw) if node.startswith(HEADER) else damaged(node, draw)
    return _another(node, draw)


def _another(node: Any, draw: Random) -> Any:
    kind = draw.randrange(8)
    if kind == 0:
        return None
    if kind == 1:
        return draw.choice(_NUMBERS)
    if kind == 2:
        return draw.choice(_WORDS)
    if kind == 3:
        return draw.randbytes(draw.choice((0, 1, 16, 32, 33, 64, 1000)))
    if kind == 4:
        return [node] * draw.choice((0, 1, 3, 2000 if len(repr(node)) < 100 else 2))
    if kind == 5:
        return {"": node}
    if kind == 6 and isinstance(node, int) and abs(node) < 2**62:
        return node + draw.choice((-1, 1, 1000))
    nested: Any = node
    for _ in range(_NEST):
        nested = [nested]
    return nested
