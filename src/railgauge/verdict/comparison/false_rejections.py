"""How often the bounds of a baseline reject a healthy campaign.

A healthy campaign measures each place once. Its number there is that place's median, and a
deviation such as the runs of all places had. The deviations are smoothed by a normal kernel (B.
Silverman, Density Estimation, 1986, 3.4.2), as those of few runs have no tail. All are logarithms,
positive on the worse side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from railgauge.common.spread import LEAST_SD
from railgauge.verdict.comparison.significance import Floats

#: At most this share of healthy campaigns is rejected by all bounds together.
MOST_REJECTED = 1e-3

#: So many deviations stand for all, evenly among them.
_DEVIATIONS = 512


class Runs(NamedTuple):
    """How far the median of each place is from the value, and each run from its place's median.

    `runs` is the number of runs of a place.
    """

    of_places: Floats
    of_runs: Floats
    runs: float

    def rejected(self, bound: float) -> float:
        """The share of healthy campaigns with a number beyond `bound`."""
        deviations = np.sort(self.of_runs) * self._unbiased
        if deviations.size > _DEVIATIONS:
            # The farthest one is among them.
            chosen = np.linspace(deviations.size - 1, 0, _DEVIATIONS)
            deviations = deviations[chosen.round().astype(np.int64)]
        distances = bound - self.of_places[:, None] - deviations[None, :]
        of_places = scipy.special.ndtr(-distances / self._width).mean(axis=1)
        good = np.log1p(-np.minimum(of_places, 1 - 1e-12)).sum()
        return -math.expm1(float(good))

    def within(self, bound: float, most: float) -> float:
        """The least bound, from this one on, that rejects at most that share of them."""
        if self.rejected(bound) <= most:
            return bound
        low, high = bound, 2 * bound
        while self.rejected(high) > most:
            low, high = high, 2 * high
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if self.rejected(middle) <= most else (middle, high)
        return high

    @property
    def _unbiased(self) -> float:
        """The median of few runs lies nearer to each of them than the truth does."""
        return math.sqrt(self.runs / max(self.runs - 1, 1))

    @property
    def _width(self) -> float:
        spread = float(self.of_runs.std()) * self._unbiased
        width = 1.06 * spread / math.pow(self.of_runs.size, 0.2)
        return max(width, LEAST_SD)
