"""From the resamples of a number to an interval around it, and to the p-value of a difference."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isnan

import numpy as np
from numpy.typing import NDArray

from fheval.errors import ConfigError

DEFAULT_REPLICATES = 200


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, and the same number in every resample; NaN where it is undefined.

    `width` is how far the rounding of the release leaves it open.
    """

    value: float
    replicates: NDArray[np.float64]
    width: float

    @property
    def defined(self) -> bool:
        """Whether the data themselves give the number a value."""
        return not isnan(self.value)

    @property
    def lost(self) -> int:
        """In how many resamples it is undefined, for instance for want of a class."""
        return int(np.isnan(self.replicates).sum())

    def interval(self, level: float) -> tuple[float, float]:
        """The percentile interval: the middle `level` of the resamples in which the number is defined.

        The k-th of R ordered resamples has k/(R + 1) of all possible ones below it on average, which is what the
        quantile "weibull" goes by. NumPy's default would have 94 % of them between the ends of a 95 % interval.
        """
        kept = self.replicates[~np.isnan(self.replicates)]
        low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2], method="weibull")
        return float(low), float(high)

    def p_value(self) -> float:
        """Two-sided, that the number is zero: the smallest 1 − level whose percentile interval would leave zero out.

        The data count as one more resample, so that it never is zero.
        """
        kept = self.replicates[~np.isnan(self.replicates)]
        tail = min(int((kept <= 0).sum()), int((kept >= 0).sum()))
        return min(1.0, 2 * (tail + 1) / (len(kept) + 1))

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, self.replicates - other.replicates, self.width + other.width)


def average(estimates: list[Estimate]) -> Estimate:
    """The plain mean, resample by resample; undefined where one of them is."""
    return Estimate(
        float(np.mean([each.value for each in estimates])),
        np.mean([each.replicates for each in estimates], axis=0),
        float(np.mean([each.width for each in estimates])),
    )


def require_enough(level: float, replicates: int) -> None:
    """Refuse an interval whose ends would lie beyond the outermost resamples."""
    if not 0 < level < 1:
        raise ConfigError(f"A confidence level of {level} makes no sense. Use a number such as 0.95.")
    fewest = ceil(round(2 / (1 - level), 9))
    if replicates < fewest:
        raise ConfigError(
            f"{replicates} resamples do not carry an interval of {level:g}. Use {max(fewest, DEFAULT_REPLICATES)}."
        )
