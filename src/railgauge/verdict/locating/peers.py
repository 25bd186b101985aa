"""The centre, spread and tail of a condition's healthy values, among values of which some may be
bad.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

from railgauge.node.carried import NORMAL
from railgauge.verdict.locating import scoring

#: Among fewer values none can be told from the others.
LEAST_PEERS = 4

#: The spread of equal places of a network that is assumed at first, and the number of values that
#: it weighs: few values may have a spread near zero by chance (empirical Bayes, as in G. Smyth,
#: Linear Models and Empirical Bayes Methods, 2004, 3.2).
_PRIOR_SPREAD = 0.05
_PRIOR_VALUES = 2

#: Spreads are rounded up in steps of this ratio, so that rounds share their tables of weights.
_GRID = math.log(1.05)

#: With fewer values, two groups must have a gap between them.
_MANY = 40

#: How many cuts between two groups are tried, and how many spreads these must be apart.
_CUTS = 64
_LEAST_DISTANCE = 5

#: Who has more than this share of the results while all else was quiet is no peer of its own there.
_OWN_SHARE = 0.25

_End = TypeVar("_End", bound=Hashable)


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

    @property
    def most(self) -> float:
        """A value above it is of another group than these."""
        apart = max(2 * scoring.LEAST_LOSS, _LEAST_DISTANCE * self.spread)
        return self.centre * math.exp(apart)


def peers(values: Sequence[float], least_spread: float, below: int = 0) -> Peers | None:
    """The peers of positive values, the more the better; None where there are too few values.

    Of few values, the number that are `below` a reference tells which the healthy ones are.
    `least_spread` is the least spread of equal places. The peers are all values, unless these fall
    into two groups with a gap between them. Then they are the better group: bad parts can spoil
    more than half of the results (of a ring of six with two bad nodes, two results are good).
    """
    if len(values) >= _MANY:
        below = 0
    if len(values) < LEAST_PEERS and not below:
        return None
    logs = sorted(map(math.log, values))
    better = logs[max(below, _better_group_start(logs)) :]
    centre = statistics.median(better)
    count = len(better)
    spread = max(least_spread, _shrunk_spread(_deviation(better, centre), count, least_spread))
    spread = math.exp(math.ceil(math.log(spread) / _GRID - 1e-9) * _GRID)
    degrees = scoring.degrees_of_freedom([log - centre for log in better], spread)
    return Peers(math.exp(centre), spread, degrees)


def without(known: Peers, values: Sequence[float], bad: Sequence[float]) -> Peers:
    """The same peers, with the tail of the values without the bad ones: those of parts that are low
    more often than not.
    """
    remaining = Counter(values)
    remaining.subtract(bad)
    centre = math.log(known.centre)
    deviations = sorted(math.log(value) - centre for value in remaining.elements())
    return known._replace(degrees=scoring.degrees_of_freedom(deviations, known.spread))


def _deviation(logs: Sequence[float], centre: float) -> float:
    """1.4826 times the median absolute deviation, without its bias in small samples (C. Croux, P.
    Rousseeuw: Time-Efficient Algorithms for Two Highly Robust Estimators of Scale, 1992: about
    n/(n - 0.8)).
    """
    count = len(logs)
    middle = statistics.median([abs(log - centre) for log in logs])
    return NORMAL * middle * count / max(count - 0.8, 1)


def _shrunk_spread(spread: float, count: int, least: float) -> float:
    prior = max(_PRIOR_SPREAD, least)
    pooled = count * spread**2 + _PRIOR_VALUES * prior**2
    return math.sqrt(pooled / (count + _PRIOR_VALUES))


def _better_group_start(logs: Sequence[float]) -> int:
    """The index at which the better group begins; 0 where there is one group.

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
    return place if apart > max(2 * scoring.LEAST_LOSS, _LEAST_DISTANCE * spread) else 0


def least_quiet(
    results: Sequence[tuple[tuple[_End, _End], float]], loaded: float, tolerated: float
) -> dict[tuple[_End, _End], float]:
    """For the two ends of each result while all else was quiet, the least value that is good: as
    much as others have then, and no less than `loaded`, the centre beside others, less what equal
    places differ by (`tolerated`, of its logarithm). A bad end that is measured so again and again
    is not as good as itself.
    """
    counts = Counter(end for ends, _ in results for end in ends)
    often = {end for end, count in counts.items() if count > _OWN_SHARE * len(results)}
    least: dict[tuple[_End, _End], float] = {}
    by_own: dict[frozenset[_End], float] = {}
    for ends, _ in results:
        own = frozenset(often.intersection(ends))
        if own not in by_own:
            others = [value for both, value in results if value and own.isdisjoint(both)]
            usual = max(loaded, statistics.median(others) if others else 0.0)
            by_own[own] = usual * math.exp(-tolerated)
        least[ends] = by_own[own]
    return least
