"""Decision points: the public thresholds θ_0 > … > θ_{N-1} at which every party of a round counts.

A grid travels in the round's description, so all parties must come to bit-identical points. Even points are
correctly rounded quotients; points that need a logarithm or an exponential are worked out in decimal
arithmetic, because the results of `math.log` and `numpy.exp` differ between platforms in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fheval.errors import ConfigError

Kind = Literal["wide", "even", "logit", "explicit"]
Scale = Literal["probability", "logit", "any"]

# More points than any ciphertext has slots for; a hostile round description cannot ask for more.
MAX_POINTS = 1 << 20

# Interior points of a logit grid lie between the logits ±16: 1 − σ(16) is 1.1e-7, about two float32 steps
# below 1.
LOGIT_LIMIT = 16

# Interior points of a wide grid have the logits 4·sinh(u), u even, from +30 to −30. Of 1,000 points, those near 0.5 are
# 0.022 apart on the logit scale, those near 1 % 0.033, near 1e-6 0.079 and near 1e-13 0.165. Of the spacings that were
# measured (docs/grids.md) this one was off by least. 1 − σ(30) is 843 float64 steps below 1, so that even
# 65,536 points are all different.
WIDE_UNIT = 4
WIDE_LIMIT = 30
MOST_WIDE_POINTS = 1 << 16

DEFAULT_POINTS = 1000

# Decimal digits that leave a correctly rounded float64 beyond reasonable doubt (it has 17).
_DIGITS = 40

_LARGEST = float(np.finfo(np.float64).max)
_SHOWN_POINTS = 6


class GridError(ConfigError, ValueError):
    """A grid that cannot be; also a `ValueError`, so that msgspec refuses a message that carries one."""


class Grid(msgspec.Struct, frozen=True, cache_hash=True, array_like=True, forbid_unknown_fields=True):
    """A strictly decreasing list of decision points; use `wide`, `even`, `logit` or `explicit` to make one.

    A grid may be a field of a message: equal grids give equal bytes, different grids different ones.

    >>> Grid.even(5).points.tolist()
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """

    kind: Kind
    size: int
    scores: Scale
    listed: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check_size(self.size)
        if self.kind == "wide" and self.size > MOST_WIDE_POINTS:
            raise GridError(f"A wide grid has at most {MOST_WIDE_POINTS} points, not {self.size}. 1,000 is usual.")
        if self.kind == "explicit":
            _check_listed(self)
        elif self.listed or self.scores == "any":
            raise GridError(f"A grid of kind {self.kind} has no list of points. Use Grid.explicit for a list.")

    @classmethod
    def wide(cls, n: int = DEFAULT_POINTS, *, scores: Literal["probability", "logit"] = "probability") -> Grid:
        """Place n points for scores of any model: their logits are 4·sinh(u), u even, within ±30; the ends are 1 and 0.

        Close together around 0.5 and ever wider apart on the way to 1e-13 and 1 − 1e-13, they fit calibrated scores,
        rare outcomes, scores divided by a hundred, and models that are far too sure of themselves.

        >>> [round(point, 6) for point in Grid.wide(7).points.tolist()]
        [1.0, 1.0, 0.999289, 0.5, 0.000711, 0.0, 0.0]
        >>> [round(cut, 2) for cut in Grid.wide(7, scores="logit").cuts.tolist()]
        [inf, 30.0, 7.25, 0.0, -7.25, -30.0, -inf]
        """
        return cls(kind="wide", size=n, scores=scores)

    @classmethod
    def even(cls, n: int, *, scores: Literal["probability", "logit"] = "probability") -> Grid:
        """Place n points evenly from 1 down to 0: θ_i is the float nearest to (n − 1 − i)/(n − 1).

        With `scores="logit"` a score is the logit of a probability, any finite number. It is compared with
        the float nearest to the logit of (n − 1 − i)/(n − 1) and not passed through a sigmoid, which would
        merge large scores.
        """
        return cls(kind="even", size=n, scores=scores)

    @classmethod
    def logit(cls, n: int, *, scores: Literal["probability", "logit"] = "probability") -> Grid:
        """Place n points evenly on the logit scale, for scores that crowd near 0 or 1; the ends are 1 and 0.

        >>> [round(point, 6) for point in Grid.logit(5).points.tolist()]
        [1.0, 1.0, 0.5, 0.0, 0.0]
        >>> Grid.logit(5, scores="logit").cuts.tolist()
        [inf, 16.0, 0.0, -16.0, -inf]
        """
        return cls(kind="logit", size=n, scores=scores)

    @classmethod
    def explicit(cls, points: Iterable[float]) -> Grid:
        """Take a public, strictly decreasing list of finite numbers; scores may then be any finite numbers.

        The first point counts no sample and the last one every sample, whatever the scores, so that the curve
        runs from the origin to (1, 1): samples above the first point count from the second point on.
        """
        listed = tuple(float(point) + 0.0 for point in points)  # + 0.0 makes one zero of two
        return cls(kind="explicit", size=len(listed), scores="any", listed=listed)

    @property
    def points(self) -> NDArray[np.float64]:
        """θ_0 … θ_{N-1} as a read-only array, shape (N,), strictly decreasing."""
        return _points(self)

    @property
    def cuts(self) -> NDArray[np.float64]:
        """The numbers that scores are compared with: θ, or logit(θ) where scores are logits; read-only."""
        return _cuts(self)

    @property
    def score_range(self) -> tuple[float, float]:
        """Smallest and largest score that this grid accepts, both included."""
        return (0.0, 1.0) if self.scores == "probability" else (-_LARGEST, _LARGEST)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        if self.kind != "explicit":
            scale = "" if self.scores == "probability" else f", scores={self.scores!r}"
            return f"Grid.{self.kind}({self.size}{scale})"
        if self.size <= _SHOWN_POINTS:
            return f"Grid.explicit({list(self.listed)})"
        return f"Grid.explicit(<{self.size} points from {self.listed[0]} to {self.listed[-1]}>)"


# By their names: what places a number of points by itself, and so needs no list.
PLACED = {"wide": Grid.wide, "even": Grid.even, "logit": Grid.logit}
DEFAULT_KIND = "wide"


def as_grid(decision_points: int | Grid) -> Grid:
    """Turn the number of decision points into a wide grid; pass a grid through.

    >>> as_grid(1000)
    Grid.wide(1000)
    """
    return decision_points if isinstance(decision_points, Grid) else Grid.wide(decision_points)


def _check_size(size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise GridError(f"The number of decision points must be a whole number, not {size!r}.")
    if size < 2:
        raise GridError(f"A curve needs at least 2 decision points, not {size}. 100 to 1,000 is usual.")
    if size > MAX_POINTS:
        raise GridError(f"{size} decision points exceed the limit of {MAX_POINTS}. 100 to 1,000 is usual.")


def _check_listed(grid: Grid) -> None:
    if grid.scores != "any" or grid.size != len(grid.listed):
        raise GridError("An explicit grid is its list of points and nothing else. Use Grid.explicit.")
    for point in grid.listed:
        if not math.isfinite(point):
            raise GridError(f"Decision points must be finite numbers, not {point}. Remove it from the list.")
    for above, below in zip(grid.listed, grid.listed[1:], strict=False):
        if not above > below:
            raise GridError(
                f"Decision points must strictly decrease, but {below} follows {above}. "
                "Sort them, highest first, and name each once."
            )


@lru_cache(maxsize=32)
def _points(grid: Grid) -> NDArray[np.float64]:
    if grid.kind == "explicit":
        return _read_only(grid.listed)
    steps = grid.size - 1
    if grid.kind == "even":
        # A quotient and not 1 − i/steps: of eleven points, the eighth is then the float that "0.3" gives.
        return _read_only(np.arange(steps, -1, -1) / steps)
    return _read_only([1.0, *_sigmoids(_logits(grid)), 0.0])


@lru_cache(maxsize=32)
def _cuts(grid: Grid) -> NDArray[np.float64]:
    if grid.scores != "logit":
        return _points(grid)
    if grid.kind == "even":
        interior = _logits_of_even_points(grid.size)
    else:
        interior = [float(logit) for logit in _logits(grid)]
    return _read_only([math.inf, *interior, -math.inf])


def _even_logits(size: int) -> list[Decimal]:
    """Space the size − 2 interior logits evenly from +LOGIT_LIMIT to −LOGIT_LIMIT."""
    gaps = size - 3
    if gaps < 1:
        return [Decimal(0)] * (size - 2)
    with localcontext() as context:
        context.prec = _DIGITS
        return [Decimal(LOGIT_LIMIT * (gaps - 2 * i)) / gaps for i in range(gaps + 1)]


def _wide_logits(size: int) -> list[Decimal]:
    """Space the size − 2 interior logits evenly in arsinh(logit/4), from +WIDE_LIMIT to −WIDE_LIMIT."""
    gaps = size - 3
    if gaps < 1:
        return [Decimal(0)] * (size - 2)
    with localcontext() as context:
        context.prec = _DIGITS
        farthest = Decimal(WIDE_LIMIT) / WIDE_UNIT
        largest = (farthest + (farthest * farthest + 1).sqrt()).ln()
        # sinh is odd: half of the exponentials will do.
        powers = [(largest * (gaps - 2 * i) / gaps).exp() for i in range((gaps + 1) // 2)]
        upper = [WIDE_UNIT * (power - 1 / power) / 2 for power in powers]
        middle = [Decimal(0)] if gaps % 2 == 0 else []
        return upper + middle + [-logit for logit in reversed(upper)]


def _logits(grid: Grid) -> list[Decimal]:
    return _wide_logits(grid.size) if grid.kind == "wide" else _even_logits(grid.size)


def _sigmoids(logits: Iterable[Decimal]) -> list[float]:
    with localcontext() as context:
        context.prec = _DIGITS
        return [float(1 / (1 + (-logit).exp())) for logit in logits]


def _logits_of_even_points(size: int) -> list[float]:
    """Return ln(j/(steps − j)) for the interior points j/steps, highest first."""
    steps = size - 1
    with localcontext() as context:
        context.prec = _DIGITS
        # logit(1 − p) = −logit(p): half of the logarithms will do.
        upper = [float((Decimal(j) / (steps - j)).ln()) for j in range(steps - 1, steps // 2, -1)]
    middle = [0.0] if steps % 2 == 0 else []
    return upper + middle + [-logit for logit in reversed(upper)]


def _read_only(values: Iterable[float]) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array
