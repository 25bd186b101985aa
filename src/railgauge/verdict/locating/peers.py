"""What the healthy places of a condition have: centre, spread and tail, among values of which some
may be bad.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from railgauge.verdict.locating import scoring

#: Of fewer values nobody is told from the others.
LEAST_PEERS = 4

#: What equal places of a network differ by before many of them are known, and how many values that
#: weighs: a spread of few values is next to nothing by chance (empirical Bayes, as in G. Smyth,
#: Linear Models and Empirical Bayes Methods, 2004, 3.2).
_PRIOR_SPREAD = 0.05
_PRIOR_VALUES = 2

#: Spreads are rounded up in such steps, so that rounds share their tables of weights.
_GRID = math.log(1.05)

#: Of fewer values two groups must have a gap between them.
_MANY = 40

#: So many cuts between two groups are tried, and so many spreads these must be apart.
_CUTS = 64
_APART = 5


class Peers(NamedTuple):
    """The centre of a condition's healthy values, and their spread as a share of it."""

    centre: float
    spread: float
    degrees: int

    @property
    def grid(self) -> int:
        """The spread in 1/10,000."""
        return round(self.spread * 10_000)

    @property
    def weights(self) -> scoring.Weights:
        return scoring.weights(self.grid, self.degrees)


def peers(values: Sequence[float], least_spread: float, below: int = 0) -> Peers | None:
    """Of positive values, the more the better; None where there are too few.

    Of few values the lowest that are `below` a reference, so many, tell which the healthy ones are.
    `least_spread` is what equal places differ by in any case. The values are those of all, unless
    they fall into two groups with a gap between them: then of the better one, which bad parts that
    spoil more than half of the results leave over (a ring of six with two bad nodes: two of six).
    """
    if len(values) >= _MANY:
        below = 0
    if len(values) < LEAST_PEERS and not below:
        return None
    logs = sorted(map(math.log, values))
    better = logs[max(below, _beginning_of_the_better(logs)) :]
    centre = statistics.median(better)
    count = len(better)
    spread = max(least_spread, _shrunk(_deviation(better, centre), count, least_spread))
    spread = math.exp(math.ceil(math.log(spread) / _GRID - 1e-9) * _GRID)
    degrees = scoring.degrees_of_freedom([log - centre for log in better], spread)
    return Peers(math.exp(centre), spread, degrees)


def without(known: Peers, values: Sequence[float], bad: Sequence[float]) -> Peers:
    """The same peers with the tail of the values without the bad ones, which are of parts that are
    low more often than not.
    """
    left = Counter(values)
    left.subtract(bad)
    centre = math.log(known.centre)
    deviations = sorted(math.log(value) - centre for value in left.elements())
    return known._replace(degrees=scoring.degrees_of_freedom(deviations, known.spread))


def _deviation(logs: Sequence[float], centre: float) -> float:
    """1.4826 times the median absolute deviation, without its bias in small samples (C. Croux, P.
    Rousseeuw: Time-Efficient Algorithms for Two Highly Robust Estimators of Scale, 1992: about
    n/(n - 0.8)).
    """
    count = len(logs)
    middle = statistics.median([abs(log - centre) for log in logs])
    return scoring.NORMAL * middle * count / max(count - 0.8, 1)


def _shrunk(spread: float, count: int, least: float) -> float:
    prior = max(_PRIOR_SPREAD, least)
    pooled = count * spread**2 + _PRIOR_VALUES * prior**2
    return math.sqrt(pooled / (count + _PRIOR_VALUES))


def _beginning_of_the_better(logs: Sequence[float]) -> int:
    """Where the better group begins; 0 where there is one group.

    The cut with the most variance between its sides (N. Otsu: A Threshold Selection Method from
    Gray-Level Histograms, 1979), a quarter of the values on either. It parts two groups where their
    medians differ by five spreads, and by twice the least loss that is looked for; one group cut in
    two differs by less than four.
    """
    count = len(logs)
    first, last = max(1, count // 4), count - max(2, count // 4)
    sums = [0.0, *itertools.accumulate(logs)]
    step = max(1, (last - first) // _CUTS)

    def between(place: int) -> float:
        low, high = sums[place] / place, (sums[-1] - sums[place]) / (count - place)
        return place * (count - place) * (high - low) ** 2

    place = max(range(first, last + 1, step), key=between, default=0)
    if not place:
        return 0
    worse, better = logs[:place], logs[place:]
    middles = statistics.median(worse), statistics.median(better)
    spread = max(_deviation(worse, middles[0]), _deviation(better, middles[1]))
    apart = middles[1] - middles[0]
    if count < _MANY:
        # The spread of few values is small by chance: there must be nothing between the two.
        apart = better[0] - worse[-1]
    return place if apart > max(2 * scoring.LEAST_LOSS, _APART * spread) else 0
