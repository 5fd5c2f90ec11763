"""From the released ratio to the metric, and how far a rounded ratio leaves it open."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True, kw_only=True)
class Finisher:
    """metric = offset + scale·ratio, or offset + scale·√ratio.

    `resolution` is what fixed-point counting leaves open of the ratio, before it is rounded for release.
    """

    offset: float = 0.0
    scale: float = 1.0
    root: bool = False
    resolution: float = 0.0

    def __call__(self, ratio: float) -> float:
        """Finish a ratio; rounding may have put one of zero a little below."""
        return self.offset + self.scale * (sqrt(max(ratio, 0.0)) if self.root else ratio)

    def width(self, ratio: float, precision: float) -> float:
        """How wide the interval is that the metric lies in, for a ratio that was rounded to `precision`.

        >>> Finisher(scale=2.0).width(0.7, 1e-4)
        0.0002
        >>> round(Finisher(root=True).width(0.0, 1e-4), 6)
        0.007071
        """
        around = precision + self.resolution
        if not self.root:
            return abs(self.scale) * around
        return abs(self(ratio + around / 2) - self(ratio - around / 2))
