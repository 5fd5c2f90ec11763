"""Axes of a plot: where a value lies, which ticks are drawn, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows, and whether its scale is logarithmic; `bounds` fixes its ends."""

    label: str
    log: bool = False
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis laid over some values: its ends, its ticks, and the place of any value between 0 and 1."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool

    @classmethod
    def over(cls, axis: Axis, values: Sequence[float]) -> Scale:
        """Take in all values, and on a linear axis zero; ends are ticks unless the axis has bounds.

        >>> Scale.over(Axis("parties"), [5, 100]).ticks
        (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
        >>> Scale.over(Axis("N", log=True), [10, 2000]).ticks
        (10.0, 100.0, 1000.0, 10000.0)
        """
        low, high = axis.bounds or (min(values) if axis.log else min(0.0, *values), max(values))
        if not low < high:
            high = low * 10 if axis.log else low + 1
        ticks = _decades(low, high) if axis.log else _round_steps(low, high)
        if axis.bounds:
            return cls(low, high, tuple(tick for tick in ticks if low <= tick <= high), axis.log)
        return cls(ticks[0], ticks[-1], tuple(ticks), axis.log)

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high one; a value beyond an end is put on it."""
        if self.log:
            share = log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)


def _round_steps(low: float, high: float) -> list[float]:
    rough = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    # Counted in steps, so that ticks carry no rounding from adding up.
    return [number * step for number in range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9)
    stride = ceil((last - first) / (_MOST_TICKS + 1))
    return [10.0**power for power in range(first, last + stride, stride)]


def written(value: float) -> str:
    """A tick's number.

    >>> written(0.02), written(1000.0), written(1e-5), written(1e10), written(2e6)
    ('0.02', '1,000', '10⁻⁵', '10¹⁰', '2·10⁶')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.10g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    shortened = mantissa.rstrip("0").rstrip(".")
    return power if shortened == "1" else f"{shortened}·{power}"
